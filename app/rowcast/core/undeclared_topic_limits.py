"""Limits of undeclared topics and their tables: each with its unit and its reason.

Those of every topic, such as its bytes and levels, are in ``limits.py``.
"""

from typing import Final

SEEN_TOPICS_MAX: Final = 65_536
"""Recently written topics: as many as cached routes."""
TOPIC_TABLE_LEVEL_CHARS_MAX: Final = 100
"""Length of a first level in its table's name; a level may have 65,535."""
TOPIC_TABLES_MAX: Final = 1_000
"""Topic tables: each needs a part of the log and some memory, and clients could create any number
(F32)."""
TOPIC_ROOTS_CACHED_MAX: Final = 1_024
"""Shared first levels of filters, about as many as there may be topic tables."""
TOPIC_TABLE_GRACE_SECONDS: Final = 60
"""Delay from the last unsubscribe to dropping an empty table: clients reconnect (F25)."""
TOPIC_TABLE_RETRY_SECONDS: Final = 1
"""Retry delay for a topic table that could not be dropped."""
