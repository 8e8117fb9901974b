"""The database file: its connections, its lock, and the mapping of its failures to Errors.

One connection writes, a few read; in WAL mode neither waits for the other, and each read
transaction sees one committed state. Only this module begins transactions: the driver's own are
off, because they would begin too late (a read followed by a write) or too weak (not IMMEDIATE).
``synchronous=FULL``: a returned commit is durable. Where a log has the commits already, ``NORMAL``
is enough: a crash may take back the last ones, and the log has them.

Connections come from SQLAlchemy, which provides drivers and pools; hot statements use the driver's
cursor directly. This module knows neither records nor the log.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from traceback import clear_frames
from typing import IO, Final, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool, PoolProxiedConnection, QueuePool

from rowcast.core.errors import Code, Error
from rowcast.core.limits import (
    STATEMENT_CACHE_STATEMENTS_MAX,
    STORE_BUSY_SECONDS,
    STORE_JOURNAL_BYTES_MAX,
    STORE_PAGE_CACHE_BYTES_MAX,
    STORE_READER_WAIT_SECONDS,
    STORE_READERS_MAX,
)
from rowcast.store.overlay import ViewingConnection, begin
from rowcast.store.private import make_directory, make_file, open_to_append, tighten
from rowcast.store.read_limit import ReadLimit, ThreadLimit

T = TypeVar("T")

FILE_NAME: Final = "rowcast.db"

_PRAGMAS: Final = (
    "journal_mode=WAL",
    "foreign_keys=OFF",
    f"journal_size_limit={STORE_JOURNAL_BYTES_MAX}",
    f"cache_size=-{STORE_PAGE_CACHE_BYTES_MAX // 1024}",
    "temp_store=FILE",
)
"""``temp_store``: what a query sorts or groups beyond ``cache_size`` goes into a file without a
name in the system's folder for such (``TMPDIR``); in memory it would be all of a large table."""

Refusals = tuple[tuple[str, str], ...]
"""Beginnings of SQLite's names of failures, and what is said of them."""

_REFUSALS: Final[Refusals] = (
    ("SQLITE_FULL", "the disk of the database is full; free some space and try again"),
    ("SQLITE_BUSY", "another program has locked the database; end it and try again"),
    ("SQLITE_LOCKED", "another program has locked the database; end it and try again"),
    ("SQLITE_IOERR", "the disk of the database failed ({name}); look at the system's log"),
    ("SQLITE_READONLY", "the database cannot be written ({name}); check its owner and permissions"),
    ("SQLITE_PERM", "the database cannot be written ({name}); check its owner and permissions"),
    ("SQLITE_CANTOPEN", "the database cannot be opened; check that its directory can be written"),
    ("SQLITE_CORRUPT", "the database is damaged; stop the server and restore a backup"),
    ("SQLITE_NOTADB", "the file is not an SQLite database; move it away or name another file"),
)
_NO_ROOM: Final = (
    "the answer needs more room to be sorted or grouped than the server's folder for temporary "
    "files has; ask for less, add @indexed, or free space there (SQLITE_TMPDIR names another)"
)
_READ_REFUSALS: Final[Refusals] = (("SQLITE_FULL", _NO_ROOM), *_REFUSALS)
"""The same for reads, which write nothing but that."""


sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(type(None), cast("Callable[[None], None]", {}.get))
"""The driver looks for what adapts each value of another type than str, int and float, which for
NULL, bytes and booleans takes longer than to bind them: in vain, by an error that it makes and
drops. These give back what they get; all are calls of C."""


class Database:
    """One open SQLite database: a write connection and a pool of read connections."""

    def __init__(
        self,
        url: str | Path,
        busy_seconds: float = STORE_BUSY_SECONDS,
        *,
        synced: bool = True,
        lock: bool = True,
    ) -> None:
        self._busy_seconds = busy_seconds
        self._pragmas = (*_PRAGMAS, f"synchronous={'FULL' if synced else 'NORMAL'}")
        self.on_snapshot: Callable[[sqlite3.Cursor], None] | None = None
        """Called at the beginning of each read transaction."""
        self.url = _url(url)
        self.path = file_of(self.url)
        self._limit = ThreadLimit()
        self._make_directory()
        self._locks = _locked(self.path) if lock else ()
        self._keep_private()
        self._readers = self._engine(readers=True)
        self._writers = self._engine(readers=False)
        try:
            with self.guard():
                self._connection: Connection = self._writers.connect()
            self.writer: sqlite3.Connection = _driver(self._connection)
        except BaseException:
            self.close()
            raise

    def _make_directory(self) -> None:
        try:
            make_directory(self.path.parent)
        except OSError as error:
            raise Error(
                Code.BUSY, f"the data directory {self.path.parent} cannot be made: {error.strerror}"
            ) from error

    def _keep_private(self) -> None:
        """Restrict the file and SQLite's side files to the owner."""
        with suppress(OSError):  # SQLite reports the error
            make_file(self.path)
        names = [self.path.name + end for end in ("", "-wal", "-shm", "-journal", _LOCK)]
        tighten(self.path.with_name(name) for name in names)

    def _engine(self, *, readers: bool) -> Engine:
        arguments = {
            "isolation_level": None,
            "timeout": self._busy_seconds,
            "check_same_thread": False,
            "factory": ViewingConnection,
            "cached_statements": STATEMENT_CACHE_STATEMENTS_MAX,
        }
        if not readers:
            engine = create_engine(self.url, poolclass=NullPool, connect_args=arguments)
        else:
            engine = create_engine(
                self.url,
                poolclass=QueuePool,
                pool_size=STORE_READERS_MAX,
                max_overflow=0,
                pool_timeout=STORE_READER_WAIT_SECONDS,
                connect_args=arguments,
            )

        @event.listens_for(engine, "connect")
        def set_up(connection: sqlite3.Connection, _record: object) -> None:
            for pragma in (*self._pragmas, f"query_only={'ON' if readers else 'OFF'}"):
                connection.execute(f"PRAGMA {pragma}").close()

        return engine

    @contextmanager
    def guard(self, refusals: Refusals = _REFUSALS) -> Iterator[None]:
        """Convert failures of the disk to an Error; other exceptions are bugs and pass through."""
        try:
            yield
        except sqlite3.Error as error:
            refuse(error, self.path, refusals)
            raise
        except DBAPIError as error:
            refuse(error.orig, self.path, refusals)
            raise

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Cursor]:
        """One write transaction: atomic, and durable at the end."""
        writer = self.writer
        cursor = writer.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            # A full disk may have rolled back already.
            if writer.in_transaction:
                writer.rollback()
            with self.guard():  # reports the disk's failure
                raise
        finally:
            cursor.close()

    def limited(self, limit: ReadLimit, call: Callable[[], T]) -> T:
        """Run reads on this thread under a limit; raises its Error."""
        self._limit.now = limit
        try:
            limit.check()
            return call()
        finally:
            self._limit.now = None

    def check_limit(self) -> None:
        """Raise the Error of this thread's read if it was cancelled, between two statements."""
        if self._limit.now is not None:
            self._limit.now.check()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Cursor]:
        """One read transaction: all reads within it see one committed state.

        If its limit cancels it, raises the limit's Error; the connection stays usable.
        """
        limit = self._limit.now
        with self.guard(_READ_REFUSALS):
            connection = self._readers.raw_connection()
            try:
                driver = cast("sqlite3.Connection", connection.driver_connection)
                held = nullcontext() if limit is None else limit.holding(driver.interrupt)
                with _raising(limit, connection), held:
                    cursor = driver.cursor()
                    try:
                        begin(cursor)
                        if self.on_snapshot is not None:
                            self.on_snapshot(cursor)
                        yield cursor
                    finally:
                        cursor.close()
            finally:
                connection.close()  # back to the pool, which ends the transaction

    def sync(self) -> None:
        """Make all commits durable; raises OSError.

        A checkpoint syncs the database itself before it gives up the journal, so the journal is all
        that has commits which are not durable.
        """
        _sync(self.path.with_name(f"{self.path.name}-wal"))

    def close(self) -> None:
        """Close every connection and release the file."""
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()
        self._writers.dispose()
        self._readers.dispose()
        for lock in self._locks:
            lock.close()
        self._locks = ()


def _sync(path: Path) -> None:
    """Sync a file if it exists.

    SQLite has no lock on the journal. A handle of the database must not be closed: that would
    release SQLite's locks on it (fcntl(2)).
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _raising(limit: ReadLimit | None, connection: PoolProxiedConnection) -> Iterator[None]:
    """Raise the limit's Error if its interrupt cancelled a statement.

    A connection stays interrupted while one of its statements is active. Frames of the traceback
    keep such statements alive; they are cleared, and if others remain the connection is replaced.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        if limit is None or limit.ended is None:
            raise
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        clear_frames(error.__traceback__)
        try:
            connection.rollback()
        except sqlite3.OperationalError:
            connection.invalidate()
        raise limit.ended from None


def refuse(error: BaseException | None, path: Path, refusals: Refusals = _REFUSALS) -> None:
    """Raise the Error for a failure of a database; return if it is none.

    The message reaches the server's callers, so it does not contain paths.
    """
    name = getattr(error, "sqlite_errorname", None) or ""
    for prefix, sentence in refusals:
        if name.startswith(prefix):
            refusal = Error(Code.BUSY, sentence.format(name=name))
            refusal.place = str(path)
            raise refusal from error


def file_of(url: str | Path | URL) -> Path:
    """Return the file of a database's address."""
    found = url if isinstance(url, URL) else _url(url)
    return Path(found.database or "").absolute()


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):  # pragma: no cover - _url lets nothing else in
        raise TypeError(type(driver))
    return driver


def _url(text: str | Path) -> URL:
    """Return the URL of a database: from a file, a directory that contains it, or a URL."""
    if isinstance(text, Path) or "://" not in text:
        path = Path(text)
        return URL.create("sqlite", database=str(path / FILE_NAME if path.is_dir() else path))
    try:
        url = make_url(text)
    except ArgumentError:
        raise Error(Code.INVALID, f"{text!r} is no database URL; use {_EXAMPLE}") from None
    if url.get_backend_name() != "sqlite":
        raise Error(
            Code.INVALID,
            f"records cannot be kept in {url.get_backend_name()} yet; use {_EXAMPLE}",
        )
    if url.database in {None, "", ":memory:"}:
        raise Error(Code.INVALID, f"{text!r} names no file; use {_EXAMPLE}")
    return url


_LOCK: Final = ".lock"
_EXAMPLE: Final = "a file, such as sqlite:///data/rowcast.db"


def _locked(path: Path) -> tuple[IO[str], ...]:
    """Lock the file against a second server; the operating system releases the lock.

    The lock file could be removed, and a second server would create another. So the database file
    itself is locked too, whatever its name: with ``flock``, which is independent of SQLite's locks
    (``fcntl``). Closing a file releases the latter for the whole process, so it is only opened
    after the lock file was locked, and closed last.
    """
    name = path.with_name(path.name + _LOCK)
    try:
        lock = open_to_append(name)
    except OSError as error:
        raise Error(
            Code.BUSY, f"the lock file {name} cannot be written: {error.strerror}"
        ) from error
    try:
        _lock(lock, path)
        try:
            file = open_to_append(path)
        except OSError:  # SQLite reports the error
            return (lock,)
        try:
            _lock(file, path)
        except Error:
            file.close()
            raise
    except Error:
        lock.close()
        raise
    return lock, file


def _lock(file: IO[str], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Error(
            Code.BUSY,
            f"{path} is already in use by another server; stop it or name another data directory",
        ) from None
