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


def expired(cursor: Cursor, parts: Parts, now_seconds: float, limit: int) -> list[Record]:
    """Return up to ``limit`` expired records, earliest expiry first."""
    found: list[Record] = []
    for part in (parts.general, *parts.tables.values()):
        found += [part.rows.record(row) for row in _over(cursor, part, now_seconds, limit)]
    return sorted(found, key=lambda record: record.expires_at)[:limit]


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


def _over(cursor: Cursor, part: LogPartition, now_seconds: float, limit: int) -> list[Row]:
    """Return the expired rows, earliest expiry first."""
    expires = quoted(part.rows.names.expires)
    return cursor.execute(
        f"{part.statements.select} WHERE {expires}<=? ORDER BY {expires} LIMIT ?",
        (now_seconds, limit),
    ).fetchall()
