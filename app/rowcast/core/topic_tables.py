"""Topic tables: the tables of messages at undeclared topics, and their names.

All undeclared topics with the same first level are one *branch*, and those of a single level are
one together; each branch has one table, whose rows are its part of the log. It is named ``mqtt_``
and the first level if that is free: names are unique (X3). The kernel creates and drops such
tables, and the store keeps their rows.
"""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.topics import (
    ONE_LEVEL,
    SHARE_PREFIX,
    WILDCARDS,
    TopicFilter,
    is_within,
    levels_below,
    overlaps,
)
from rowcast.core.undeclared_topic_limits import TOPIC_ROOTS_CACHED_MAX, TOPIC_TABLE_LEVEL_CHARS_MAX

DATABASE: Final = "mqtt_topics"
"""The database that all topic tables are in."""
PREFIX: Final = "mqtt_"
MESSAGES: Final = "mqtt_messages"
"""The table of all topics of a single level (F4)."""
METRICS: Final = "mqtt_sys_metrics"
"""The table of the server's metrics under ``$SYS/broker`` (F1)."""
CLIENT_EVENTS: Final = "mqtt_sys_events"
"""The table of client events, below EVENTS_LEVEL (O6)."""
EVENTS_LEVEL: Final = "$SYS/events"
"""A branch below a first level: client events must not evict metrics from retention."""
AUDIT: Final = "mqtt_sys_audit"
"""The table of administrative actions, below AUDIT_LEVEL (L15)."""
AUDIT_LEVEL: Final = "$AUDIT"
"""A separate first level with ``$``: only filters that name it match (MQTT-4.7.2-1)."""
REFUSALS: Final = "mqtt_sys_refusals"
"""The table of refusals, below REFUSALS_LEVEL."""
REFUSALS_LEVEL: Final = "$AUDIT/refused"
"""A branch below a first level, too: refusals must not evict audit events."""
RESERVED: Final = frozenset({MESSAGES, METRICS, CLIENT_EVENTS, AUDIT, REFUSALS})

DIVIDED: Final = {"$SYS": ("events", EVENTS_LEVEL), AUDIT_LEVEL: ("refused", REFUSALS_LEVEL)}
"""Second levels with a separate branch, by first level."""
_NOT_IN_NAMES: Final = re.compile("[^a-z0-9_]")
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID: Final = re.compile("([0-9]{13,16})-([0-9a-z]{9,13})", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopicRoot:
    """The undeclared topics below one first level; None: all topics that have only one level.

    EVENTS_LEVEL is a branch too, and not a part of that of ``$SYS``; so is REFUSALS_LEVEL.
    """

    level: str | None

    def has(self, topic: str) -> bool:
        """Whether an undeclared topic belongs to this branch."""
        return branch_of(topic).level == self.level

    @property
    def topics(self) -> TopicFilter:
        """The filter that selects the branch's topics, and perhaps a few others."""
        return TopicFilter(ONE_LEVEL) if self.level is None else TopicFilter.below(self.level)


@dataclass(frozen=True, slots=True)
class TopicTable:
    """A branch's table, with its permanent name."""

    name: str
    branch: TopicRoot


LogSource = Table | TopicRoot | None
"""A part of the log: of a declared table, of a branch, or None: of all undeclared topics."""


_root = lru_cache(TOPIC_ROOTS_CACHED_MAX)(TopicRoot)
"""Filters of one branch share its root."""


def branch_of(topic: str) -> TopicRoot:
    """Return the branch of an undeclared topic."""
    first, slash, _ = topic.partition("/")
    if first in DIVIDED and topic.startswith(f"{DIVIDED[first][1]}/"):
        return _root(DIVIDED[first][1])
    return _root(first if slash else None)


def branches_of(topics: TopicFilter) -> tuple[TopicRoot, ...] | None:
    """Return the branches that a filter can match; None: any of them."""
    levels = topics.levels
    if len(levels) == 1:
        return None if topics.unbounded else (TopicRoot(None),)
    if levels[0] in WILDCARDS:
        return None
    found = [TopicRoot(levels[0])]
    second, name = DIVIDED.get(levels[0], ("", ""))
    if second and levels[1] in {second, *WILDCARDS}:
        apart = TopicRoot(name)
        found = [apart] if len(levels) > 2 and levels[1] == second else [*found, apart]
    if len(levels) == 2 and topics.unbounded:  # which selects its parent too (MQTT-4.7.1-2)
        found.append(TopicRoot(None))
    return tuple(found)


def owner_of(topic: str, tables: Sequence[Table]) -> Table | None:
    """Return the table that a topic belongs to: the longest path wins (A7)."""
    best: Table | None = None
    for table in tables:
        path = table.path
        if path is None or not is_within(topic, path):
            continue
        if best is None or len(path) > len(best.path or ""):
            best = table
    return best


def sources_of(topics: TopicFilter, tables: Sequence[Table]) -> list[LogSource]:
    """Return the sources that a filter can match: tables, and branches or all undeclared topics."""
    first = topics.levels[0]
    if first not in WILDCARDS:  # most filters begin as no table does
        tables = [item for item in tables if not item.path or item.path.startswith(first)]
    if topics.exact:
        return [owner_of(topics.text, tables) or branch_of(topics.text)]
    found: list[LogSource] = [
        item
        for item in tables
        if item.path is not None and overlaps(topics.levels, levels_below(item.path))
    ]
    if not any(item.path and is_within(topics.prefix, item.path) for item in tables):
        found.extend(branches_of(topics) or [None])
    return found


def name_of_branch(branch: TopicRoot, taken: Container[str] = ()) -> str:
    """Return the name of a new table of a branch: ``mqtt_`` and its level, unless taken.

    Otherwise four hexadecimal digits of the level's BLAKE2 are added (X3), or more if that is taken
    as well.
    """
    level = branch.level or ""
    units = _ASTRAL.sub("__", level.lower())  # one ``_`` for each UTF-16 unit, as JavaScript counts
    name = PREFIX + _NOT_IN_NAMES.sub("_", units)[:TOPIC_TABLE_LEVEL_CHARS_MAX]
    if branch.level is None:
        name = MESSAGES
    if name not in taken and (name not in RESERVED or branch.level is None):
        return name
    digest = blake2b(level.encode()).hexdigest()
    return next(
        free
        for length in range(4, len(digest) + 1)
        if (free := f"{name}_{digest[:length]}") not in taken
    )


def table_name_for_topic(topic: str, taken: Container[str] = ()) -> str:
    """Return the name of a topic's table (F5); ``taken``: names of other branches' tables.

    For a shared subscription it is that of its filter; for the server's own topics, METRICS.
    """
    if topic.startswith(SHARE_PREFIX) and topic.count("/") >= 2:
        topic = topic.split("/", 2)[2]
    if topic.startswith("$SYS/"):
        return METRICS
    return name_of_branch(branch_of(topic), taken)


def row_table(table: TopicTable) -> Table:
    """Return the table of a topic table's rows, which have seven columns (F3)."""
    columns = (
        Attribute("id", Type.ID, required=True, primary_key=True),
        Attribute("topic", Type.STRING, required=True),
        Attribute("payload", Type.ANY),
        Attribute("qos", Type.INT, required=True),
        Attribute("retain", Type.BOOLEAN, required=True),
        Attribute("timestamp", Type.DATE, required=True),
        Attribute("client_id", Type.STRING),
    )
    return Table(table.name, table.name, columns, DATABASE, sealed=True)


def message_id(version: int, seq: int) -> str:
    """Return the id of an event's row: its time in milliseconds, then its number, in base 36.

    It is unique in a log, and its order as text is that of time (F15).
    """
    digits = ""
    rest = seq
    while rest:
        rest, digit = divmod(rest, 36)
        digits = _DIGITS[digit] + digits
    return f"{version // 1_000:013d}-{digits:0>9}"


def seq_of_message(text: str) -> int | None:
    """Return the sequence number in a row's id; None for other text."""
    found = _ID.fullmatch(text)
    return int(found[2], 36) if found else None
