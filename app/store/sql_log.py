"""The log as SQL: reading it in order, and forgetting its oldest part.

A row names its table by number and its topic by the id within the table, so a table that is
exported under another path takes its history with it. Events of a table that is no longer declared
are shown as those of undeclared topics, at the path the table had.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Iterator, Mapping
from itertools import islice
from sqlite3 import Cursor
from typing import Final, cast

from app.core.clock import seconds_of
from app.core.events import Event
from app.store.sql_commit import Part
from app.store.sql_rows import Row, properties_of
from app.store.sql_statements import LOG_COLUMNS
from app.store.sql_tables import LOG, TABLES
from app.store.store import Keep

_SELECT: Final = f"SELECT {LOG_COLUMNS} FROM {LOG}"
HEAD: Final = (
    f"SELECT max(coalesce((SELECT max(seq) FROM {LOG}),0),"
    f"coalesce((SELECT max(trimmed) FROM {TABLES}),0))"
)


def head(cursor: Cursor) -> int:
    """Return the greatest number committed or trimmed, as the transaction sees it."""
    return int(cursor.execute(HEAD).fetchone()[0])


class LogReader:
    """Reads the log for one opening: it knows which tables the numbers stand for."""

    def __init__(self, parts: Mapping[int, Part], former: Mapping[int, str]) -> None:
        self._parts = parts
        self._former = former
        """Number to the first levels of the topics, of tables that are no longer declared."""

    def read(self, cursor: Cursor, after: int, limit: int, table_id: int | None) -> list[Event]:
        """Return events after a position; with ``table_id``, only those of one table."""
        if table_id is None:
            text = f"{_SELECT} WHERE seq>? ORDER BY seq LIMIT ?"
            rows = cursor.execute(text, (after, limit))
        else:
            text = f"{_SELECT} WHERE table_id=? AND seq>? ORDER BY seq LIMIT ?"
            rows = cursor.execute(text, (table_id, after, limit))
        return [self._event(row) for row in rows]

    def history(self, cursor: Cursor, table_id: int, topic: str, limit: int) -> list[Event]:
        """Return the last events at one topic of a table, oldest first.

        It walks back over the table's part of the log: one index serves all reading of the log, and
        a second would cost every write to make this one question cheaper.
        """
        text = f"{_SELECT} WHERE table_id=? AND topic=? ORDER BY seq DESC LIMIT ?"
        rows = cursor.execute(text, (table_id, topic, limit)).fetchall()
        return [self._event(row) for row in reversed(rows)]

    def _event(self, row: Row) -> Event:
        seq, table_id, local, kind, version, qos, retain, client = row[:8]
        content_type, payload, expires, properties = row[8:]
        part = self._parts.get(cast("int", table_id))
        if part is None:
            table, prefix = None, self._former.get(cast("int", table_id), "")
        else:
            table, prefix = part.rows.layout.table, part.rows.layout.prefix
        return Event(
            prefix + cast("str", local),
            cast("str", kind),
            cast("bytes", payload),
            cast("str | None", content_type),
            cast("int", qos),
            bool(retain),
            table,
            cast("str", client),
            properties_of(properties),
            cast("float", expires or 0.0),
            cast("int", seq),
            cast("int", version),
        )


def since(cursor: Cursor, table_id: int, version: int) -> int | None:
    """Return the number of the table's first event of at least this version, or None."""
    row = cursor.execute(
        f"SELECT seq FROM {LOG} WHERE table_id=? AND version>=? ORDER BY seq LIMIT 1",
        (table_id, version),
    ).fetchone()
    return None if row is None else int(row[0])


def trim(
    cursor: Cursor, part: Part, keep: Keep, now_seconds: float, limit: int
) -> tuple[int, int, int]:
    """Delete a table's oldest events beyond ``keep``, at most ``limit``, within a transaction.

    Returns how many, the bytes of their payloads, and the number of the last one. Only a beginning
    is ever cut, so what is left is all that happened since then.
    """
    rows = cursor.execute(
        f"SELECT seq,version,length(payload) FROM {LOG} WHERE table_id=? ORDER BY seq",
        (part.table_id,),
    )
    count, size, last = 0, 0, part.trimmed
    for seq, length in islice(_beyond(rows, part, keep, now_seconds), limit):
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
    return count, size, last


def _beyond(rows: Cursor, part: Part, keep: Keep, now_seconds: float) -> Iterator[tuple[int, int]]:
    """Return number and size of the oldest events, as long as any limit is passed."""
    events, size = part.events, part.bytes
    for seq, version, length in rows:
        too_many = keep.events and events > keep.events
        too_big = keep.bytes and size > keep.bytes
        too_old = keep.seconds and seconds_of(version) < now_seconds - keep.seconds
        if not (too_many or too_big or too_old):
            return
        yield seq, length
        events, size = events - 1, size - length
