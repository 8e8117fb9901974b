"""Limits of relationships in queries: each with its unit and reason."""

RELATION_DEPTH_MAX = 3
"""Relationships that one name follows: each costs a statement, and tables may lead in circles."""
RELATED_RECORDS_MAX = 10_000
"""Records of another table that one condition or one page of a select reads: they are in memory at
once, as many as a page with a link to the next."""
