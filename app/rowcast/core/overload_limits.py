"""Limits for overload and shutdown: each with its unit and its reason."""

from typing import Final

OVERLOAD_LOOK_SECONDS: Final = 1.0
"""Interval of memory checks: a flood fills some hundred megabytes in that time."""
OVERLOAD_BACK_PERCENT: Final = 5
"""Hysteresis: how far memory must fall below a watermark before shedding stops."""
OVERLOAD_QUEUE_EVENTS: Final = 64
"""Queue of one subscription while messages are shed: enough for one write."""
OVERLOAD_QUEUE_BYTES: Final = 256 * 1024
"""Payload bytes of these."""
OVERLOAD_UNFINISHED_BYTES: Final = 64 * 1024
"""Largest partial body or packet while new connections are refused: otherwise each open one could
buffer two megabytes more."""
OVERLOAD_RETRY_SECONDS: Final = 10
"""Retry-after for refused clients."""
READY_PROBE_SECONDS: Final = 5.0
"""Minimum interval between probe writes to the disk, however many readiness requests there are."""
READY_PROBE_BYTES: Final = 65_536
"""Size of a probe write after the disk refused one: more than the slack of a file's allocation."""
READY_PROBE_BYTES_MAX: Final = 1_048_576
"""The same after a large write was refused."""
DISK_PROBE_SECONDS: Final = 10.0
"""Minimum interval between the server's own probes of a disk that refused a write and takes smaller
ones, in seconds: each may be 1 MiB of the log, and messages of QoS 0 are only late meanwhile."""
READY_RETRY_SECONDS: Final = 5
"""Retry-after while the server is not ready."""
READY_WAIT_SECONDS: Final = 2.0
"""Timeout of a probe write: a slower disk counts as not ready."""
GOODBYE_RETRY_MS_MIN: Final = 500
"""Minimum reconnect delay of clients during shutdown."""
GOODBYE_RETRY_SPREAD_MS: Final = 10_000
"""Jitter of that delay: ten thousand clients reconnect at a thousand a second."""
STOP_SECONDS_MAX: Final = 30
"""From the signal to exit, whatever is pending: acknowledged writes are on disk."""
RESOURCE_END_SECONDS: Final = 1.0
"""For a resource class to clean up when the server stops: it holds up the rest of the stop."""
USER_CODE_END_SECONDS: Final = 5.0
"""For tasks and threads of user code, once all else has stopped: more than a clean-up needs."""
BACKUP_NICENESS: Final = 10
"""Niceness of a backup, so that the server has priority."""
LOG_SAME_LINES: Final = 20
"""Log lines with the same message within LOG_SAME_SECONDS; further ones are counted."""
LOG_SAME_SECONDS: Final = 60
"""Interval of that count: an operator sees that the problem persists."""
LOG_SAME_SENTENCES_MAX: Final = 256
"""Messages counted at a time: more than the server has."""
LOG_SAME_CHARS_MAX: Final = 300
"""Length of a repeated line."""
