"""Scans: the records that a topic filter selects, by skipping over the key what it does not.

Rows are stepped through in the order of the key; at the first that does not match,
``TopicFilter.seek`` says where the next one could be, and the walk goes on from there. So a scan
costs what it returns and one step for each gap, whatever the table holds. SQLite finds a row only
when it is asked for the next, so a statement that is left early has cost nothing more.
"""

from collections.abc import Iterator
from sqlite3 import Cursor
from typing import cast

from app.core.topics import TopicFilter
from app.store.records import Key, Layout, is_after
from app.store.sql_commit import Part
from app.store.sql_rows import Row

_AFTER_DOLLAR = "%"
"""The character after ``$``: no topic that begins with ``$`` is at or beyond it."""


def scan(cursor: Cursor, part: Part, topics: TopicFilter, after: str) -> Iterator[Row]:
    """Return the rows of the selected records after topic ``after``, in order of key."""
    layout = part.rows.layout
    if layout.integer:
        return _scan_integers(cursor, part, topics, after)
    if topics.exact:
        return _scan_one(cursor, part, topics, after)
    return _scan_texts(cursor, part, topics, after)


def _scan_one(cursor: Cursor, part: Part, topics: TopicFilter, after: str) -> Iterator[Row]:
    """Find the one topic of a filter without wildcards."""
    layout = part.rows.layout
    key = layout.key_or_none(topics.text)
    if key is not None and (not after or is_after(key, layout.key(after))):
        yield from part.statements.find.read(cursor, [key])


def _scan_texts(cursor: Cursor, part: Part, topics: TopicFilter, after: str) -> Iterator[Row]:
    layout = part.rows.layout
    key, select = part.rows.key, part.statements.select
    comparison = ">" if after else ">="
    start = _local(layout, after or topics.prefix)
    if after and after < topics.prefix:
        comparison, start = ">=", _local(layout, topics.prefix)
    while start is not None:
        text = f"{select} WHERE {key}{comparison}? ORDER BY {key}"
        miss = None
        for row in cursor.execute(text, (start,)):
            topic = layout.topic(cast("Key", row[0]))
            if not topics.matches(topic):
                miss = topic
                break
            yield row
        if miss is None:
            return
        comparison, start = ">=", _next(layout, topics, miss)


def _next(layout: Layout, topics: TopicFilter, topic: str) -> str | None:
    """Return the least key that could match, beyond a topic that does not."""
    if topic.startswith("$") and topics.levels[0] in {"+", "#"}:  # MQTT-4.7.2-1
        return _local(layout, _AFTER_DOLLAR)
    sought = topics.seek(topic)
    return None if sought is None else _local(layout, sought)


def _local(layout: Layout, text: str) -> str | None:
    """Return where a text stands among the keys; None when it is beyond them all."""
    prefix = layout.prefix
    if text.startswith(prefix):
        return text[len(prefix) :]
    return "" if text < prefix else None


def _scan_integers(cursor: Cursor, part: Part, topics: TopicFilter, after: str) -> Iterator[Row]:
    """Integer keys are one level: a filter selects all of them, one, or none."""
    layout = part.rows.layout
    at = layout.prefix.count("/")
    wanted = topics.levels[at] if at < len(topics.levels) else "#"
    if wanted not in {"+", "#"}:
        key = layout.key_or_none(layout.prefix + wanted)
        if key is None or not topics.matches(layout.topic(key)):
            return
        if not after or is_after(key, layout.key(after)):
            yield from part.statements.find.read(cursor, [key])
    elif topics.matches(layout.topic(0)):
        key_column, select = part.rows.key, part.statements.select
        where, values = (f"WHERE {key_column}>?", (layout.key(after),)) if after else ("", ())
        yield from cursor.execute(f"{select} {where} ORDER BY {key_column}", values)
