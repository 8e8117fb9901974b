"""The log as a table of PostgreSQL: one row for each entry, whose key is its number.

An entry is inserted only if it follows the last one, which is never deleted; of two inserted at
once the key lets one through. With synchronous standbys (``synchronous_standby_names``) a commit is
answered when they have it; without them the log is as durable as that one server.

A crash, or who cancels the wait for the standbys, shows a commit that they have not. So a new
connection first makes a commit of its own, which waits for all before it, and one that was warned
is given up. A statement is sent once: whether one without an answer was run its writer finds out.
"""

import contextlib
import math
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from rowcast.core.errors import Code, Error
from rowcast.log.engine import Lease, no_answer, not_the_next, too_large

T = TypeVar("T")

NAME: Final = "PostgreSQL"
DISK_FULL: Final = "the disk of the log's database is full; free some space there"
REQUEST_SECONDS: Final = 2.0
"""How long a server may be silent in a request; who still needs it makes it again."""
RECONNECT_SECONDS: Final = 0.25
"""Between two attempts to open the log."""
ENTRY_BYTES_MAX: Final = 256 << 20
"""Of an entry: a quarter of what PostgreSQL takes in one message and in one value (1 GiB)."""
BYTES_PER_SECOND: Final = 4 << 20
"""How fast the slowest server stores a large entry; it is silent while it does. A disk shared with
others was measured to take 64 MiB in more than six seconds."""
READ_ROWS: Final = 1024
"""The most entries of one read: what it looks at is bounded, however small they are."""
READ_ROW_BYTES: Final = 64
"""A read looks at no more entries than would fit if each had so few bytes."""
TRIM_ROWS: Final = 10_000
"""The most entries that one trim deletes, in the time of one request; the next trim goes on."""
TRIM_BYTES: Final = 256 << 20
"""The most bytes that it deletes, beside those of the first."""
NAME_BYTES_MAX: Final = 63
"""Of a schema: PostgreSQL cuts off what is beyond, and two logs would be one."""

SESSION_SQL: Final = sql.SQL("""SET search_path TO {}; SET statement_timeout TO {};
SET default_transaction_isolation TO 'read committed'""")
SAFETY_SQL: Final = """
SELECT pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'),
    CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
    THEN set_config('synchronous_commit', 'on', false) END"""
BARRIER_SQL: Final = "SELECT pg_logical_emit_message(true, 'rowcast', '')"
"""The smallest commit: once it is answered, all that this connection can see is on the standbys."""
MAKE_SQL: Final = sql.SQL("""
SELECT pg_advisory_xact_lock(hashtext('rowcast'), hashtext({name}));
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS log (number bigint PRIMARY KEY, data bytea NOT NULL,
    total bigint NOT NULL, at timestamptz DEFAULT now());
ALTER TABLE log ALTER data SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS about (epoch text NOT NULL, first bigint NOT NULL);
CREATE TABLE IF NOT EXISTS lease (version bigint NOT NULL, holder bytea NOT NULL);
INSERT INTO about SELECT {epoch}, {first} WHERE NOT EXISTS (SELECT FROM about);
INSERT INTO lease SELECT 0, '' WHERE NOT EXISTS (SELECT FROM lease)""")
"""One message, so one transaction; the lock is for nodes that send it at once. ``total`` counts the
bytes of all entries up to this one: a trim need not add them up."""
APPEND_SQL: Final = """
INSERT INTO log (number, data, total) SELECT %(number)s, %(data)b::bytea,
    %(size)s + coalesce((SELECT total FROM log ORDER BY number DESC LIMIT 1), 0)
WHERE %(number)s::bigint - 1 = coalesce((SELECT max(number) FROM log),
    (SELECT first - 1 FROM about))"""
READ_SQL: Final = """
SELECT number, data FROM (
    SELECT number, data, sum(octet_length(data)) OVER (ORDER BY number) - octet_length(data)
    AS before FROM log WHERE number > %(after)s ORDER BY number LIMIT %(rows)s
) AS next WHERE before < %(size)s ORDER BY number"""
TRIM_SQL: Final = """
WITH oldest AS (SELECT number, total, octet_length(data) AS size FROM log
        WHERE number <= %(until)s ORDER BY number LIMIT %(rows)s),
    newest AS (SELECT number, total FROM log ORDER BY number DESC LIMIT 1)
DELETE FROM log USING oldest, newest
WHERE log.number = oldest.number AND oldest.number < newest.number
    AND newest.total - oldest.total + oldest.size > %(keep)s
    AND oldest.total - (SELECT min(total) FROM oldest) <= %(bytes)s"""
TAKE_SQL: Final = """
UPDATE lease SET version = version + 1, holder = %b WHERE version = %s RETURNING version"""


@dataclass(frozen=True, slots=True)
class Place:
    """Which schema, and how its tables are made if there are none yet."""

    name: str
    """Of the cluster: letters, digits, ``-`` and ``_``."""
    bytes_max: int
    """Beyond it the oldest entries go. A node that is further behind needs a copy."""
    epoch: str
    """Of the tables of the node that makes it."""
    first: int = 1
    """The number of its first entry: for tables that have had another log, the next one."""
    patience_seconds: float = 0.0
    """How long it is looked for before it is made, for who would leave that to others."""


class _Link(psycopg.Connection[TupleRow]):
    """A connection that waits for a silent server ``patience`` seconds: also for a paused one."""

    patience = REQUEST_SECONDS

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        return super().wait(self._watched(gen), interval, timeout)

    def _watched(self, request: PQGen[T]) -> PQGen[T]:
        over, ready = time.monotonic() + self.patience, None
        with contextlib.closing(request):
            while True:
                try:
                    wanted = request.send(ready)  # type: ignore[arg-type]  # None starts it
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                if ready := (yield wanted):
                    over = time.monotonic() + self.patience
                elif time.monotonic() > over:
                    raise psycopg.OperationalError(f"silent for {self.patience:.1f} s")

    @property
    def is_over(self) -> bool:
        """Whether it was closed, or the server says something unasked: that it ends."""
        if self.closed:
            return True
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(0))


class PostgresEngine:
    """One node's connection to a server, or to the primary of several (hosts with commas).

    Raises BUSY when no log is reached or made within ``seconds``; INVALID for a URL that cannot be
    read, or a server that may lose what it has answered. ``request_seconds`` is how long the
    server may be silent in a request; to connect takes 2 at least, for each host.
    """

    def __init__(
        self, url: str, place: Place, seconds: float, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self._place, self._schema = place, f"rowcast_{place.name}"
        if len(self._schema.encode()) > NAME_BYTES_MAX:
            raise Error(Code.INVALID, f"the name {place.name!r} is too long for {NAME}")
        self._url, self._request_seconds = _checked(url), request_seconds
        self._lock = threading.Lock()
        self._link: _Link | None = None
        self._warning, self._closed = "", False
        self._make_at: float | None = None
        self._epoch, self._first = "", place.first
        self.problem, self._refused = "", 0
        """Why no entry is taken, where the server has said so, and which one it was."""
        self._open(seconds)

    # -- the connection ----------------------------------------------------------------------------

    def _open(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._ask(lambda _: None)
            except Error as error:
                if error.code is not Code.BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(RECONNECT_SECONDS)

    def _ask(self, work: Callable[[_Link], T], size: int = 0) -> T:
        """Run on the connection; ``size`` bytes are to be stored. Raises BUSY for no answer."""
        if not self._lock.acquire(timeout=self._request_seconds):
            raise no_answer(NAME, "it has not answered another request yet")
        try:
            link = self._linked()
            link.patience = self._request_seconds + size / BYTES_PER_SECOND
            answer = work(link)
            if self._warning:
                raise psycopg.OperationalError(self._warning)
        except psycopg.errors.UniqueViolation:
            raise
        except psycopg.Error as error:
            self._drop()
            why = (str(error) or type(error).__name__).splitlines()[0]
            if isinstance(error, psycopg.errors.DiskFull):
                why = f"{DISK_FULL} ({why})"
            raise no_answer(NAME, why) from error
        finally:
            self._lock.release()
        return answer

    def _linked(self) -> _Link:
        """Return the connection, opened anew if the last one has ended."""
        if self._closed:
            raise no_answer(NAME, "the connection was closed")
        if self._link is None or self._link.is_over:
            self._drop()
            link = self._connect()
            try:
                self._prepare(link)
            except BaseException:
                link.close()
                raise
            self._link = link
        return self._link

    def _connect(self) -> _Link:
        seconds = math.ceil(self._request_seconds)
        alive = {"keepalives": 1, "keepalives_idle": seconds, "keepalives_interval": 1}
        late = {"connect_timeout": seconds, "tcp_user_timeout": int(self._request_seconds * 1000)}
        names = {"client_encoding": "UTF8", "application_name": self._schema}
        link = _Link.connect(make_conninfo(self._url, **alive, **late, **names), autocommit=True)
        link.patience, self._warning = self._request_seconds, ""
        link.add_notice_handler(self._take_notice)
        return link

    def _take_notice(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warning = notice.message_primary or "a warning"

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _prepare(self, link: _Link) -> None:
        """Set what the session needs; find the tables, or make them."""
        schema, place = sql.Identifier(self._schema), self._place
        longest = self._request_seconds + ENTRY_BYTES_MAX / BYTES_PER_SECOND
        link.execute(SESSION_SQL.format(schema, int(longest * 1000)))
        self._check_safety(link)
        _wait_for_standbys(link)
        if not self._epoch and not _row(link, "SELECT to_regclass('about') IS NOT NULL")[0]:
            self._be_patient()
            about = {"epoch": place.epoch, "first": place.first}
            link.execute(MAKE_SQL.format(schema=schema, name=self._schema, **about))
        epoch, first = _row(link, "SELECT epoch, first FROM about")
        if self._epoch and epoch != self._epoch:
            raise no_answer(NAME, f"the log of {self._schema} is another one now: {epoch}")
        self._epoch, self._first = epoch, first

    def _be_patient(self) -> None:
        """Leave it to others for a while to make the log. Raises BUSY."""
        now = time.monotonic()
        if self._make_at is None:
            self._make_at = now + self._place.patience_seconds
        if now < self._make_at:
            raise no_answer(NAME, "there is no log yet, and a node with tables is to make it")

    def _check_safety(self, link: _Link) -> None:
        """Refuse a server that cannot write, or that may lose what it has answered."""
        standby, *values, _ = _row(link, SAFETY_SQL)
        if standby:
            raise no_answer(NAME, "the server is a standby; give the address of the primary")
        for name, value in zip(("fsync", "full_page_writes"), values, strict=True):
            if value != "on":
                what = (
                    f"{NAME} at {link.info.host}:{link.info.port} has {name} = {value} and may lose"
                    f" commits when its machine fails; set {name} = on in postgresql.conf, reload"
                )
                # once open, an entry is refused for now, not for what it is
                raise no_answer(NAME, what) if self._epoch else Error(Code.INVALID, what)

    # -- entries -----------------------------------------------------------------------------------

    @property
    def epoch(self) -> str:
        """Eight hexadecimal digits that name this log."""
        return self._epoch

    @property
    def entry_bytes_max(self) -> int:
        """The largest entry, in bytes: 256 MiB."""
        return ENTRY_BYTES_MAX

    def bounds(self) -> tuple[int, int]:
        """Return the numbers of the first entry and of the last. Raises BUSY."""
        first, last = self._ask(lambda link: _row(link, "SELECT min(number), max(number) FROM log"))
        return (self._first, self._first - 1) if last is None else (first, last)

    def append(self, number: int, data: bytes) -> None:
        """Insert an entry as the next row.

        Raises CONFLICT unless it is the next one, TOO_LARGE beyond ``entry_bytes_max``, BUSY when
        it is not known whether it was stored.
        """
        size = len(data)
        if size > ENTRY_BYTES_MAX:
            raise too_large(size, ENTRY_BYTES_MAX)
        entry = {"number": number, "data": data, "size": size}
        try:
            stored = self._ask(lambda link: link.execute(APPEND_SQL, entry).rowcount, size)
        except psycopg.errors.UniqueViolation as error:
            raise not_the_next(number) from error
        except Error as error:
            if isinstance(error.__cause__, psycopg.errors.DiskFull):
                self.problem, self._refused = DISK_FULL, number
            raise
        if not stored:
            raise not_the_next(number)
        self.problem = ""

    def read(self, after: int, size: int) -> list[bytes]:
        """Select entries by number, as many as fit. Raises GONE when the next was trimmed, BUSY."""
        rows = min(READ_ROWS, 1 + max(size, 0) // READ_ROW_BYTES)
        some = {"after": after, "size": max(size, 1), "rows": rows}
        found = self._ask(lambda link: link.execute(READ_SQL, some, binary=True).fetchall())
        first = found[0][0] if found else self._first
        if first > after + 1:
            raise Error(Code.GONE, f"entries up to {first - 1} are gone")
        return [data for _, data in found]

    def trim(self, until: int) -> None:
        """Delete the oldest entries beyond ``bytes_max``, up to a number; the last stays. BUSY."""
        keep = self._place.bytes_max
        some = {"until": until, "keep": keep, "rows": TRIM_ROWS, "bytes": TRIM_BYTES}
        self._ask(lambda link: link.execute(TRIM_SQL, some))

    # -- the lease ---------------------------------------------------------------------------------

    def lease(self) -> Lease:
        """Return the one row of the lease. Raises BUSY."""
        if self.problem and self.bounds()[1] >= self._refused:  # another node has appended since
            self.problem = ""
        return Lease(*self._ask(lambda link: _row(link, "SELECT version, holder FROM lease")))

    def take_lease(self, known: int, holder: bytes) -> Lease:
        """Replace the row, if ``known`` is its version; raises CONFLICT if it is not, and BUSY."""
        taken = self._ask(lambda link: link.execute(TAKE_SQL, (holder, known)).fetchone())
        if taken is None:
            raise Error(Code.CONFLICT, f"version {known} of the lease is not the newest one")
        return Lease(taken[0], holder)

    def close(self) -> None:
        """Close the connection, after the request that runs; what is asked later is BUSY."""
        self._closed = True
        with self._lock:
            self._drop()


def _wait_for_standbys(link: _Link) -> None:
    """Wait until all that was committed is durable; raises OperationalError if that takes long."""
    try:
        link.execute(BARRIER_SQL)
    except psycopg.OperationalError:
        # it would wait on without us: one more process of the server for each attempt
        with contextlib.suppress(psycopg.Error):
            link.cancel_safe(timeout=link.patience)
        raise


def _row(link: _Link, statement: LiteralString) -> TupleRow:
    """Return the one row that there must be."""
    row = link.execute(statement, binary=True).fetchone()
    if row is None:
        raise psycopg.DataError("a table of the log has lost its row")
    return row


def _checked(url: str) -> str:
    """Return the URL; its refusal shows no part, which may be one of the password."""
    parts: dict[str, object] = {}
    with contextlib.suppress(psycopg.Error):
        parts |= conninfo_to_dict(url)
    torn = any("@" in str(parts.get(name)) for name in ("host", "dbname"))
    if not parts or torn or not str(parts.get("port", 0)).replace(",", "0").isdigit():
        raise Error(
            Code.INVALID,
            f"the URL of {NAME} cannot be read; write postgresql://user:password@host:5432/"
            "database, with special characters of the password as %XX",
        )
    several = "," in str(parts.get("host")) and "target_session_attrs" not in parts
    return make_conninfo(url, target_session_attrs="read-write") if several else url
