"""Expiry as SQL: which records are over, and when the next one is.

Each table of records has an index of its expiring rows, so the cost does not depend on the others.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from sqlite3 import Cursor

from rowcast.core.events import Record
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_parts import Parts
from rowcast.store.sql_rows import Row
from rowcast.store.sql_tables import quoted

Place = tuple[float, int]
"""An expiry, and how many of the records that expire then are before the place."""


def expired(
    cursor: Cursor, parts: Parts, now_seconds: float, limit: int, behind: Place
) -> list[Record]:
    """Return up to ``limit`` expired records behind a place, earliest expiry first."""
    since, passed = behind
    found: list[Record] = []
    for part in (parts.general, *parts.tables.values()):
        rows = _over(cursor, part, (since, now_seconds), passed + limit)
        found += [part.rows.record(row) for row in rows]
    return sorted(found, key=lambda record: record.expires_at)[passed : passed + limit]


def next_expiry(cursor: Cursor, parts: Parts) -> float | None:
    """Return the time of the next expiry; None if no record expires."""
    found = [_soonest(cursor, part) for part in (parts.general, *parts.tables.values())]
    return min((item for item in found if item is not None), default=None)


def _soonest(cursor: Cursor, part: LogPartition) -> float | None:
    """Return the earliest expiry of a part's records."""
    expires = quoted(part.rows.names.expires)
    table = quoted(part.rows.name)
    row = cursor.execute(
        f"SELECT {expires} FROM {table} WHERE {expires} IS NOT NULL ORDER BY {expires} LIMIT 1"
    ).fetchone()
    return None if row is None else float(row[0])


def _over(
    cursor: Cursor, part: LogPartition, between: tuple[float, float], limit: int
) -> list[Row]:
    """Return the rows that expired between two times, earliest expiry first."""
    expires = quoted(part.rows.names.expires)
    return cursor.execute(
        f"{part.statements.select} WHERE {expires} BETWEEN ? AND ? ORDER BY {expires} LIMIT ?",
        (*between, limit),
    ).fetchall()
