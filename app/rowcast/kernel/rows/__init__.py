"""Rows as they are now: reads and ranges of tables, and what the server tells of itself."""
