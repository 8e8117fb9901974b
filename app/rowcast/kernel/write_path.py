"""The write path: every write of every door and feature goes through ``submit`` or its parts.

1. route: what is at the topic, with the steps that features have there (``steps.py``).
2. steps: each may refuse the write, change it, add a decider, or take it upon itself.
3. append: the committer decides it, makes it durable, announces it and answers (``commit.py``).

A message that no table logs and nothing depends on needs no disk: it is announced at once, unless
an earlier write of the same caller still waits. At a topic where no feature has a say it is not
even made a Write: with that, announcing one costs half as much again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import DELAYED_PREFIX
from rowcast.core.writers import NAMELESS, note_writer
from rowcast.kernel.admission import Admission
from rowcast.kernel.commit import Committer
from rowcast.kernel.registry import Registry, Route
from rowcast.kernel.steps import Steps
from rowcast.kernel.write import UNHEARD, Condition, Done, Receipt, Unheard, Write
from rowcast.store.store import Change

ALWAYS: Final = 2
"""The steps at every topic, access and content; a third at a bare one waits for its first write."""


class WritePath:
    """The way of all writes of one kernel."""

    def __init__(
        self, registry: Registry, steps: Steps, admission: Admission, committer: Committer
    ) -> None:
        self._registry = registry
        self._known = registry.known
        self._steps = steps
        self._admission = admission
        self._committer = committer
        self.on_refused: list[Callable[[Caller, Event, Error], None]] = []
        """Hear of each write that ``submit`` refuses."""

    def submit(
        self,
        event: Event,
        caller: Caller,
        done: Done = UNHEARD,
        condition: Condition | None = None,
        changes: Sequence[Change] = (),
    ) -> None:
        """Carry out a write; ``done`` is called on the loop with its Receipt or Error.

        Synchronous up to the commit: writes of one caller stay in the order in which they came,
        also where a hook must be awaited.

        ``changes`` become true if and only if it is a Receipt: in one transaction with the write,
        before it is announced; of a resource class, after what that wrote. ``done`` may come first.
        """
        route = self._known.get(event.topic)
        if (
            route is None
            or not route.bare
            or condition is not None
            or changes
            or not self._announce(route, event, caller, done)
        ):
            self.carry_out(Write(event, caller, done, condition, changes=changes))

    def _announce(self, route: Route, event: Event, caller: Caller, done: Done) -> bool:
        """Announce a message at a topic where no feature has a say; return whether it was.

        What it returns False for goes the long way, where it is judged, and refused in words: a
        property to look at, a caller that may not write or whose earlier writes wait.
        """
        if (
            event.kind is not MESSAGE
            or len(route.message_steps) != ALWAYS
            or not self._steps.may_announce(caller, event.topic)
            or caller in self._committer.pending
            or not self._steps.properties.isdisjoint(event.properties or ())
            or not self._admission.needs_no_disk(event)
        ):
            return False
        self._committer.publish(event)
        if type(done) is not Unheard:
            done(Receipt(event))
        return True

    def carry_out(self, write: Write) -> None:
        """Carry out a write; its ``done`` hears of all that becomes of it."""
        try:
            if self.admit(write):
                self.append((write,))
        except Error as error:
            for hear in self.on_refused:
                hear(write.caller, write.event, error)
            write.done(error)

    def admit(self, write: Write) -> bool:
        """Ask the steps about a write; return whether it is to be appended, now or later.

        Raises what refuses it. One that is not to be appended is taken care of by a step.
        """
        event = write.event
        if event.topic.startswith(("/", DELAYED_PREFIX)):
            event.topic = self._registry.named(event.topic)
        if event.properties is not None:
            for step in self._steps.first(event.properties):
                if step(write):
                    return False
        route = self._registry.route(event.topic)
        steps = route.steps
        if steps is None:
            steps = self._steps.compile(route)
        for step in steps if event.kind is not MESSAGE else route.message_steps:
            if step(write):
                return False
        if write.logged and (event.properties is not None or write.caller.user not in NAMELESS):
            note_writer(event, write.caller)
        return True

    def append(self, writes: Sequence[Write], most: int = 0) -> None:
        """Number, keep and announce writes that are admitted, in order; those of a group together.

        The server's own come here at once: no step is asked about them. Raises BUSY when too many
        wait; ``most`` is how many may, for what is one large transaction in any case.
        """
        committer = self._committer
        if len(writes) == 1:
            write = writes[0]
            if not (
                write.logged or write.depends or write.changes or write.caller in committer.pending
            ):
                committer.publish(write.event)
                if type(write.done) is not Unheard:
                    write.done(Receipt(write.event))
                return
        committer.submit(writes, most)
