"""The topics of alarms: the record of an alarm, and where it is published."""

from typing import Final

ALARMS_PREFIX: Final = "$alarms/"
"""The prefix of the topics of alarms: ``$alarms/<name>/<topic of the record>``."""
ALARM_ROWS: Final = "$SYS/alarms"
"""The path of the rows of alarms: ``$SYS/alarms/<name>/<topic of the record>``."""


def alarmed_topic(topic: str) -> str | None:
    """Return the record's topic for the topic or row of its alarm; None for any other topic."""
    for prefix in (ALARMS_PREFIX, f"{ALARM_ROWS}/"):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix).partition("/")[2] or None
    return None
