"""Limits of reading rows of topic tables; reasons are where the defaults are."""

from dataclasses import dataclass
from typing import Final

from rowcast.core.limits import ROW_PAGE_ROWS_MAX, ROW_SLICE_EVENTS, ROW_SORTED_ROWS_MAX


@dataclass(frozen=True, slots=True)
class RowLimits:
    """What one reader is given when it is made."""

    slice_events: int = ROW_SLICE_EVENTS
    """Events of the log that are made rows and sifted at a time."""
    page_rows: int = ROW_PAGE_ROWS_MAX
    """Rows in memory at once, for a query without a limit."""
    sorted_rows: int = ROW_SORTED_ROWS_MAX
    """Rows that are sorted by what the log has in no order."""


USUAL: Final = RowLimits()
