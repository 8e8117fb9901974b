"""Skip scans: the records that match a topic filter, in order of the key.

Rows are read in the order of the key; at the first that does not match, ``TopicFilter.seek``
returns the next possible key, and the scan continues from there. So a scan costs its result and one
step for each gap, whatever the size of the table. SQLite computes rows lazily, so stopping early
costs nothing more.

If there is nothing to skip, because every topic is in another branch, a pattern in SQL filters many
rows at once before Python does.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import re
from collections.abc import Generator, Iterator
from sqlite3 import Cursor
from typing import cast

from rowcast.core.topics import ONE_LEVEL, TopicFilter
from rowcast.store.records import Key, Layout, is_after
from rowcast.store.sql_branches import is_branched, scan_branches
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_rows import Row
from rowcast.store.sql_tables import quoted
from rowcast.store.store_limits import USUAL, StoreLimits


def scan(
    cursor: Cursor,
    part: LogPartition,
    topics: TopicFilter,
    after: str,
    limits: StoreLimits = USUAL,
) -> Iterator[Row]:
    """Return the rows of matching records after topic ``after``, sorted by key."""
    layout = part.rows.layout
    if layout.integer:
        return _scan_integers(cursor, part, topics, after)
    if topics.exact:
        return _scan_one(cursor, part, topics, after)
    if is_branched(cursor, part, topics, after):
        return scan_branches(cursor, part, topics, after)
    return _scan_texts(cursor, part, topics, after, limits)


def _scan_one(cursor: Cursor, part: LogPartition, topics: TopicFilter, after: str) -> Iterator[Row]:
    """Find the one topic of a filter without wildcards."""
    layout = part.rows.layout
    key = layout.key_or_none(topics.text)
    if key is not None and (not after or is_after(key, layout.key(after))):
        yield from part.statements.find.run(cursor, [key])


def _scan_texts(
    cursor: Cursor, part: LogPartition, topics: TopicFilter, after: str, limits: StoreLimits
) -> Iterator[Row]:
    """Scan the keys: step, skip where possible, and filter in SQL where skipping gains nothing."""
    layout = part.rows.layout
    comparison = ">" if after else ">="
    start = _local(layout, after or topics.prefix)
    if after and after < topics.prefix:
        comparison, start = ">=", _local(layout, topics.prefix)
    sieve = _Sieve(cursor, part, topics, limits)
    patience = limits.sift_misses
    while start is not None:
        start, gap = yield from _walk(cursor, part, topics, comparison, start, patience)
        if start is not None and not gap and sieve.useful:
            start = yield from sieve.sift(start)
        comparison = ">="


def _walk(
    cursor: Cursor,
    part: LogPartition,
    topics: TopicFilter,
    comparison: str,
    start: str,
    patience: int,
) -> Generator[Row, None, tuple[str | None, bool]]:
    """Yield matching rows from a key on; return the next key, and whether it is beyond a gap.

    The next key is None at the end. Without a gap, many rows in sequence did not match.
    """
    layout, key = part.rows.layout, part.rows.key
    text = f"{part.statements.select} WHERE {key}{comparison}? ORDER BY {key}"
    target, misses = "", 0
    for row in cursor.execute(text, (start,)):
        local = cast("str", row[0])
        if local < target:
            return target, True
        topic = layout.topic(local)
        if topics.matches(topic):
            misses = 0
            yield row
            continue
        misses += 1
        sought = _next(layout, topics, topic)
        if sought is None or misses == patience:
            return sought, False
        target = sought
    return None, False


class _Sieve:
    """Filters many neighbouring rows in one statement, if nearly all of them must be checked.

    A tree with a million branches of one leaf has no gaps to skip, and a Python step for each
    branch would be slower than a full scan.
    """

    def __init__(
        self, cursor: Cursor, part: LogPartition, topics: TopicFilter, limits: StoreLimits
    ) -> None:
        self._limits = limits
        name, key = quoted(part.rows.name), part.rows.key
        self._cursor = cursor
        self._part = part
        self._topics = topics
        # With more wildcards, or a longer pattern, GLOB could cost more than it saves.
        self.useful = topics.free_levels <= 3 and len(topics.text) <= 1_000
        self._pattern = _glob(topics)
        self._within = (
            f"{part.statements.select} WHERE {key}>=? AND {key}<? AND ?||{key} GLOB ?"
            f" ORDER BY {key}"
        )
        self._end = f"SELECT {key} FROM {name} WHERE {key}>=? ORDER BY {key} LIMIT 1 OFFSET ?"

    def sift(self, start: str) -> Generator[Row, None, str | None]:
        """Yield the matching rows among the next ones; return the next key, or None at the end."""
        layout = self._part.rows.layout
        found = self._cursor.execute(self._end, (start, self._limits.sift_rows)).fetchone()
        if found is None:  # fewer are left: step
            yield from self._rest(start)
            return None
        end = cast("str", found[0])
        values = (start, end, layout.prefix, self._pattern)
        for row in self._cursor.execute(self._within, values):
            if self._topics.matches(layout.topic(cast("Key", row[0]))):
                yield row
        return end

    def _rest(self, start: str) -> Generator[Row, None, None]:
        following: str | None = start
        while following is not None:
            misses = self._limits.sift_misses
            walk = _walk(self._cursor, self._part, self._topics, ">=", following, misses)
            following, _ = yield from walk


def _glob(topics: TopicFilter) -> str:
    """Return a GLOB pattern for a superset of the matching topics."""
    literal = [re.sub(r"[*?[]", r"[\g<0>]", level) for level in topics.levels]
    levels = ["*" if level == ONE_LEVEL else level for level in literal]
    return "/".join(levels[:-1]) + "*" if topics.unbounded else "/".join(levels)


def _next(layout: Layout, topics: TopicFilter, topic: str) -> str | None:
    """Return the least possible matching key after a topic that does not match."""
    sought = topics.seek(topic)
    return None if sought is None else _local(layout, sought)


def _local(layout: Layout, text: str) -> str | None:
    """Return the position of a text among the keys; None when it is after all of them."""
    prefix = layout.prefix
    if text.startswith(prefix):
        return text[len(prefix) :]
    return "" if text < prefix else None


def _scan_integers(
    cursor: Cursor, part: LogPartition, topics: TopicFilter, after: str
) -> Iterator[Row]:
    """Scan a table of integer keys, which are one level: a filter matches all, one, or none."""
    layout = part.rows.layout
    wanted = topics.literal(layout.prefix.count("/"))
    if wanted is not None:
        key = layout.key_or_none(layout.prefix + wanted)
        if key is None or not topics.matches(layout.topic(key)):
            return iter(())
        if after and not is_after(key, layout.key(after)):
            return iter(())
        return iter(part.statements.find.run(cursor, [key]))
    if not topics.matches(layout.topic(0)):
        return iter(())
    key_column, select = part.rows.key, part.statements.select
    where, values = (f"WHERE {key_column}>?", (layout.key(after),)) if after else ("", ())
    return cursor.execute(f"{select} {where} ORDER BY {key_column}", values)
