"""One trigger at work: a cursor on the log whose reader is a function.

Its position is a fact that is stored after each call, before the writes of the next one, so after a
restart it goes on with the event at which it was. A call that a kill interrupted is repeated; the
writes of a call are marked (``core/marked_calls.py``), so repeated ones have no second effect.
Calls are made one at a time, in the order of the log. A failed
call is repeated while later events wait; an event whose calls have all failed is kept as a dead
event, and the trigger goes on. Nothing waits for a trigger: writers and other readers go on.
"""

import asyncio
import inspect
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowcast.core.callers import SERVER
from rowcast.core.clock import WallClock
from rowcast.core.errors import Error
from rowcast.core.events import GAP, RESET, Event
from rowcast.core.marked_calls import CALL, MarkedCall, depth_of
from rowcast.core.trigger_limits import (
    TRIGGER_CALL_SECONDS_MAX,
    TRIGGER_CHECKPOINT_SECONDS,
    TRIGGER_DEPTH_MAX,
    TRIGGER_EVENTS_AT_ONCE,
    TRIGGER_PROBLEM_CHARS_MAX,
    TRIGGER_RETRY_SECONDS,
)
from rowcast.features.triggers.dead_events import DeadEvent, DeadEvents, dead_id
from rowcast.features.triggers.trigger import Trigger
from rowcast.net.webhook_call import CallError
from rowcast.rows.topic_rows import Row
from rowcast.seams.user_code import is_mistake
from rowcast.store.store import Change
from rowcast.subscriptions.gaps import Gap
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.triggers")

OWNER: Final = "trigger"
"""The owner of the facts of positions."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of each trigger (``core/trigger_limits.py``)."""

    call_seconds: float = TRIGGER_CALL_SECONDS_MAX
    depth_max: int = TRIGGER_DEPTH_MAX
    checkpoint_seconds: float = TRIGGER_CHECKPOINT_SECONDS
    retry_seconds: float = TRIGGER_RETRY_SECONDS


class Runner:
    """The calls of one trigger."""

    def __init__(
        self,
        kernel: "Kernel",
        trigger: Trigger,
        dead: DeadEvents,
        now: WallClock,
        bounds: Bounds | None = None,
    ) -> None:
        self.trigger = trigger
        self._kernel, self._dead, self._now = kernel, dead, now
        self._bounds = bounds or Bounds()
        self._wake = asyncio.Event()
        self._subscription = self._new_subscription()
        self._kept: int | None = None
        """The position that is stored; None: the trigger is new."""
        self._again: dict[int, Event] = {}
        """Dead events to call for again, by their positions; each stays dead until that is done."""
        self.calls = self.failures = self.circles = self.missed = 0
        """Calls that were completed, and that failed; events that were left out, for triggers led
        to them in a circle; and those that the log had no more."""
        self.problem = ""
        """Why the last call failed, while it is repeated."""

    def restore(self, position: int) -> None:
        """Set the stored position."""
        self._kept = position

    def _new_subscription(self) -> Subscription:
        name = f"trigger {self.trigger.name}"
        return Subscription(self._kernel.reader, name, self._wake.set, skips_trimmed=True)

    def begin(self) -> None:
        """Subscribe, and have what it wants logged until ``close``."""
        for topics in self.trigger.filters:
            self._kernel.durable.add(topics)
        self._subscribe()

    def _subscribe(self) -> None:
        """Subscribe: from the stored position, or, if it is new, from now on."""
        announced = self._kernel.committer.announced
        since = announced if self._kept is None else min(self._kept, announced)
        for topics in self.trigger.filters:
            interest = SubscribedFilter(topics, qos=2, marks=False)
            self._kernel.watch(self._subscription, interest, SERVER, since, current=False)
        self._keep(since)

    async def run(self) -> None:
        """Call for each event, until cancelled; begin again where the log could not be read."""
        while True:
            try:
                await self._run()
            except Error as failure:
                log.warning("the trigger %s cannot read: %s", self.trigger.name, failure)
            except Exception:
                log.exception("the trigger %s begins again", self.trigger.name)
            self._kernel.close(self._subscription)
            await asyncio.sleep(self._bounds.retry_seconds)
            self._subscription = self._new_subscription()
            self._subscribe()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            pairs = self._subscription.take(TRIGGER_EVENTS_AT_ONCE)
            for event, _ in pairs:
                await self._take(event)
            while self._again:
                await self._take_again(next(iter(self._again.values())))
            self._keep(self._subscription.settled)
            if not pairs:
                await self._rest()

    async def _rest(self) -> None:
        """Wait until there is something to do, or a checkpoint is due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.checkpoint_seconds):
                await self._wake.wait()

    def close(self) -> None:
        """Unsubscribe. What was called and not yet stored is called again, without effect."""
        self._kernel.close(self._subscription)
        for topics in self.trigger.filters:
            self._kernel.durable.remove(topics)

    def call_again(self, event: Event) -> None:
        """Have a dead event called for again, soon; what it writes is written anew."""
        self._again[event.seq] = event
        self._wake.set()

    async def _take_again(self, event: Event) -> None:
        """Call for a dead event, unless it was discarded; after a kill it is dead as before."""
        name = dead_id(self.trigger.name, event.seq)
        if self._dead.get(name) is not None:
            succeeded = await self._call_all(event, marked=False)
            if self._dead.get(name) is not None:  # nobody has discarded it during the call
                self._dead.discard(name) if succeeded else self._bury(event)
        self._again.pop(event.seq, None)

    async def _take(self, event: Event) -> None:
        if event.kind in {GAP, RESET}:
            self._note_loss(event)
        elif not event.topic or (isinstance(event, Row) and event.leads):
            return  # a mark; or the row of an event that follows
        elif depth_of(event) >= self._bounds.depth_max:
            self._note_circle(event)
        else:
            if not await self._call_all(event):
                self._bury(event)
            self._keep(event.seq)

    async def _call_all(self, event: Event, *, marked: bool = True) -> bool:
        """Call until it succeeds, or was tried often enough; return whether it did."""
        retries = self.trigger.retries
        for attempt in range(1, retries.attempts_max + 1):
            problem = await self._call(event, event.seq if marked else 0)
            if not problem:
                self.calls += 1
                self.problem = ""
                return True
            self.failures += 1
            self.problem = problem
            if attempt < retries.attempts_max:
                await asyncio.sleep(retries.seconds_after(attempt))
        return False

    async def _call(self, event: Event, number: int) -> str:
        """Make one call, whose writes have marks of this number; return why it failed, or ""."""
        call = MarkedCall(f"trigger {self.trigger.name}", number, depth_of(event) + 1)
        CALL.set(call)
        limit = asyncio.timeout(self._bounds.call_seconds)
        try:
            async with limit:
                result = self.trigger.action(event)
                if inspect.isawaitable(result):
                    await result
        except CallError as failure:
            return self._refused(event, str(failure))
        except BaseException as failure:
            if not is_mistake(failure):
                raise
            if isinstance(failure, asyncio.CancelledError):
                return self._refused(event, "CancelledError: what it waited for was cancelled")
            if limit.expired():
                return self._refused(event, f"it took longer than {self._bounds.call_seconds:g} s")
            log.exception("the trigger %s failed for %s", self.trigger.name, event.topic)
            return f"{type(failure).__name__}: {failure}"[:TRIGGER_PROBLEM_CHARS_MAX]
        finally:
            call.end()
            CALL.set(None)
        return ""

    def _refused(self, event: Event, problem: str) -> str:
        """Log a failure that is none of the code, so that its lines would say nothing."""
        log.error("the trigger %s failed for %s: %s", self.trigger.name, event.topic, problem)
        return problem[:TRIGGER_PROBLEM_CHARS_MAX]

    def _bury(self, event: Event) -> None:
        """Keep an event for which all calls have failed."""
        name, attempts = self.trigger.name, self.trigger.retries.attempts_max
        log.error("the trigger %s gives up %s: %s", name, event.topic, self.problem)
        seq = event.seq
        self._dead.add(DeadEvent(name, seq, event.topic, attempts, self.problem, self._now()))
        self.problem = ""

    def _note_circle(self, event: Event) -> None:
        self.circles += 1
        log.error(
            "the trigger %s is not called for %s: %d triggers led to this event, one after the "
            "other; have one of them write to a topic that none watches",
            self.trigger.name, event.topic, depth_of(event),
        )  # fmt: skip

    def _note_loss(self, mark: Event) -> None:
        if isinstance(mark, Gap):
            self.missed += mark.count or 0
            log.error("the trigger %s missed events: %s", self.trigger.name, mark.why.value)

    def _keep(self, position: int) -> None:
        """Store a position, if it is a new one."""
        if self._kept is None or position > self._kept:
            self._kept = position
            change = Change(OWNER, self.trigger.name, position.to_bytes(8, "big"))
            self._kernel.committer.keep((change,))

    def row(self) -> dict[str, object]:
        """Return its row."""
        return {
            "id": self.trigger.name,
            "kind": self.trigger.kind,
            "topics": [topics.text for topics in self.trigger.filters],
            "state": "retrying" if self.problem else "running",
            "problem": self.problem or None,
            "seq": self._kernel.cursor(self._kept or 0),
            "calls": self.calls,
            "failures": self.failures,
            "dead": self._dead.of(self.trigger.name),
            "circles": self.circles,
            "missed": self.missed,
        }
