"""Limits of what is told of clients under ``$SYS/events``: each with its unit and its reason."""

EVENTS_PER_SECOND_MAX = 200
"""Events of all clients written in a second: some hundredths of a core, whoever comes and goes."""
EVENTS_PER_CLIENT_PER_SECOND_MAX = 10
"""The same of one client, as much at once: a client that sets up its filters is seen doing so."""
EVENTS_HELD_CLIENTS_MAX = 1_000
"""Clients over these rates whose events are counted one by one; further ones are counted together.
Each costs about a kilobyte."""
EVENTS_RATED_CLIENTS_MAX = 4_096
"""Clients whose rate is known: those of the last seconds."""
EVENTS_HELD_SECONDS = 1.0
"""Between two looks whether what was held back may be written."""
EVENTS_NAME_CHARS_MAX = 200
"""Of a client id in a topic; a longer one is told by its beginning and a digest."""
EVENTS_TEXT_CHARS_MAX = 500
"""Of a reason or a filter, which may be a stranger's text."""
EVENTS_KEEP_SECONDS = 7 * 24 * 3600
"""Age to keep: an operator asks about last week."""
EVENTS_KEEP_EVENTS = 100_000
"""Events to keep: a thousand clients that come and go a dozen times a day, for a week."""
EVENTS_KEEP_BYTES = 32 * 1024 * 1024
"""Payload bytes to keep: those events at some 300 bytes each."""
