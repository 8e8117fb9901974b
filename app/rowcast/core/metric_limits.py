"""Limits of metrics: each with its unit and its reason.

All other limits are in ``limits.py``.
"""

from typing import Final

REPORT_SECONDS_MIN: Final = 0.1
"""Minimum interval between two writes of one metric (F2)."""
REPORT_SECONDS_MAX: Final = 1.0
"""The same while it keeps changing: a busy server writes a dozen metrics a second."""
REPORT_RETRY_SECONDS: Final = 5.0
"""Retry delay for a metric that the disk refused: a full disk is not hammered."""
REPORT_LOG_SECONDS: Final = 60.0
"""Interval between log lines about refused metrics."""
SYS_HISTORY_SECONDS: Final = 24 * 3600.0
"""Retention of metrics by age: a day answers most questions; configurable."""
SYS_HISTORY_EVENTS: Final = 500_000
"""Retention by number: a day of a server under constant traffic."""
SYS_HISTORY_BYTES: Final = 64 * 1024 * 1024
"""Retention by payload bytes: includes dead letters of bridges."""
TOP_TOPICS_MAX: Final = 1_000
"""Topics of which there are statistics, some 300 bytes each: as many as can be sorted at once. The
error of a count is at most a thousandth of all messages."""
TOPIC_RATE_SECONDS: Final = 60.0
"""Time over which the rate of a topic is averaged."""
PROPOSAL_EVENTS_MAX: Final = 5_000
"""Newest messages of each first level from which a schema is inferred: half a second of a
thread."""
REQUEST_SERIES_MAX: Final = 1_000
"""Histograms of HTTP requests, by method, route and status: a schema of fifty tables has some five
hundred, each of 200 bytes."""
