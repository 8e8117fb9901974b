"""Freshness: a record is stale when it was not written within its table's deadline (M4, C29).

Staleness is a function of a record's version and the time, so a query needs no stored state. Its
start and end are published at ``$stale/<topic>``: a record that exists while the other is stale.
The module has no clock: each call passes the time.
"""

from typing import Final

from rowcast.core.alarms import ALARMS_PREFIX, alarmed_topic
from rowcast.core.clock import PER_SECOND, seconds_of
from rowcast.core.tables import Table

STALE_PREFIX: Final = "$stale/"
"""The prefix of topics that report stale records."""
SILENT: Final = "stale"
"""The stream event for a record that became stale."""
FRESH: Final = "fresh"
"""The stream event for a record that was written again or deleted."""
STALE: Final = "_stale"
"""The name of staleness in queries and metadata."""


def bound(table: Table, now_seconds: float) -> int:
    """Return the version below which a table's records are stale now."""
    return int((now_seconds - table.deadline_seconds) * PER_SECOND)


def is_stale(table: Table, version: int, now_seconds: float) -> bool:
    """Whether a record of that version is stale now."""
    return version < bound(table, now_seconds)


def seen_at(version: int) -> float:
    """Return when a record was last written, in seconds since 1970."""
    return seconds_of(version)


def told_of(topic: str) -> str | None:
    """Return the record that a topic of the server tells of; None for any other topic."""
    if topic[:1] != "$":
        return None
    if topic.startswith(STALE_PREFIX):
        return topic.removeprefix(STALE_PREFIX)
    return alarmed_topic(topic) if topic.startswith(ALARMS_PREFIX) else None
