"""Limits of alarms and of the calls that report them: each with its unit and its reason."""

from typing import Final

ALARM_FOR_SECONDS_MAX: Final = 30 * 86_400.0
"""Longest time for which a condition must hold: about a month, as far as a timer is of use."""
ALARMS_OF_TABLE_MAX: Final = 32
"""Alarms of one table: each of its writes evaluates the conditions of all of them."""
ALARM_NAME_CHARS_MAX: Final = 64
"""Characters of an alarm's name, which is a level of topics."""
ALARM_ROWS_MAX: Final = 100_000
"""Alarms that are not normal, some 1 KiB each in memory; further ones are counted and logged."""
ALARM_FLAPS_MAX: Final = 5
"""Raises within the flapping period after which an alarm stays raised until it is calm. So a
condition that changes with each write causes at most so many pairs of events in a period."""
ALARM_FLAP_SECONDS: Final = 60.0
"""The flapping period, in seconds: the usual limit of ISA-18.2 is three times a minute."""
ALARM_CLEARED_SECONDS: Final = 3_600
"""Default time for which a cleared alarm is shown, in seconds: a shift change."""
ALARM_SHELVE_SECONDS_MAX: Final = 30 * 86_400.0
"""Longest shelving, in seconds: a forgotten one must end."""
ALARM_TIMER_SECONDS_MAX: Final = 60.0
"""Longest sleep of the timer, in seconds: the wall clock may be set meanwhile."""
ALARM_RETRY_SECONDS: Final = 1.0
"""Time after which refused changes are written again, in seconds."""
ALARM_CHANGES_PER_COMMIT: Final = 1_000
"""Changes of alarms in one transaction: some 500 KiB."""
ALARM_CHECKPOINT_EVENTS: Final = 10_000
"""Events after which the position is stored: a restart reads at most so many again, and those of
the next seconds."""
ALARM_CHECKPOINT_SECONDS: Final = 5.0
"""Time after which changes that nobody is told of are stored, in seconds."""
ALARM_DUE_PER_TURN: Final = 256
"""Timers that are handled in one turn of the event loop: some milliseconds."""
