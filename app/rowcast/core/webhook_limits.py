"""Limits of webhooks: each with its unit and its reason."""

from typing import Final

WEBHOOK_TIMEOUT_SECONDS: Final = 10.0
"""Time for each step of a call, such as connecting, in seconds; the usual one of senders."""
WEBHOOK_CALL_SECONDS_MAX: Final = 30.0
"""Time for a whole call once it is connected, in seconds: a receiver that answers a byte at a time
would hold its thread, and all later calls, for days."""
WEBHOOK_ATTEMPTS_MAX: Final = 8
"""Calls for one notification; the last is made about two hours after the first."""
WEBHOOK_BACKOFF_SECONDS: Final = 1.0
"""Time after the first failed call, in seconds; each further one waits four times as long."""
WEBHOOK_BACKOFF_FACTOR: Final = 4
"""So that eight calls span an outage of hours, and the first retries a restart."""
WEBHOOK_BACKOFF_SECONDS_MAX: Final = 3_600.0
"""Longest time between two calls, in seconds."""
WEBHOOK_WAITING_MAX: Final = 10_000
"""Notifications of alarms that wait, some 1 KiB each; a further one is a dead letter at once."""
WEBHOOK_DEAD_MAX: Final = 1_000
"""Dead letters that are kept; the oldest makes room for the next one."""
WEBHOOK_ANSWER_BYTES_MAX: Final = 4_096
"""Bytes of an answer that are read, so that the connection may end properly; none are used."""
