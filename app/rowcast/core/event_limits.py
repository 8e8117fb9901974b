"""Limits of client events under ``$SYS/events``: each with its unit and its reason."""

from typing import Final

EVENTS_PER_SECOND_MAX: Final = 200
"""Events of all clients written per second: some hundredths of a core, however many clients
reconnect."""
EVENTS_BATCHES_PER_SECOND_MAX: Final = 20
"""Batches that they are written in: each costs some 200 microseconds with its hand-over to the
disk, whatever is in it. Beyond the rate events wait for 50 milliseconds."""
EVENTS_PER_CLIENT_PER_SECOND_MAX: Final = 10
"""The same for one client, and its burst: enough to report a client that sets up its filters."""
EVENTS_HELD_CLIENTS_MAX: Final = 1_000
"""Clients over these rates whose events are counted per client; further ones are counted together.
Each costs about a kilobyte."""
EVENTS_RATED_CLIENTS_MAX: Final = 4_096
"""Clients with a tracked rate: those of the last seconds."""
EVENTS_HELD_SECONDS: Final = 1.0
"""Interval between attempts to write suppressed events."""
EVENTS_NAME_CHARS_MAX: Final = 200
"""Length of a client id in a topic; a longer one is shortened to its beginning and a digest."""
EVENTS_TEXT_CHARS_MAX: Final = 500
"""Length of a reason or a filter, which may be untrusted text."""
EVENTS_KEEP_SECONDS: Final = 7 * 24 * 3600
"""Retention by age: operators look at the last week."""
EVENTS_KEEP_EVENTS: Final = 100_000
"""Events to keep: a thousand clients that come and go a dozen times a day, for a week."""
EVENTS_KEEP_BYTES: Final = 32 * 1024 * 1024
"""Payload bytes to keep: those events at some 300 bytes each."""
