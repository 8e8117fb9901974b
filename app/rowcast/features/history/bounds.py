"""What reads of the past hold in memory at a time.

The values and their reasons are those of ``core/limits.py``; the reads, as-of reads and series of
one server share these bounds.
"""

from dataclasses import dataclass
from typing import Final

from rowcast.core.limits import (
    HISTORY_BUCKETS_MAX,
    HISTORY_CHANGED_RECORDS_MAX,
    HISTORY_FIRST_EVENTS,
    HISTORY_PAGE_BYTES,
    HISTORY_PAGE_EVENTS,
    HISTORY_WHOLE_BYTES_MAX,
)


@dataclass(frozen=True, slots=True)
class HistoryBounds:
    """The bounds of one server's reads of the past."""

    page_events: int = HISTORY_PAGE_EVENTS
    """Events of a page."""
    page_bytes: int = HISTORY_PAGE_BYTES
    """Target payload bytes of a page."""
    first_events: int = HISTORY_FIRST_EVENTS
    """Events of the first page."""
    whole_bytes: int = HISTORY_WHOLE_BYTES_MAX
    """Payload bytes of an answer that is in memory as a whole."""
    changed_records: int = HISTORY_CHANGED_RECORDS_MAX
    """Records changed since the moment of an as-of read."""
    buckets: int = HISTORY_BUCKETS_MAX
    """Buckets of a series, for each topic and attribute."""


BOUNDS: Final = HistoryBounds()
"""The bounds by default."""
