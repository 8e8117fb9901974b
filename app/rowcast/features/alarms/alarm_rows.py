"""Rows of ``$SYS/alarms``: the alarms that are not normal, which can be acknowledged and shelved.

    GET   $SYS/alarms/                          all; ?state=raised&severity=critical
    GET   $SYS/alarms/hot/Sensor/1              one: the name of the alarm, the topic of the record
    PATCH $SYS/alarms/hot/Sensor/1 {"acknowledged": true}
    PATCH $SYS/alarms/hot/Sensor/1 {"shelved_for": "2h"}, {"shelved_until": "2026-01-31T12:00:00Z"}
    PATCH $SYS/alarms/hot/Sensor/1 {"shelved_until": null}      ends it

Who may read a record may read its alarms; once there are rules, rows of ``$SYS`` need one that
allows it, and the topics ``$alarms/#`` do not. Changing one needs the right to administer, which a
rule may give for ``$SYS/alarms/#`` alone.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final, cast

from rowcast.core.alarm_limits import ALARM_SHELVE_SECONDS_MAX
from rowcast.core.alarms import ALARM_ROWS, ALARMS_PREFIX
from rowcast.core.durations import parse_duration
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.core.scalars import Mismatch, to_date
from rowcast.features.alarms.alarm_facts import MEMBERS, Facts, facts_of
from rowcast.features.alarms.alarms import Alarms
from rowcast.features.alarms.state_machine import Alarm, Step, acknowledge, shelve, unshelve
from rowcast.routes.system_rows import SystemRows

Act = Callable[[Alarm, float], Step]

_HOW: Final = (
    'an alarm is changed with {"acknowledged": true}, {"shelved_for": "2h"}, '
    '{"shelved_until": "2026-01-31T12:00:00Z"} or {"shelved_until": null}'
)


def alarm_rows(alarms: Alarms) -> type[SystemRows]:
    """Return the resource class of alarms."""

    class AlarmRows(SystemRows):
        """One row for each alarm that is not normal."""

        path = ALARM_ROWS
        followed = None
        members = MEMBERS

        def names(self) -> Sequence[str]:
            return alarms.states.names()

        def row(self, name: str, *, whole: bool) -> Facts | None:  # noqa: ARG002 - it is short
            held = alarms.states.get(name) if self._sees(name) else None
            return None if held is None else facts_of(name, held.rule, held.alarm)

        def _sees(self, name: str) -> bool:
            """Whether the caller may know of the alarm: whoever may read the record may."""
            if self.caller.door == "server":
                return True
            topic = ALARMS_PREFIX + name
            if not self.kernel.visibility.may_read(self.caller, topic):
                return False
            return self.kernel.rights.shown(self.caller, Event(topic, PUT, b"{}")) is not None

        async def patch(self, value: object) -> None:
            """Acknowledge, shelve or unshelve the alarm."""
            await alarms.change(self.id, _act_of(value, self.caller.user), self.caller.user)

    return AlarmRows


def _act_of(value: object, user: str) -> Act:
    """Return what a patch does."""
    facts = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if facts == {"acknowledged": True}:
        return partial(_acknowledge, user)
    if facts == {"shelved_until": None}:
        return lambda alarm, _now: unshelve(alarm)
    if set(facts) == {"shelved_for"}:
        seconds = parse_duration(str(facts["shelved_for"]))
        if seconds is not None:
            return partial(_shelve, user, lambda now: now + seconds)
    if set(facts) == {"shelved_until"}:
        try:
            until = cast("datetime", to_date(facts["shelved_until"])).timestamp()
        except Mismatch:
            raise Error(Code.UNPROCESSABLE, f"shelved_until is no time; {_HOW}") from None
        return partial(_shelve, user, lambda _now: until)
    raise Error(Code.UNPROCESSABLE, _HOW)


def _acknowledge(user: str, alarm: Alarm, now: float) -> Step:
    return acknowledge(alarm, now, user)


def _shelve(user: str, until: Callable[[float], float], alarm: Alarm, now: float) -> Step:
    end = until(now)
    if not now < end <= now + ALARM_SHELVE_SECONDS_MAX:
        most = f"{ALARM_SHELVE_SECONDS_MAX / 86_400:g}"
        raise Error(Code.UNPROCESSABLE, f"an alarm is shelved for more than 0 s, up to {most} days")
    return shelve(alarm, end, user)
