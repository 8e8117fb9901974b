"""Filters with one free level, such as ``a/+/c`` and ``a/+/c/#``, in one statement.

Each branch below the literal prefix needs two seeks: one for the matching rows in it, one for the
next branch. Both run in SQLite, so an empty branch costs two or three microseconds and no Python
code. The statement streams rows: the first is available at once, and the caller may stop at any
row.

If branches have only a few records each, filtering all rows is faster than two seeks for each. So a
scan samples the next keys first, each time; no statistics or settings are needed (E2).
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Iterator
from sqlite3 import Cursor

from rowcast.core.limits import SCAN_BRANCH_SAMPLE_MAX, SCAN_BRANCH_SAMPLE_ROWS
from rowcast.core.topics import AFTER_DOLLAR, AFTER_SLASH, TopicFilter
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_rows import Row
from rowcast.store.sql_tables import quoted


def is_branched(cursor: Cursor, part: LogPartition, topics: TopicFilter, after: str) -> bool:
    """Whether a filter has one free level followed by literal ones, and branches are large."""
    prefix, own = topics.prefix, part.rows.layout.prefix
    return (
        bool(topics.suffix)
        and prefix.startswith(own)
        and _is_bushy(cursor, part, prefix[len(own) :], max(after, prefix)[len(own) :])
    )


def _is_bushy(cursor: Cursor, part: LogPartition, prefix: str, start: str) -> bool:
    """Whether the next keys are in few branches."""
    key, name = part.rows.key, quoted(part.rows.name)
    text = f"SELECT {key} FROM {name} WHERE {key}>=? ORDER BY {key} LIMIT ?"
    at = len(prefix)
    keys = [key for (key,) in cursor.execute(text, (start, SCAN_BRANCH_SAMPLE_ROWS))]
    branches = {key[at:].partition("/")[0] for key in keys if key.startswith(prefix)}
    return len(branches) <= SCAN_BRANCH_SAMPLE_MAX


def scan_branches(
    cursor: Cursor, part: LogPartition, topics: TopicFilter, after: str
) -> Iterator[Row]:
    """Return the rows of matching records after topic ``after``, sorted by key."""
    layout = part.rows.layout
    prefix = topics.prefix[len(layout.prefix) :]
    local = after[len(layout.prefix) :]
    if prefix:
        ranges = [(prefix, prefix[:-1] + AFTER_SLASH)]
    elif layout.prefix:
        ranges = [("", "")]
    else:  # a free first level does not match $ (MQTT-4.7.2-1)
        ranges = [("", "$"), (AFTER_DOLLAR, "")]
    for start, end in ranges:
        if end and local >= end:
            continue
        text, values = _statement(part, topics, prefix, max(start, _branch(local, prefix)), end)
        for row in cursor.execute(text, {**values, "after": local}):
            if topics.matches(layout.topic(row[0])):
                yield row


def _branch(local: str, prefix: str) -> str:
    """Return the SQL for the first key of a key's branch."""
    if not local.startswith(prefix):
        return ""
    level, slash, _ = local[len(prefix) :].partition("/")
    return f"{prefix}{level}{slash}"


def _statement(
    part: LogPartition, topics: TopicFilter, prefix: str, start: str, end: str
) -> tuple[str, dict[str, object]]:
    name, key = quoted(part.rows.name), part.rows.key
    before = f"AND {key}<:end" if end else ""
    slash = "instr(substr(k,:at),'/')"
    wanted = f"substr(k,1,:at-1+{slash})||:literal"
    below = topics.unbounded
    found = f"{key}>={wanted} AND {key}<{wanted}||'0'" if below else f"{key}={wanted}"
    text = f"""
        WITH RECURSIVE branch(k) AS (
            SELECT min({key}) FROM {name} WHERE {key}>=:start {before}
            UNION ALL
            SELECT (
                SELECT min({key}) FROM {name}
                WHERE {key}>=CASE {slash} WHEN 0 THEN k||char(1)
                    ELSE substr(k,1,:at-2+{slash})||'0' END {before}
            ) FROM branch WHERE k IS NOT NULL
        )
        SELECT {",".join(part.rows.columns)} FROM branch CROSS JOIN {name}
        WHERE k IS NOT NULL AND {slash}>0 AND {found} AND {key}>:after"""
    values: dict[str, object] = {
        "start": start,
        "end": end,
        "at": len(prefix) + 1,
        "literal": topics.suffix,
    }
    return text, values
