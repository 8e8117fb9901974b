"""Limits of relationships in queries: each with its unit and reason."""

from typing import Final

RELATION_DEPTH_MAX: Final = 3
"""Relationships that one name follows: each costs a statement, and tables may lead in circles."""
RELATED_RECORDS_MAX: Final = 10_000
"""Records of another table that one condition or one page of a select reads: they are in memory at
once, as many as a page with a link to the next."""
LIVE_RELATED_RECORDS_MAX: Final = 10_000
"""Records of one table that writes of related records may concern, which a live query compares at a
time: as many as a condition leads to. With more, the query begins anew."""
LIVE_RELATED_KEYS_MAX: Final = 1_000_000
"""Keys of related records that the live queries of one process hold: some 100 MB."""
