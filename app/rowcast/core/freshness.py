"""Freshness: when a record was not written for longer than its table's deadline (M4, C29).

Staleness is a function of a record's version and of the time, so a query needs no memory of it.
That it began or ended is told at a topic beside the record's, ``$stale/<topic>``: a record of its
own, there while the other is stale. It knows no clocks: the time is given.
"""

from typing import Final

from rowcast.core.clock import PER_SECOND, seconds_of
from rowcast.core.tables import Table

STALE_PREFIX: Final = "$stale/"
"""What the topics begin with at which silence is told."""
SILENT: Final = "stale"
"""What a stream calls the event that a record is stale."""
FRESH: Final = "fresh"
"""What it calls the event that it was written again, or is gone."""
STALE: Final = "_stale"
"""What a query and metadata call it."""


def bound(table: Table, now_seconds: float) -> int:
    """Return the version below which a table's records are stale now."""
    return int((now_seconds - table.deadline_seconds) * PER_SECOND)


def is_stale(table: Table, version: int, now_seconds: float) -> bool:
    """Tell whether a record of that version is stale now."""
    return version < bound(table, now_seconds)


def seen_at(version: int) -> float:
    """Return when a record was last written, in seconds since 1970."""
    return seconds_of(version)


def told_of(topic: str) -> str | None:
    """Return the topic that is told of at a topic beside it; None for any other topic."""
    return topic.removeprefix(STALE_PREFIX) if topic.startswith(STALE_PREFIX) else None
