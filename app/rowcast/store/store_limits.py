"""Limits of the SQLite store that are not settings; reasons are where the defaults are."""

from dataclasses import dataclass
from typing import Final

from rowcast.core.limits import (
    SCAN_SIFT_MISSES,
    SCAN_SIFT_ROWS,
    STORE_BUSY_SECONDS,
    STORE_FORMER_BRANCHES_MAX,
    STORE_VIEW_CHANGES_MAX,
    STORE_VIEWS_AT_ONCE_MAX,
    STORE_VIEWS_MAX,
    STORE_WORKING_ROWS_MAX,
)


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """What one store is given when it is opened."""

    busy_seconds: float = STORE_BUSY_SECONDS
    """How long a file that another program has locked is waited for."""
    working_rows: int = STORE_WORKING_ROWS_MAX
    """Rows in memory at a time while a table changes its columns."""
    former_branches: int = STORE_FORMER_BRANCHES_MAX
    """Dropped topic tables of which is known, one by one, what is gone."""
    views: int = STORE_VIEWS_MAX
    """Views of topic tables."""
    views_at_once: int = STORE_VIEWS_AT_ONCE_MAX
    """Views up to which a change need not wait for ``tidy``."""
    view_changes: int = STORE_VIEW_CHANGES_MAX
    """Views that one ``tidy`` makes."""
    sift_misses: int = SCAN_SIFT_MISSES
    """Looks in vain, in a row, after which a scan sifts in SQL."""
    sift_rows: int = SCAN_SIFT_ROWS
    """Rows that are sifted in one statement."""


USUAL: Final = StoreLimits()
