"""Limits of what the server counts and tells of itself: each with its unit and its reason.

They stand beside ``limits.py``, which has all others.
"""

REPORT_SECONDS_MIN = 0.1
"""Between two writes of one metric (FEATURES F2)."""
REPORT_SECONDS_MAX = 1.0
"""The same while it keeps changing: a busy server writes a dozen rows a second of itself."""
REPORT_RETRY_SECONDS = 5.0
"""Until a metric that the disk refused is written again: a full disk is not hammered."""
REPORT_LOG_SECONDS = 60.0
"""Between two complaints that the disk takes no metrics."""
