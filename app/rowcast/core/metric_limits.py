"""Limits of what the server counts and tells of itself: each with its unit and its reason.

They stand beside ``limits.py``, which has all others.
"""

REPORT_SECONDS_MIN = 0.1
"""Between two writes of one metric (F2)."""
REPORT_SECONDS_MAX = 1.0
"""The same while it keeps changing: a busy server writes a dozen rows a second of itself."""
REPORT_RETRY_SECONDS = 5.0
"""Until a metric that the disk refused is written again: a full disk is not hammered."""
REPORT_LOG_SECONDS = 60.0
"""Between two complaints that the disk takes no metrics."""
SYS_HISTORY_SECONDS = 24 * 3600.0
"""Age of the metrics' past: a day shows what an operator asks about; longer is a setting."""
SYS_HISTORY_EVENTS = 500_000
"""Events of it: what a server writes in a day whose traffic never rests."""
SYS_HISTORY_BYTES = 64 * 1024 * 1024
"""Payload bytes of it: dead letters of bridges are among them."""
TOP_TOPICS_MAX = 1_000
"""Topics of which there are statistics, some 300 bytes each: as many as can be sorted at once. The
error of a count is at most a thousandth of all messages."""
TOPIC_RATE_SECONDS = 60.0
"""Time over which the rate of a topic is averaged."""
PROPOSAL_EVENTS_MAX = 5_000
"""Newest messages of each first level that a schema is learnt from: half a second of a thread."""
REQUEST_SERIES_MAX = 1_000
"""Histograms of HTTP requests, by method, route and status: a schema of fifty tables has some five
hundred, each of 200 bytes."""
