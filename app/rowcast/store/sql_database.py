"""The database file: its connections, its lock, and what its failures mean to a caller.

One connection writes, a few read; in WAL mode neither waits for the other, and each read
transaction sees one committed state. Transactions are begun here and nowhere else: the driver's
own are off, because they would begin too late (a read that is followed by a write) or too weak
(not IMMEDIATE). ``synchronous=FULL``: a commit that returned is on the disk.

Connections come from SQLAlchemy, which knows drivers and pools; statements of the hot paths go
straight to the driver's cursor. This module knows nothing of records or the log.
"""

import fcntl
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
from rowcast.store.private import make_directory, make_file, open_to_append, tighten
from rowcast.store.read_limit import ReadLimit, ThreadLimit

T = TypeVar("T")

FILE_NAME: Final = "rowcast.db"

_PRAGMAS: Final = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=OFF",
    f"journal_size_limit={STORE_JOURNAL_BYTES_MAX}",
    f"cache_size=-{STORE_PAGE_CACHE_BYTES_MAX // 1024}",
    "temp_store=MEMORY",
)

_REFUSALS: Final = (
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


class Database:
    """One open SQLite database: a connection that writes and a pool of those that read."""

    def __init__(self, url: str | Path) -> None:
        self.url = _url(url)
        self.path = file_of(self.url)
        self._limit = ThreadLimit()
        self._make_directory()
        self._locks = _locked(self.path)
        self._keep_private()
        self._readers = self._engine(readers=True)
        self._writers = self._engine(readers=False)
        try:
            with self.guard():
                self.connection: Connection = self._writers.connect()
            self.writer: sqlite3.Connection = _driver(self.connection)
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
        """Let only the owner read the file, and what SQLite puts beside it."""
        with suppress(OSError):  # SQLite says what is wrong with it
            make_file(self.path)
        names = [self.path.name + end for end in ("", "-wal", "-shm", "-journal", _LOCK)]
        tighten(self.path.with_name(name) for name in names)

    def _engine(self, *, readers: bool) -> Engine:
        arguments = {
            "isolation_level": None,
            "timeout": STORE_BUSY_SECONDS,
            "check_same_thread": False,
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
            for pragma in (*_PRAGMAS, f"query_only={'ON' if readers else 'OFF'}"):
                connection.execute(f"PRAGMA {pragma}").close()

        return engine

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Turn what a disk can do to us into an Error; anything else is a bug and stays one."""
        try:
            yield
        except sqlite3.Error as error:
            refuse(error, self.path)
            raise
        except DBAPIError as error:
            refuse(error.orig, self.path)
            raise

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Cursor]:
        """One transaction of the writer: all of it is durable at the end, or nothing."""
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
            with self.guard():  # says what the disk did
                raise
        finally:
            cursor.close()

    @contextmanager
    def defining(self) -> Iterator[sqlite3.Cursor]:
        """A write transaction in which ``connection`` may make tables too."""
        with self.writing() as cursor:
            try:
                yield cursor
            except BaseException:
                self.connection.rollback()
                raise
        self.connection.rollback()  # SQLAlchemy's own account of the transaction, which has ended

    def limited(self, limit: ReadLimit, call: Callable[[], T]) -> T:
        """Do reads on this thread that end when the limit says so; raises its Error."""
        self._limit.now = limit
        try:
            limit.check()
            return call()
        finally:
            self._limit.now = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Cursor]:
        """One read transaction: all that is read within it is of one committed state.

        Where it is ended by its limit, it raises the limit's Error, and the connection is good for
        the next one.
        """
        limit = self._limit.now
        with self.guard():
            connection = self._readers.raw_connection()
            try:
                driver = cast("sqlite3.Connection", connection.driver_connection)
                held = nullcontext() if limit is None else limit.holding(driver.interrupt)
                with _raising(limit, connection), held:
                    cursor = driver.cursor()
                    try:
                        cursor.execute("BEGIN")
                        yield cursor
                    finally:
                        cursor.close()
            finally:
                connection.close()  # back to the pool, which ends the transaction

    def close(self) -> None:
        """Close every connection and give the file free."""
        connection = getattr(self, "connection", None)
        if connection is not None:
            connection.close()
        self._writers.dispose()
        self._readers.dispose()
        for lock in self._locks:
            lock.close()
        self._locks = ()


@contextmanager
def _raising(limit: ReadLimit | None, connection: PoolProxiedConnection) -> Iterator[None]:
    """Raise the limit's Error where its interrupt ended a statement.

    As long as a statement of the connection is not done it stays interrupted. Those are held by
    frames of the failure, which have ended; where others hold some, another connection is made.
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


def refuse(error: BaseException | None, path: Path) -> None:
    """Raise the Error that a failure of a database means; return when it means none.

    Callers of a server are told it, who need not know where on the disk its files are.
    """
    name = getattr(error, "sqlite_errorname", None) or ""
    for prefix, sentence in _REFUSALS:
        if name.startswith(prefix):
            refusal = Error(Code.BUSY, sentence.format(name=name))
            refusal.place = str(path)
            raise refusal from error


def file_of(url: str | Path | URL) -> Path:
    """Return the file that a database's address means."""
    found = url if isinstance(url, URL) else _url(url)
    return Path(found.database or "").absolute()


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):  # pragma: no cover - _url lets nothing else in
        raise TypeError(type(driver))
    return driver


def _url(text: str | Path) -> URL:
    """Return the URL of a database: of a file, of a directory that holds it, or as given."""
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
    """Hold what tells a second server that the file is in use; the system frees it.

    The lock file can be seen and removed, and then a second server makes another. So the database
    file itself is locked too, which is the same file by whatever name: with ``flock``, which knows
    nothing of the locks that SQLite has on parts of it (``fcntl``). Closing a file ends those of
    the whole process, so it is opened only where the lock file was had, and closed last.
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
        except OSError:  # SQLite says what is wrong with it
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
