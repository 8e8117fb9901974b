"""Limits of triggers: each with its unit and its reason."""

from typing import Final

TRIGGERS_MAX: Final = 256
"""Triggers of a server: each has a subscription, and a call at a time."""
TRIGGER_EVENTS_AT_ONCE: Final = 16
"""Events that are taken from the cursor together, some KiB each."""
TRIGGER_ATTEMPTS_MAX: Final = 5
"""Calls of a function for one event, of which the last is made 15 seconds after the first."""
TRIGGER_BACKOFF_SECONDS: Final = 1.0
"""Time after the first failed call of a function, in seconds; each further one waits twice it."""
TRIGGER_BACKOFF_FACTOR: Final = 2
"""So that five calls span the restart of what a function needs."""
TRIGGER_CALL_SECONDS_MAX: Final = 60.0
"""Longest call, in seconds: later events of the trigger wait for it."""
TRIGGER_DEPTH_MAX: Final = 8
"""Triggers that may lead to one event: more are a circle, nearly surely."""
TRIGGER_DEAD_MAX: Final = 1_000
"""Failed events that are kept, some 200 bytes each; the oldest makes room for the next one."""
TRIGGER_PROBLEM_CHARS_MAX: Final = 500
"""Characters of an error that are kept."""
TRIGGER_CHECKPOINT_SECONDS: Final = 60.0
"""Between two notes of the position of a trigger for which nothing happens: a restart reads the log
of at most so many seconds."""
TRIGGER_NAME_CHARS_MAX: Final = 128
"""Characters of a name, which is a file's and a function's."""
TRIGGER_RETRY_SECONDS: Final = 1.0
"""Time after which the log is read again when it could not be read, in seconds."""
