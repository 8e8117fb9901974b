"""What is told of an alarm: its row, and the record at its topic."""

from typing import Final

from rowcast.codecs import JSON, encode
from rowcast.core.alarms import ALARMS_PREFIX
from rowcast.core.clauses import AlarmRule
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.topics import check_topic
from rowcast.features.alarms.alarm_states import Entry
from rowcast.features.alarms.state_machine import Alarm, Phase, Transition
from rowcast.routes.system_rows import time_text

Facts = dict[str, object]

_TIMES: Final = ("raised_at", "cleared_at", "acknowledged_at", "shelved_until")
MEMBERS: Final = (
    "id", "name", "topic", "state", "active", "severity", "when", "since", *_TIMES,
    "acknowledged_by", "shelved_by", "count", "flapping",
)  # fmt: skip
"""Of each row."""


def facts_of(name: str, rule: AlarmRule, alarm: Alarm) -> Facts:
    """Return the members of an alarm's row."""
    topic = name.partition("/")[2]
    facts: Facts = {
        "id": name,
        "name": rule.name,
        "topic": topic,
        "state": alarm.state,
        "active": alarm.phase is Phase.ACTIVE,
        "severity": rule.severity.value,
        "when": rule.when_text,
        "since": time_text(alarm.since),
    }
    for field in _TIMES:
        facts[field] = time_text(getattr(alarm, field) or None)
    return facts | {
        "acknowledged_by": alarm.acknowledged_by or None,
        "shelved_by": alarm.shelved_by or None,
        "count": alarm.count,
        "flapping": alarm.flapping,
    }


def alarm_facts(entry: Entry) -> Facts:
    """Return what others are told of a change; a pending alarm that was cleared still is."""
    alarm = entry.alarm
    if alarm is None:
        return {"id": entry.name, "name": entry.rule.name, "state": "normal"}
    facts = facts_of(entry.name, entry.rule, alarm)
    if facts["state"] == Phase.PENDING.value:
        facts["state"] = Phase.CLEARED.value
    return facts


def event_of(entry: Entry) -> Event | None:
    """Return the event at the alarm's topic; None if it has none, because that is too long."""
    topic = ALARMS_PREFIX + entry.name
    try:
        check_topic(topic)
    except Error:
        return None
    if entry.happened is Transition.REMOVED:
        return Event(topic, DELETE, b"", None, 1, True)
    return Event(topic, PUT, encode(alarm_facts(entry), JSON), JSON, 1, True)
