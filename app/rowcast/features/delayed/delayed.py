"""Delayed writes: ``$delayed/<seconds>/<topic>`` is ``<topic>``, published later (D52).

On every door such a write is checked like the final one, stored as a fact, and answered when that
is durable. When due, it is submitted like a new write, and the fact is removed in the same
transaction, so a kill of the server neither loses nor repeats it. Writes due at the same time keep
their order. Waiting writes are bounded in number and bytes, are in memory as the bytes of their
facts, and can be listed, cancelled and rescheduled at ``$SYS/delayed``.

It knows no protocol; the kernel interprets the write.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, cast

from rowcast.codecs import CBOR, decode, encode
from rowcast.core.callers import ALL, Caller, caller_facts, caller_of
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.core.limits import (
    DELAY_SECONDS_MAX,
    DELAYED_BYTES_MAX,
    DELAYED_EVENTS_MAX,
    DELAYED_RETRY_SECONDS,
    DELAYED_TIMER_SECONDS_MAX,
    DELAYED_TURN_EVENTS,
)
from rowcast.core.topics import DELAYED_PREFIX, split_delayed
from rowcast.core.writers import note_writer
from rowcast.features.delayed.ids import Ids
from rowcast.kernel.resource_dispatch import check_alone
from rowcast.routes.registry import VERB_OF_KIND, Route
from rowcast.seams.seams import RowChanged
from rowcast.store.store import Change
from rowcast.writes.write import Condition, Outcome, Receipt, Step, Write

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.delayed")

DELAYED: Final = DELAYED_PREFIX.rstrip("/")
"""The path of delayed writes."""
OWNER: Final = "delayed"
"""The owner of their facts."""

Facts = dict[str, object]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A delayed write: when it is due, in seconds since 1970, and the bytes of its fact."""

    due: float
    number: int
    fact: bytes

    @property
    def id(self) -> str:
        """Its id, independent of its due time."""
        return str(self.number)

    @property
    def name(self) -> str:
        """The name of its fact; names sort by due time."""
        return f"{int(self.due * 1000):014d}-{self.number:06d}"

    @property
    def facts(self) -> Facts:
        """Its decoded fact."""
        return cast("Facts", decode(self.fact, CBOR))


@dataclass(frozen=True, slots=True)
class DelayedBounds:
    """How much may wait, and how much is published in one turn of the loop."""

    events: int = DELAYED_EVENTS_MAX
    size_bytes: int = DELAYED_BYTES_MAX
    """Encoded bytes of all of them."""
    turn_events: int = DELAYED_TURN_EVENTS


BOUNDS: Final = DelayedBounds()


class Delayed:
    """All delayed writes of one kernel."""

    def __init__(self, kernel: "Kernel", now: WallClock, bounds: DelayedBounds = BOUNDS) -> None:
        self._kernel = kernel
        self._bounds = bounds
        self._now = now
        self.loop = asyncio.get_running_loop()
        self._waiting: dict[str, Waiting] = {}
        """By their ids."""
        self._heap: list[tuple[float, int]] = []
        """Due times and numbers; cancelled and rescheduled entries are skipped."""
        self._callers: dict[bytes, tuple[Caller, int]] = {}
        """Writers of what is being published, with how many writes of each, by their facts: the
        writes of one caller stay in order, and callers are compared by identity."""
        self.ids = Ids()
        self._count = self._bytes = 0
        """The bounded totals, including pending saves."""
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        kernel.registry.reserve(DELAYED, VERB_OF_KIND.values())
        self.changed: RowChanged = _nobody
        """Notifies of changes of rows of ``$SYS/delayed``."""

    # -- submission --------------------------------------------------------------------------------

    def step(self, route: Route) -> Step | None:
        """Return the step that stores delayed writes, at their path."""
        if route.entry is None or route.entry.path != DELAYED:
            return None

        def take(write: Write) -> bool:
            check_alone(route, write)
            self.submit(write)
            return True

        return take

    def submit(self, write: Write) -> None:
        """Store a write; it is answered when it is durable, with its changes of facts.

        Raises the Error that would refuse the write now.
        """
        event, caller, done = write.event, write.caller, write.done
        delay, topic = split_delayed(event.topic)
        self._judge(event, topic, caller, write.condition)
        due = self._now() + int(delay.split("/")[1])
        number, reserved = self.ids.take()
        note_writer(event, caller)
        waiting = Waiting(due, number, encode(_facts(event, topic, due, caller), CBOR))
        self._make_room(len(waiting.fact))

        def kept(error: Error | None) -> None:
            if error is not None:
                self._forget(waiting)
                done(error)
                return
            self.ids.stored(reserved)
            self._add(waiting)
            done(Receipt(event))

        change = Change(OWNER, waiting.name, waiting.fact)
        self._kernel.committer.keep((change, *reserved, *write.changes), kept)

    def _judge(self, event: Event, topic: str, caller: Caller, condition: Condition | None) -> None:
        if condition is not None and (condition.seqs is not None or condition.exists is False):
            raise Error(
                Code.INVALID,
                "a delayed write takes no conditions: its result could be reported to nobody",
            )
        if event.kind == PUT and not event.payload:
            raise Error(Code.INVALID, "the body is empty, which is no record; DELETE removes one")
        route = self._kernel.registry.route(topic)
        if not route.overrides(VERB_OF_KIND[event.kind]):  # otherwise the class decides when due
            judged = _event(_facts(event, topic, 0.0, caller))
            self._kernel.writes.admit(Write(judged, caller, passed=True))

    def _make_room(self, size: int) -> None:
        bounds = self._bounds
        if self._count >= bounds.events or self._bytes + size > bounds.size_bytes:
            raise Error(
                Code.BUSY,
                f"{self._count} delayed messages of {self._bytes} bytes are waiting, and no more "
                "are taken; try again when some were published",
            )
        self._count += 1
        self._bytes += size

    def _forget(self, waiting: Waiting) -> None:
        """Remove a waiting write, and notify subscribers if it was listed."""
        self.changed(waiting.id, "over")
        self._count -= 1
        self._bytes -= len(waiting.fact)

    def _add(self, waiting: Waiting) -> None:
        self._enter(waiting)
        self._arm()

    def _enter(self, waiting: Waiting) -> None:
        self._waiting[waiting.id] = waiting
        self.changed(waiting.id, "waiting")
        heappush(self._heap, (waiting.due, waiting.number))

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Restore stored writes; ``start`` begins to publish them."""
        for owner, name, fact in facts:
            if owner != OWNER:
                continue
            due = cast("float", cast("Facts", decode(fact, CBOR))["due"])
            waiting = Waiting(due, int(name.partition("-")[2]), fact)
            self.ids.note(waiting.number)
            self._count += 1
            self._bytes += len(fact)
            self._enter(waiting)

    # -- publishing --------------------------------------------------------------------------------

    def _arm(self, seconds: float = 0.0) -> None:
        """Set the timer for the next due write, at least ``seconds`` from now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and not self._stopped:
            wait = max(seconds, self._heap[0][0] - self._now())
            self._timer = self.loop.call_later(
                min(wait, DELAYED_TIMER_SECONDS_MAX), self._publish_due
            )

    def start(self) -> None:
        """Start publishing due writes, and overdue ones soon."""
        self._arm()

    def stop(self) -> None:
        """Stop publishing; waiting writes are on disk."""
        self._stopped = True
        self._arm()

    def _publish_due(self) -> None:
        """Publish due writes, bounded per turn."""
        now, left = self._now(), self._bounds.turn_events
        committer = self._kernel.committer
        while self._heap and self._heap[0][0] <= now and left and not committer.crowded:
            due, number = heappop(self._heap)
            waiting = self._waiting.get(str(number))
            if waiting is not None and waiting.due == due:
                left -= 1
                self._publish(self._waiting.pop(waiting.id))
        self._arm(DELAYED_RETRY_SECONDS if committer.crowded else 0.0)

    def _publish(self, waiting: Waiting) -> None:
        facts = waiting.facts
        event = _event(facts)
        gone = Change(OWNER, waiting.name, None)
        if "may" in facts:
            client_id = facts.get("client_id", event.client)  # an earlier version stored none
            caller = caller_of(facts, "delayed", cast("str", client_id))
            try:
                caller = self._kernel.reauthorization.writer(caller)
            except Error as error:
                self._kernel.listeners.refused(caller, "write", event.topic, error)
                self._ended(waiting, error)
                return
        else:  # an earlier version stored no rights
            caller = Caller(str(facts["user"]), ALL, "server", event.client)
        caller, left = self._hold(caller)

        def ended(outcome: Outcome) -> None:
            left()
            self._ended(waiting, outcome)

        self._kernel.writes.carry_out(Write(event, caller, ended, changes=(gone,), passed=True))

    def _hold(self, caller: Caller) -> tuple[Caller, Callable[[], None]]:
        """Return the one caller for writes of equal facts, and what is called when one is done."""
        who = encode([caller.door, caller.client_id, caller_facts(caller)], CBOR)
        held, writes = self._callers.get(who, (caller, 0))
        self._callers[who] = held, writes + 1

        def left() -> None:
            _, writes = self._callers.pop(who)
            if writes > 1:
                self._callers[who] = held, writes - 1

        return held, left

    def _ended(self, waiting: Waiting, outcome: Outcome) -> None:
        """Handle a write's outcome; retries if the disk refused it."""
        self._forget(waiting)
        if not isinstance(outcome, Error):
            return
        if outcome.code is Code.BUSY:
            self._count += 1
            self._bytes += len(waiting.fact)
            self._add(waiting)
            self._arm(DELAYED_RETRY_SECONDS)
            return
        log.warning("the delayed %s was refused: %s", waiting.name, outcome.message)
        self._kernel.committer.keep((Change(OWNER, waiting.name, None),))

    # -- queries -----------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the ids of waiting writes."""
        return list(self._waiting)

    def get(self, number: str) -> Waiting | None:
        """Return the waiting write of an id."""
        return self._waiting.get(number)

    def cancel(self, number: str) -> bool:
        """Cancel a write; return whether it was waiting.

        It goes on waiting if the disk refuses that: it is published after a restart, too.
        """
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            return False
        self._tidy()

        def kept(error: Error | None) -> None:
            (self._forget if error is None else self._add)(waiting)

        self._kernel.committer.keep((Change(OWNER, waiting.name, None),), kept)
        return True

    def move(self, number: str, due: float) -> bool:
        """Reschedule a write; return whether it was waiting.

        One transaction removes the old fact and writes the new one. If the disk refuses that, it
        goes on waiting for its former time.
        """
        old = self._waiting.get(number)
        if old is None:
            return False
        due = max(due, 0.0)  # the name of its fact has no sign
        if due - self._now() > DELAY_SECONDS_MAX:
            raise Error(
                Code.UNPROCESSABLE, f"a delay has at most {DELAY_SECONDS_MAX} seconds; take less"
            )
        new = Waiting(due, old.number, encode(old.facts | {"due": due}, CBOR))
        self._bytes += len(new.fact) - len(old.fact)
        self._waiting[number] = new
        self._tidy()
        gone = () if old.name == new.name else (Change(OWNER, old.name, None),)

        def kept(error: Error | None) -> None:
            if self._waiting.get(number) is new:
                self._bytes += 0 if error is None else len(old.fact) - len(new.fact)
                self._add(new if error is None else old)
            elif error is not None:  # cancelled meanwhile, or published
                self._kernel.committer.keep(gone)

        self._kernel.committer.keep((*gone, Change(OWNER, new.name, new.fact)), kept)
        return True

    def _tidy(self) -> None:
        """Rebuild the heap when most entries are obsolete."""
        if len(self._heap) > 2 * len(self._waiting) + self._bounds.turn_events:
            self._heap = sorted((item.due, item.number) for item in self._waiting.values())


def _facts(event: Event, topic: str, due: float, caller: Caller) -> Facts:
    return {
        "due": due,
        "topic": topic,
        "kind": event.kind,
        "payload": event.payload,
        "type": event.content_type,
        "qos": event.qos,
        "retain": event.retain,
        "client": event.client,
        "client_id": caller.client_id,
        "properties": event.properties,
        **caller_facts(caller),
        "version": event.version,
    }


def _event(facts: Facts) -> Event:
    """Restore an event from its fact."""
    return Event(
        cast("str", facts["topic"]),
        cast("str", facts["kind"]),
        cast("bytes", facts["payload"]),
        cast("str | None", facts["type"]),
        cast("int", facts["qos"]),
        cast("bool", facts["retain"]),
        client=cast("str", facts["client"]),
        properties=cast("Facts | None", facts["properties"]),
        version=cast("int", facts.get("version", 0)),
    )


def _nobody(_name: str, _happened: str = "", /) -> None:
    """Notify nobody."""
