"""Limits of roll-ups: each with its unit and its reason."""

from typing import Final

ROLLUP_EVERY_SECONDS_MIN: Final = 1.0
"""Shortest period: rows are written once a second."""
ROLLUP_EVERY_SECONDS_MAX: Final = 366 * 86_400.0
"""Longest period, a year: its readings are held in memory."""
ROLLUP_LATE_SECONDS_MAX: Final = 31 * 86_400.0
"""Longest time for corrections, in seconds: as long, readings are held in memory."""
ROLLUP_LATE_SECONDS: Final = 3_600.0
"""Default time for late and corrected readings after the end of a period, in seconds."""
ROLLUP_LEAD_SECONDS: Final = 3_600.0
"""How far the time of a reading may be ahead of the server's, in seconds: a zone that was forgotten
is an hour at least."""
ROLLUP_VALUES_MAX: Final = 64
"""Values of one roll-up, each of which is a column."""
ROLLUP_BY_MAX: Final = 8
"""Attributes by which it groups: levels of its rows' topics."""
ROLLUP_READINGS_MAX: Final = 1_000_000
"""Readings held for corrections, some 300 bytes each; beyond it the oldest period takes no more."""
ROLLUP_PAGE_BYTES: Final = 1024 * 1024
"""Target payload bytes of the writes that are read at a time: after large ones the next page has
fewer, so that pages of a table with large records do not fill the memory."""
ROLLUP_FIRST_EVENTS: Final = 64
"""Writes of the first page, when their size is unknown."""
ROLLUP_PAUSE_SECONDS: Final = 1.0
"""Time between two writes of rows, in seconds: a row has one event a second at most."""
ROLLUP_RETRY_SECONDS: Final = 1.0
"""Time after which refused rows are written again, in seconds."""
ROLLUP_RECORDS_KNOWN: Final = 100_000
"""Records whose last reading is known without a look into the log, some 200 bytes each."""
