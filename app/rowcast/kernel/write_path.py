"""The write path: every write of every door and feature goes through ``submit``.

1. route: what is at the topic, with the steps that features have there (``steps.py``).
2. steps: each may refuse the write, change it, add a decider, or take it over.
3. append: the committer decides it, makes it durable, announces it and answers (``commit.py``).

An unlogged message without conditions needs no disk: it is announced at once, unless an earlier
write of the same caller is pending. At a topic without features no Write is created, which would
add half of the cost again.
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

BARE_STEPS: Final = 2
"""The steps of a route without features: access and content. ``recent`` removes itself after the
first write."""


class WritePath:
    """The write path of one kernel."""

    def __init__(
        self, registry: Registry, steps: Steps, admission: Admission, committer: Committer
    ) -> None:
        self._registry = registry
        self._known = registry.known
        self._steps = steps
        self._admission = admission
        self._committer = committer
        self.on_refused: list[Callable[[Caller, Event, Error], None]] = []
        """Called with each write that a step refuses on the loop; ``Committer.on_denied`` is called
        with those that the writer thread denies."""

    def submit(
        self,
        event: Event,
        caller: Caller,
        done: Done = UNHEARD,
        condition: Condition | None = None,
        changes: Sequence[Change] = (),
        *,
        asks: bool = False,
    ) -> None:
        """Run a write; ``done`` is called on the loop with its Receipt or Error.

        ``asks``: the receipt tells whether there was a record, which may have to be read first.

        Synchronous up to the commit: writes of one caller stay in order, even with asynchronous
        hooks.

        ``changes`` are applied if and only if the outcome is a Receipt: in the write's transaction,
        before it is announced; for a resource class, after its writes. ``done`` may be called
        before.
        """
        route = self._known.get(event.topic)
        if (
            route is None
            or not route.bare
            or condition is not None
            or changes
            or not self._announce(route, event, caller, done)
        ):
            self.carry_out(Write(event, caller, done, condition, changes=changes, asks=asks))

    def _announce(self, route: Route, event: Event, caller: Caller, done: Done) -> bool:
        """Announce a message at a topic without features; return whether that was possible.

        False means the full path, with its checks and errors: for a property with a step, a caller
        without the right, or with pending writes.
        """
        steps, admission = self._steps, self._admission
        may_announce = steps.may_announce
        if (
            event.kind is not MESSAGE
            or len(route.message_steps) != BARE_STEPS
            or not (
                caller.grants.write if may_announce is None else may_announce(caller, event.topic)
            )
            or caller in self._committer.pending
            or (event.properties is not None and not steps.properties.isdisjoint(event.properties))
            or len(event.payload) > admission.payload_bytes_max
            or (event.qos and admission.durable.wanted(event.topic))
        ):
            return False
        self._committer.publish_unlogged(event)
        if type(done) is not Unheard:
            done(Receipt(event))
        return True

    def carry_out(self, write: Write) -> None:
        """Run a write; its ``done`` gets the outcome."""
        try:
            if self.admit(write):
                if write.logged:
                    self._committer.submit((write,))
                else:
                    self.append((write,))
        except Error as error:
            for hear in self.on_refused:
                hear(write.caller, write.event, error)
            write.done(error)

    def admit(self, write: Write) -> bool:
        """Run the steps of a write; return whether to append it.

        Raises the Error that refuses it. False: a step has taken over the write.
        """
        event = write.event
        if event.topic.startswith(("/", DELAYED_PREFIX)):
            event.topic = self._registry.named(event.topic)
        if event.properties is not None:
            for step in self._steps.first(event.properties):
                if step(write):
                    return False
        route = self._known.get(event.topic) or self._registry.route(event.topic)
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
        """Commit and announce admitted writes, in order; groups atomically.

        The server's own writes come here directly, without steps. Raises BUSY when too many wait;
        ``most`` overrides that limit, for a single large transaction.
        """
        committer = self._committer
        if len(writes) == 1:
            write = writes[0]
            if not (
                write.logged or write.depends or write.changes or write.caller in committer.pending
            ):
                committer.publish_unlogged(write.event)
                if type(write.done) is not Unheard:
                    write.done(Receipt(write.event))
                return
        committer.submit(writes, most)
