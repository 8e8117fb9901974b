"""The states of all alarms of a server, in memory, and the journal of their changes.

A change is an entry of the journal: what the fact of the alarm is from now on, and what others are
told. ``alarms.py`` stores the journal in order, so that at every moment the facts on disk are the
states at a position of the log. No I/O and no clock.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, cast

from rowcast.codecs import CBOR, decode, encode
from rowcast.core.alarm_limits import ALARM_CLEARED_SECONDS, ALARM_ROWS_MAX
from rowcast.core.alarms import ALARM_ROWS
from rowcast.core.clauses import AlarmRule
from rowcast.core.conditions import NOTHING
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.core.topic_tables import owner_of
from rowcast.features.alarms.state_machine import (
    Alarm,
    Phase,
    Step,
    Timing,
    Transition,
    expire,
    observe,
)
from rowcast.features.alarms.state_machine import delete as deletion

_HEAP_SPARE: Final = 1_000
"""Outdated entries of the heap beside as many as there are alarms, before it is rebuilt."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of an alarm, at a position of the log."""

    position: int
    name: str
    """The name of the alarm and the topic of its record: ``hot/Sensor/1``."""
    rule: AlarmRule
    alarm: Alarm | None
    """Its state from now on; None: normal."""
    happened: Transition | None
    """What others are told; None: nothing."""
    at: float
    """When it happened, in seconds since 1970."""
    user: str = ""
    """Who did it; empty for the server."""

    @property
    def fact(self) -> bytes | None:
        """The bytes of the state; None for normal."""
        if self.alarm is None:
            return None
        phase, *values = astuple(self.alarm)
        plain = [list(item) if isinstance(item, tuple) else item for item in values]
        return encode([phase.value, *plain], CBOR)


class Held:
    """An alarm that is not normal."""

    __slots__ = ("alarm", "rule", "scheduled", "timing", "topic")

    def __init__(self, rule: AlarmRule, topic: str, timing: Timing, alarm: Alarm) -> None:
        self.rule = rule
        self.topic = topic
        self.timing = timing
        self.alarm = alarm
        self.scheduled = inf
        """When the heap has it next."""


class AlarmStates:
    """The alarms that are not normal."""

    def __init__(
        self,
        tables: Sequence[Table],
        cleared_seconds: float = ALARM_CLEARED_SECONDS,
        rows_max: int = ALARM_ROWS_MAX,
    ) -> None:
        self.tables = [table for table in tables if table.alarms and table.path is not None]
        self._cleared_seconds = cleared_seconds
        self._rows_max = rows_max
        self._held: dict[str, Held] = {}
        self._due: list[tuple[float, str]] = []
        """A heap of times and names; an entry that is not that of ``scheduled`` is outdated."""
        self.time = 0.0
        """The time of the last change, in seconds since 1970; it does not decrease."""
        self.position = 0
        """The position of the log up to which all is applied."""
        self.journal: list[Entry] = []
        """Changes that are not stored yet, in order."""
        self.overflow = 0
        """Alarms that were not raised because there are too many."""

    def __len__(self) -> int:
        return len(self._held)

    def names(self) -> list[str]:
        """Return the names of all alarms that are not normal, the oldest first."""
        return list(self._held)

    def get(self, name: str) -> Held | None:
        """Return an alarm that is not normal."""
        return self._held.get(name)

    def of_rule(self, table: Table, rule: AlarmRule) -> list[Held]:
        """Return the alarms of one rule."""
        return [
            held
            for held in self._held.values()
            if held.rule.name == rule.name and owner_of(held.topic, self.tables) is table
        ]

    # -- restoring ---------------------------------------------------------------------------------

    def restore(self, facts: Iterable[tuple[str, bytes]]) -> list[str]:
        """Restore states; return the names of those whose rule is gone."""
        gone: list[str] = []
        for name, fact in facts:
            rule_name, _, topic = name.partition("/")
            table = owner_of(topic, self.tables)
            rules = table.alarms if table is not None else ()
            rule = next((item for item in rules if item.name == rule_name), None)
            if rule is None:
                gone.append(name)
                continue
            self._hold(name, Held(rule, topic, self._timing(rule), _alarm_of(fact)))
        return gone

    def _timing(self, rule: AlarmRule) -> Timing:
        return Timing(rule.for_seconds, self._cleared_seconds)

    # -- changes -----------------------------------------------------------------------------------

    def observe(
        self, rule: AlarmRule, topic: str, at: float, value: object, record_id: object
    ) -> None:
        """Apply a write of a record to one of its alarms."""
        hot = rule.hot(value, record_id)
        if not hot and not self._held:
            return
        name = f"{rule.name}/{topic}"
        held = self._held.get(name)
        if held is None and not hot:
            return
        now = self._pass(held, at)
        held = self._held.get(name)
        timing = held.timing if held is not None else self._timing(rule)
        cool = not hot and rule.cool(value, record_id)
        alarm = held.alarm if held is not None else None
        self._take(name, rule, topic, observe(alarm, now, timing, hot=hot, cool=cool), now)

    def delete(self, rule: AlarmRule, topic: str, at: float) -> None:
        """Apply the deletion of a record to one of its alarms."""
        name = f"{rule.name}/{topic}"
        now = self._pass(self._held.get(name), at)
        held = self._held.get(name)
        if held is not None:
            self._take(name, rule, topic, deletion(held.alarm, now, held.timing), now)

    def change(self, name: str, at: float, act: Callable[[Alarm, float], Step], user: str) -> None:
        """Apply what somebody does to an alarm now; raises NOT_FOUND for a normal one."""
        now = self._pass(self._held.get(name), at)
        held = self._held.get(name)
        if held is None:
            raise Error(
                Code.NOT_FOUND,
                f"the alarm {name[:200]!r} is normal, or there is none; {ALARM_ROWS}/ lists those "
                "that are not normal",
            )
        self._take(name, held.rule, held.topic, act(held.alarm, now), now, user)

    def remove(self, name: str) -> None:
        """Make a stored alarm normal whose rule is gone."""
        gone = AlarmRule(name.partition("/")[0], NOTHING)
        self.journal.append(Entry(self.position, name, gone, None, Transition.REMOVED, self.time))

    def _pass(self, held: Held | None, at: float) -> float:
        """Let time pass for one alarm; return the time now."""
        self.time = max(self.time, at)
        while held is not None and held.alarm.due(held.timing) <= self.time:
            at = held.alarm.due(held.timing)
            name = f"{held.rule.name}/{held.topic}"
            self._take(name, held.rule, held.topic, expire(held.alarm, at, held.timing), at)
            held = self._held.get(name)
        return self.time

    def _take(
        self, name: str, rule: AlarmRule, topic: str, step: Step, at: float, user: str = ""
    ) -> None:
        """Take a new state, unless nothing changes."""
        alarm, happened = step
        held = self._held.get(name)
        if alarm is (held.alarm if held is not None else None) and happened is None:
            return
        if alarm is None:
            self._held.pop(name, None)
        elif held is not None:
            held.alarm = alarm
            self._schedule(name, held)
        elif len(self._held) >= self._rows_max:
            self.overflow += 1
            return
        else:
            self._hold(name, Held(rule, topic, self._timing(rule), alarm))
        self.journal.append(Entry(self.position, name, rule, alarm, happened, at, user))

    def _hold(self, name: str, held: Held) -> None:
        self._held[name] = held
        self._schedule(name, held)

    # -- time --------------------------------------------------------------------------------------

    def _schedule(self, name: str, held: Held) -> None:
        due = held.alarm.due(held.timing)
        if due == held.scheduled:
            return
        held.scheduled = due
        if due < inf:
            heappush(self._due, (due, name))
        if len(self._due) > 2 * len(self._held) + _HEAP_SPARE:
            self._due = [
                (item.scheduled, key) for key, item in self._held.items() if item.scheduled < inf
            ]
            heapify(self._due)

    @property
    def next_due(self) -> float:
        """When time changes something next, or earlier, in seconds since 1970; ``inf``: never."""
        return self._due[0][0] if self._due else inf

    def advance(self, now: float, most: int) -> None:
        """Let time pass for alarms that are due, at most for so many."""
        self.time = max(self.time, now)
        while most and self._due and self._due[0][0] <= self.time:
            due, name = heappop(self._due)
            held = self._held.get(name)
            if held is None or held.scheduled != due:
                continue
            held.scheduled = inf
            most -= 1
            self._pass(held, self.time)


def _alarm_of(fact: bytes) -> Alarm:
    """Return the state of a stored fact; raises CONFLICT for one that this version cannot read."""
    values = decode(fact, CBOR)
    if not isinstance(values, list) or len(values) != len(Alarm.__dataclass_fields__):
        raise Error(Code.CONFLICT, "a stored alarm is of another version of the server")
    phase, since, raised, cleared, acked, by, until, shelver, raises, *rest = values
    return Alarm(
        Phase(phase), since, raised, cleared, acked, by, until, shelver,
        tuple(cast("list[float]", raises)), *rest,
    )  # fmt: skip
