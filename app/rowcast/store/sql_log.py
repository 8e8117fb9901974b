"""The log as SQL: reading in order, and trimming the oldest events.

A row names its table by number and its topic by the id within the table, so a table exported under
another path keeps its history. Events of a table that is no longer declared appear at undeclared
topics, under the table's former path.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice
from operator import itemgetter
from sqlite3 import Cursor
from typing import Final, cast

from rowcast.core.clock import seconds_of, version_of
from rowcast.core.events import MESSAGE, Event
from rowcast.core.limits import CLOCK_LEAD_SECONDS_MAX
from rowcast.store import sql_times
from rowcast.store.older_rows import OlderRows, Oldest, OldestRoom, Span, joined
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_parts import END, Plan
from rowcast.store.sql_rows import Row, properties_of
from rowcast.store.sql_statements import LOG_COLUMNS
from rowcast.store.sql_tables import LOG, META, SEEN, TABLES
from rowcast.store.store import Keep

_LogRow = tuple[
    int, int, str, str, int, int, int, str, str | None, bytes | str, float | None, str | None
]
"""A row of LOG_COLUMNS."""
_SEQ: Final = itemgetter(0)
_SELECT: Final = f"SELECT {LOG_COLUMNS} FROM {LOG}"
_WITHIN: Final = f"seq<=min(?,{SEEN})"
HEAD: Final = (
    f"SELECT max(coalesce((SELECT max(seq) FROM {LOG} WHERE seq<={SEEN}),0),"
    f"(SELECT CAST(value AS INTEGER) FROM {META} WHERE name='trimmed'))"
)
_ASCENDING: Final = f"{_SELECT} WHERE table_id=? AND seq>? AND {_WITHIN} ORDER BY seq LIMIT ?"
_DESCENDING: Final = f"{_SELECT} WHERE table_id=? AND seq>? AND {_WITHIN} ORDER BY seq DESC LIMIT ?"


def head(cursor: Cursor) -> int:
    """Return the greatest number committed or trimmed, in this transaction."""
    return int(cursor.execute(HEAD).fetchone()[0])


class LogReader:
    """Reads the log of one opening, with its mapping of numbers to tables."""

    def __init__(self, parts: Mapping[int, LogPartition], former: Mapping[int, str]) -> None:
        self._parts = parts
        self._former = former
        """Topic prefixes of tables that are no longer declared, by number."""
        self.older: OlderRows | None = None
        """Rows that were trimmed; asked only within a read transaction that has begun."""
        self.check: Callable[[], None] = _go_on
        """Raises when the read is to end; called between parts of the archive."""

    def read(self, cursor: Cursor, plan: Plan, after: int, limit: int) -> list[Event]:
        """Return a plan's events after a position."""
        rows = _page(cursor, plan, after, END, limit, back=False)
        return self._events(rows, plan, Span(after, END), limit)

    def read_back(self, cursor: Cursor, plan: Plan, before: int, limit: int) -> list[Event]:
        """Return a plan's events before a position, newest first."""
        rows = _page(cursor, plan, 0, before - 1, limit, back=True)
        return self._events(rows, plan, Span(0, before - 1, back=True), limit)

    def _events(self, rows: Iterable[Row], plan: Plan, span: Span, limit: int) -> list[Event]:
        """Return the events of rows of the log, and of older ones."""
        if self.older is not None:
            rows = list(rows)
            if rows and len(rows) >= limit:  # what is beyond its end is not asked for
                end = cast("int", rows[-1][0])
                span = span._replace(after=end) if span.back else span._replace(upto=end)
            walks = self._walks(self.older, plan, span)
            rows = joined(rows, walks, limit, back=span.back)
        return [self.event(row) for row in rows]

    def _walks(self, older: OlderRows, plan: Plan, span: Span) -> list[Iterator[Row]]:
        """Return the ways through the archived parts of a plan."""
        known = older.numbers()
        pieces = plan.pieces or [(number, END) for number in known if number not in plan.without]
        return [
            older.walk(number, span._replace(upto=min(upto, span.upto)), self.check)
            for number, upto in pieces
            if number in known
        ]

    def history(
        self, cursor: Cursor, plan: Plan, topic: str, limit: int, until: int
    ) -> list[Event]:
        """Return the last events at one topic of a source, oldest first.

        It scans the source's parts of the log backwards: one index serves all reads of the log, and
        a second one would slow down every write for this query only.
        """
        text = f"{_SELECT} WHERE table_id=? AND topic=? AND {_WITHIN} ORDER BY seq DESC LIMIT ?"
        walks = [
            cursor.connection.execute(text, (number, topic, min(until, upto), limit))
            for number, upto in plan.pieces
        ]
        rows = islice(merge(*walks, key=_SEQ, reverse=True), limit)
        return self._events(rows, plan, Span(0, until, True, topic), limit)[::-1]

    def follow(self, cursor: Cursor, plan: Plan, topic: str, after: int, limit: int) -> list[Event]:
        """Return the events at one topic of a source after a position."""
        text = (
            f"{_SELECT} WHERE table_id=? AND topic=? AND seq>? AND {_WITHIN} ORDER BY seq LIMIT ?"
        )
        walks = [
            cursor.connection.execute(text, (number, topic, after, upto, limit))
            for number, upto in plan.pieces
        ]
        rows = islice(merge(*walks, key=_SEQ), limit)
        return self._events(rows, plan, Span(after, END, topic=topic), limit)

    def change(self, cursor: Cursor, plan: Plan, topic: str, until: int) -> Event | None:
        """Return the last event up to a position that changed the record at a topic, or None."""
        text = (
            f"{_SELECT} WHERE table_id=? AND topic=? AND {_WITHIN} AND kind<>? "
            "ORDER BY seq DESC LIMIT 1"
        )
        found = [
            cursor.execute(text, (number, topic, min(until, upto), MESSAGE)).fetchone()
            for number, upto in plan.pieces
        ]
        row = max((row for row in found if row is not None), key=_SEQ, default=None)
        if self.older is not None:
            after = 0 if row is None else cast("int", row[0])
            walks = self._walks(self.older, plan, Span(after, until, True, topic))
            older = joined((), map(_changes, walks), 1, back=True)
            row = older[0] if older else row
        return None if row is None else self.event(row)

    def since(self, cursor: Cursor, plan: Plan, version: int) -> int | None:
        """Return the number of a plan's first event of at least a version, or None."""
        found = sql_times.since(cursor, plan, version)
        if self.older is None:
            return found
        known = self.older.numbers()
        pieces = plan.pieces or [(number, END) for number in known if number not in plan.without]
        for number, upto in pieces:
            older = self.older.since(number, version, self.check) if number in known else None
            if older is not None and older <= min(upto, found or END):
                found = older
        return found

    def event(self, row: Row) -> Event:
        """Return the event of a row of LOG_COLUMNS."""
        known = cast("_LogRow", row)
        seq, table_id, local, kind, version, qos, retain, client = known[:8]
        content_type, payload, expires, properties = known[8:]
        part = self._parts.get(table_id)
        if part is None:
            table, prefix = None, self._former.get(table_id, "")
        else:
            layout = part.rows.layout
            table, prefix = layout.table, layout.prefix
        return Event(
            prefix + local,
            kind,
            payload if isinstance(payload, bytes) else payload.encode(),
            content_type,
            qos,
            retain == 1,
            table,
            client,
            properties if properties is None else properties_of(properties),
            expires or 0.0,
            seq,
            version,
        )


def _go_on() -> None:
    """Let every read go on."""


def _changes(rows: Iterator[Row]) -> Iterator[Row]:
    """Leave out messages, which change no record."""
    return (row for row in rows if row[3] != MESSAGE)


def _page(
    cursor: Cursor, plan: Plan, after: int, upto: int, limit: int, *, back: bool
) -> Iterable[Row]:
    """Return rows of a plan's parts with numbers above one and up to another.

    A few parts are merged, each by its index, so that only their own rows are read; with many
    parts, filtering a range of the complete log is cheaper.
    """
    order = "DESC" if back else "ASC"
    if plan.many:
        text = f"{_SELECT} WHERE seq>? AND {_WITHIN}{plan.sieve} ORDER BY seq {order} LIMIT ?"
        return cursor.execute(text, (after, upto, limit))
    text = _DESCENDING if back else _ASCENDING
    walks = [
        cursor.connection.execute(text, (number, after, min(upto, until), limit))
        for number, until in plan.pieces
    ]
    if len(walks) == 1:
        return walks[0]
    return islice(merge(*walks, key=_SEQ, reverse=back), limit)


def note_trimmed(cursor: Cursor, seq: int) -> None:
    """Note a number as trimmed, so that the head is known after the last event was trimmed."""
    cursor.execute(
        f"UPDATE {META} SET value=? WHERE name='trimmed' AND CAST(value AS INTEGER)<?",
        (str(seq), seq),
    )


def trim(
    cursor: Cursor, part: LogPartition, keep: Keep, now_seconds: float, limit: int
) -> tuple[int, int, int]:
    """Delete a part's oldest events beyond ``keep``, at most ``limit``, within a transaction.

    Returns their number, the bytes of their payloads, and the number of the last one. Only the
    oldest events are deleted, so the rest has no gap.
    """
    count, size, last = 0, 0, part.trimmed
    for seq, length in islice(_oldest_beyond(cursor, part, keep, now_seconds), limit):
        count, size, last = count + 1, size + length, seq
    if count:
        cursor.execute(
            f"DELETE FROM {LOG} WHERE table_id=? AND seq<=?",
            (part.table_id, last),
        )
        cursor.execute(
            f"UPDATE {TABLES} SET trimmed=?,events=events-?,bytes=bytes-? WHERE id=?",
            (last, count, size, part.table_id),
        )
        note_trimmed(cursor, last)
        sql_times.trim(cursor)
    return count, size, last


def is_beyond(cursor: Cursor, part: LogPartition, keep: Keep, now_seconds: float) -> bool:
    """Whether a part has events beyond ``keep``, within a transaction."""
    return any(True for _ in _oldest_beyond(cursor, part, keep, now_seconds))


def oldest(
    cursor: Cursor,
    part: LogPartition,
    beyond: tuple[Keep, float],
    room: OldestRoom,
    known: tuple[str, int],
) -> Oldest:
    """Return a part's oldest rows beyond limits at a time, within a transaction.

    ``known`` is the name of the part, and the number up to which it is archived.
    """
    name, archived = known
    after = max(archived, part.trimmed)
    count, size, last = 0, 0, part.trimmed
    for seq, length in islice(_oldest_beyond(cursor, part, *beyond), room.events):
        count, size, last = count + 1, size + length, seq
        if size > room.bytes:
            break
    text = f"{_SELECT} WHERE table_id=? AND seq>? AND seq<=? ORDER BY seq"
    rows = cursor.execute(text, (part.table_id, after, last)).fetchall() if count else []
    return Oldest(part.table_id, name, after, count, rows)


def _oldest_beyond(
    cursor: Cursor, part: LogPartition, keep: Keep, now_seconds: float
) -> Iterator[tuple[int, int]]:
    """Return number and size of a part's oldest events while any limit is exceeded."""
    rows = cursor.connection.execute(
        f"SELECT seq,version,length(CAST(payload AS BLOB)) FROM {LOG}"
        f" WHERE table_id=? AND seq<={SEEN} ORDER BY seq",
        (part.table_id,),
    )
    until = version_of(int((now_seconds + CLOCK_LEAD_SECONDS_MAX) * 1000))
    ages = _EventAges(cursor.connection.cursor(), part.table_id, until)
    return _beyond(rows, part, keep, now_seconds, ages)


class _EventAges:
    """The age of events with an invalid version, of a clock that was ahead: that of the next."""

    def __init__(self, cursor: Cursor, table_id: int, until: int) -> None:
        self._cursor = cursor
        self._place = table_id, until
        self._until = until
        self._next = 0, 0
        """The last number queried, and its version."""

    def version(self, seq: int, version: int) -> int:
        """Return the version that determines an event's age."""
        if version <= self._until:
            return version
        if seq > self._next[0]:
            row = self._cursor.execute(
                f"SELECT seq,version FROM {LOG} WHERE table_id=? AND version<=? AND seq>?"
                " ORDER BY seq LIMIT 1",
                (*self._place, seq),
            ).fetchone()
            self._next = row or (1 << 63, self._until)
        return self._next[1]


def _beyond(
    rows: Cursor, part: LogPartition, keep: Keep, now_seconds: float, ages: _EventAges
) -> Iterator[tuple[int, int]]:
    """Return number and size of the oldest events while any limit is exceeded."""
    events, size = part.events, part.bytes
    for seq, version, length in rows:
        too_many = keep.events and events > keep.events
        too_big = keep.bytes and size > keep.bytes
        age = keep.seconds and ages.version(seq, version)
        too_old = keep.seconds and seconds_of(int(age)) < now_seconds - keep.seconds
        if not (too_many or too_big or too_old):
            return
        yield seq, length
        events, size = events - 1, size - length
