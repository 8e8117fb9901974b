"""The state machine of one alarm of one record: a function of writes, commands and time.

It has no clock and no I/O: each call passes the time, in seconds since 1970, which does not
decrease. ``due`` is when ``expire`` has to be called next. So a replay of the same writes and times
gives the same states, which is what makes alarms exact after a kill (``alarms.py``).

    normal --when--> pending --for--> raised --acknowledge--> acknowledged
    raised, acknowledged --clear--> cleared --some time, or acknowledge--> normal
    any of them but pending --shelve--> shelved --until its time--> as the record says then

A cleared alarm may become pending again; as long as it is, others see it cleared. Raised too often,
it is *flapping*: it stays raised until it has been calm for the flapping period.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Final

from rowcast.core.alarm_limits import ALARM_CLEARED_SECONDS, ALARM_FLAP_SECONDS, ALARM_FLAPS_MAX
from rowcast.core.errors import Code, Error


class Phase(StrEnum):
    """What the record says, with hysteresis."""

    PENDING = "pending"
    ACTIVE = "active"
    CLEARED = "cleared"


class Transition(StrEnum):
    """A change that others are told of."""

    RAISED = "raised"
    CLEARED = "cleared"
    ACKNOWLEDGED = "acknowledged"
    SHELVED = "shelved"
    UNSHELVED = "unshelved"
    FLAPPING = "flapping"
    REMOVED = "removed"
    """It is normal again."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The periods of one alarm, in seconds, and the raises in a flapping period."""

    for_seconds: float = 0
    cleared_seconds: float = ALARM_CLEARED_SECONDS
    flap_seconds: float = ALARM_FLAP_SECONDS
    flaps_max: int = ALARM_FLAPS_MAX


@dataclass(frozen=True, slots=True)
class Alarm:
    """The state of an alarm that is not normal; times in seconds since 1970, 0 for never."""

    phase: Phase
    since: float
    """When the phase began."""
    raised_at: float = 0.0
    cleared_at: float = 0.0
    acknowledged_at: float = 0.0
    acknowledged_by: str = ""
    shelved_until: float = 0.0
    shelved_by: str = ""
    raises: tuple[float, ...] = ()
    """The last raises, at most as many as a flapping period may have."""
    count: int = 0
    """How often it was raised since it was normal."""
    flapping: bool = False
    calm_since: float = 0.0
    """While it is flapping: since when the record would have cleared it."""

    @property
    def shelved(self) -> bool:
        """Whether it is shelved."""
        return self.shelved_until > 0

    @property
    def state(self) -> str:
        """The state as a word."""
        if self.shelved:
            return "shelved"
        if self.phase is Phase.ACTIVE:
            return "acknowledged" if self.acknowledged_at else "raised"
        return self.phase.value

    def due(self, timing: Timing) -> float:
        """Return when time alone changes it next; ``inf`` for never."""
        if self.phase is Phase.PENDING:
            next_change = self.since + timing.for_seconds
        elif self.phase is Phase.CLEARED:
            next_change = inf if self.shelved else self.cleared_at + timing.cleared_seconds
        elif self.flapping and self.calm_since:
            next_change = self.calm_since + timing.flap_seconds
        else:
            next_change = inf
        return min(next_change, self.shelved_until or inf)


Step = tuple[Alarm | None, Transition | None]
"""The state after a change, None for normal, and what others are told, None for nothing."""
_NOTHING: Final = None


def observe(alarm: Alarm | None, now: float, timing: Timing, *, hot: bool, cool: bool) -> Step:
    """Apply a write of the record: whether it raises the alarm, or else clears it."""
    if hot:
        return _hot(alarm, now, timing)
    if alarm is None or alarm.phase is Phase.CLEARED:
        return alarm, _NOTHING
    if alarm.phase is Phase.PENDING:
        return _calmed(alarm), _NOTHING
    return _cooled(alarm, now, timing) if cool else (alarm, _NOTHING)


def _cooled(alarm: Alarm, now: float, timing: Timing) -> Step:
    """Clear an active alarm, at once or, if it is flapping, when it has been calm."""
    if alarm.calm_since:
        return alarm, _NOTHING
    if alarm.flapping:
        return replace(alarm, calm_since=now), _NOTHING
    recent = sum(at > now - timing.flap_seconds for at in alarm.raises)
    if recent >= timing.flaps_max:
        flapping = replace(alarm, flapping=True, calm_since=now)
        return flapping, _unless_shelved(alarm, Transition.FLAPPING)
    return _clear(alarm, now)


def delete(alarm: Alarm | None, now: float, timing: Timing) -> Step:
    """Apply the deletion of the record: nothing holds any more, and nothing is shelved."""
    if alarm is None:
        return None, _NOTHING
    shelved = alarm.shelved
    alarm = replace(alarm, shelved_until=0.0, shelved_by="")
    after: Alarm | None = alarm
    happened: Transition | None = _NOTHING
    if alarm.phase is Phase.ACTIVE:
        after, happened = _cooled(alarm, now, timing)
    elif alarm.phase is Phase.PENDING:
        after = _calmed(alarm)
    return after, happened or (Transition.UNSHELVED if shelved else _NOTHING)


def expire(alarm: Alarm, now: float, timing: Timing) -> Step:
    """Apply the change of ``due``, which is not later than now; the change's time is ``due``."""
    at = alarm.due(timing)
    if at > now:
        return alarm, _NOTHING
    if alarm.shelved and at == alarm.shelved_until:
        return unshelve(alarm)
    if alarm.phase is Phase.PENDING:
        return _raise(alarm, at, timing)
    if alarm.phase is Phase.ACTIVE:
        return _clear(alarm, at)
    return None, Transition.REMOVED


def acknowledge(alarm: Alarm, now: float, user: str) -> Step:
    """Apply an acknowledgement; a cleared alarm is then normal."""
    if alarm.phase is Phase.PENDING and not alarm.shelved:
        raise Error(Code.CONFLICT, "the alarm is pending: it can be acknowledged once it is raised")
    if alarm.phase is Phase.CLEARED and not alarm.shelved:
        return None, Transition.REMOVED
    if alarm.acknowledged_at:
        return alarm, _NOTHING
    alarm = replace(alarm, acknowledged_at=now, acknowledged_by=user)
    return alarm, Transition.ACKNOWLEDGED


def shelve(alarm: Alarm, until: float, user: str) -> Step:
    """Apply shelving until a time, which is not over; it replaces an earlier one."""
    if alarm.phase is Phase.PENDING and not alarm.shelved:
        raise Error(Code.CONFLICT, "the alarm is pending: it can be shelved once it is raised")
    return replace(alarm, shelved_until=until, shelved_by=user), Transition.SHELVED


def unshelve(alarm: Alarm) -> Step:
    """End shelving."""
    if not alarm.shelved:
        return alarm, _NOTHING
    return replace(alarm, shelved_until=0.0, shelved_by=""), Transition.UNSHELVED


def _unless_shelved(alarm: Alarm, happened: Transition) -> Transition | None:
    return None if alarm.shelved else happened


def _hot(alarm: Alarm | None, now: float, timing: Timing) -> Step:
    if alarm is not None and alarm.phase is Phase.ACTIVE:
        return (replace(alarm, calm_since=0.0) if alarm.calm_since else alarm), _NOTHING
    if alarm is not None and alarm.phase is Phase.PENDING:
        return alarm, _NOTHING
    if alarm is None:
        alarm = Alarm(Phase.PENDING, now)
    else:
        alarm = replace(alarm, phase=Phase.PENDING, since=now)
    return _raise(alarm, now, timing) if timing.for_seconds <= 0 else (alarm, _NOTHING)


def _raise(alarm: Alarm, at: float, timing: Timing) -> Step:
    raised = replace(
        alarm,
        phase=Phase.ACTIVE,
        since=at,
        raised_at=at,
        cleared_at=0.0,
        acknowledged_at=0.0,
        acknowledged_by="",
        raises=(*alarm.raises, at)[-timing.flaps_max :],
        count=alarm.count + 1,
    )
    return raised, _unless_shelved(alarm, Transition.RAISED)


def _clear(alarm: Alarm, at: float) -> Step:
    cleared = replace(
        alarm, phase=Phase.CLEARED, since=at, cleared_at=at, flapping=False, calm_since=0.0
    )
    return cleared, _unless_shelved(alarm, Transition.CLEARED)


def _calmed(alarm: Alarm) -> Alarm | None:
    """Return a pending alarm that was not raised: as it was before."""
    if not alarm.cleared_at:
        return None
    return replace(alarm, phase=Phase.CLEARED, since=alarm.cleared_at)
