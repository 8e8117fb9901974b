"""Limits of live queries: each with its unit and its reason."""

from typing import Final

LIVE_QUERIES_MAX: Final = 1_000
"""Live queries of one user, or of one address without a user: each costs a kilobyte, and each event
that it matches a delivery; a page has some ten."""

QUERY_INDEX_CHANGES_MAX: Final = 64
"""Changed intervals of one index that are compared one by one, before it is sorted anew: a
comparison costs a ten thousandth of sorting ten thousand."""
