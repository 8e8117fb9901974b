"""Limits of undeclared topics and their tables: each with its unit and its reason.

They stand beside ``limits.py``, which has all others.
"""

SEEN_TOPICS_MAX = 65_536
"""Topics that are known to have been written to: as many as routes are remembered."""
TOPIC_TABLE_LEVEL_CHARS_MAX = 100
"""Of a first level in its table's name: enough to know it by, where one may have 65,535."""
TOPIC_TABLES_MAX = 1_000
"""Topic tables: each is a part of the log and some memory, and a stranger's topics could make any
number (F32)."""
TOPIC_TABLE_GRACE_SECONDS = 60
"""From the last subscriber to the end of a table that holds nothing: clients come back (F25)."""
TOPIC_TABLE_RETRY_SECONDS = 1
"""Until a topic table that could not be dropped is looked at again."""
