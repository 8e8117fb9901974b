"""The write path: single writes come to ``submit`` or ``submit_run``, of doors and features alike.

Those that are all or none (``atomic_batch.py``) run the same steps by ``admit``, and go on together
with ``commit_or_announce``; the server's own events begin there.

1. route: what is at the topic, with the steps that features have there (``steps.py``).
2. steps: each may refuse the write, change it, add a decider, or take it over.
3. append: the committer (``writes/commit.py``) decides it, makes it durable, announces it and
   answers.

An unlogged message without conditions needs no disk: it is announced at once, unless an earlier
write of the same caller is pending. At a topic without features no Write is created, which would
add half of the cost again.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import DELAYED_PREFIX
from rowcast.core.writers import NAMELESS, note_writer
from rowcast.kernel.admission import Admission
from rowcast.kernel.steps import BARE_STEPS, Steps
from rowcast.routes.registry import Registry, Route
from rowcast.seams.write_detour import WriteDetour
from rowcast.store.store import Change
from rowcast.writes.commit import Committer
from rowcast.writes.write import (
    FIRE_AND_FORGET,
    OPEN,
    Condition,
    Done,
    FireAndForget,
    Receipt,
    Write,
    resolve,
)


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
        self.detour: WriteDetour | None = None
        """Where writes with large values wait; None without that feature."""
        self.on_refused: list[Callable[[Caller, Event, Error], None]] = []
        """Called with each write that a step refuses on the loop; ``Committer.on_denied`` is called
        with those that a decider denies."""
        self.take_unfit: Callable[[Write, Error], bool] | None = None
        """Called with a write that is not part of a batch and was refused; returns whether it will
        answer it."""

    def submit(
        self,
        event: Event,
        caller: Caller,
        done: Done = FIRE_AND_FORGET,
        condition: Condition | None = None,
        changes: Sequence[Change] = (),
        *,
        wants_existed: bool = False,
    ) -> None:
        """Run a write; ``done`` is called on the loop with its Receipt or Error.

        Synchronous up to the commit: writes of one caller stay in order, even with asynchronous
        hooks. ``changes`` are applied if and only if the outcome is a Receipt, with the write; for
        a resource class, after its writes. ``done`` may be called before this method returns.
        ``wants_existed``: the receipt tells whether there was a record, which may have to be read
        first.
        """
        route = self._known.get(event.topic)
        if (
            route is not None
            and route.bare
            and condition is None
            and not changes
            and self._may_announce(route, event, caller)
        ):
            self._committer.publish_unlogged(event)
            if type(done) is not FireAndForget:
                done(Receipt(event))
        else:
            self.carry_out(
                Write(event, caller, done, condition, changes=changes, wants_existed=wants_existed)
            )

    def _may_announce(self, route: Route, event: Event, caller: Caller) -> bool:
        """Return whether a message at a topic without features needs neither a step nor the disk.

        Otherwise it takes the full path, with its checks and errors: with a property that has a
        step, and of a caller without the right, or with pending writes.
        """
        steps, admission = self._steps, self._admission
        may_announce = steps.may_announce
        return (
            event.kind is MESSAGE
            and len(route.message_steps) == BARE_STEPS
            and (caller.grants.write if may_announce is None else may_announce(caller, event.topic))
            and caller.connection not in self._committer.pending
            and (event.properties is None or steps.properties.isdisjoint(event.properties))
            and len(event.payload) <= admission.payload_bytes_max
            and not (event.qos and admission.durable.wanted(event.topic))
        )

    def submit_run(self, events: list[Event], dones: list[Done], caller: Caller) -> None:
        """Run writes without properties that came together, in order, each with its ``done``.

        What holds for a message holds for those after it at its topic, and what is to be logged is
        appended together.
        """
        if len(events) > 1 and self._announce_run(events, dones, caller):
            return
        run: list[Write] = []
        known, detour, largest = self._known, self.detour, self._admission.payload_bytes_max
        wanted_by_durable = self._admission.durable.wanted
        if detour is not None:  # what may take it, and what waits behind that, goes alone
            largest = min(largest, detour.bytes_min - 1)
        last: Event | None = None
        named = caller.user not in NAMELESS
        for index, event in enumerate(events):
            done = dones[index]
            same = last is not None and last.topic == event.topic and last.qos == event.qos
            if same and event.kind is MESSAGE and len(event.payload) <= largest:
                if named:
                    note_writer(event, caller)
                run.append(Write(event, caller, done))
                continue
            route = known.get(event.topic) or self._route(event.topic)
            if (
                route is None
                or not route.checked
                or len(event.payload) > largest
                or (detour is not None and caller.connection in detour.waiting)
                # announced at once, unless a session that may be away wants it
                or (route.bare and not (event.qos and wanted_by_durable(event.topic)))
            ):
                if run:
                    self._append_run(run)
                    run = []
                self.submit(event, caller, done)
                last = None
                continue
            last, write = None, Write(event, caller, done)
            try:
                self.admit(write)
                if write.logged:
                    run.append(write)
                    last = event if route.steady and event.kind is MESSAGE else None
                else:
                    if run:
                        self._append_run(run)
                        run = []
                    self.commit_or_announce((write,))
            except Error as error:
                self._refuse(write, error)
        if run:
            self._append_run(run)

    def _route(self, topic: str) -> Route | None:
        """Return a new route with its steps; None where the topic is another's, or refused."""
        if topic.startswith(("/", DELAYED_PREFIX)):
            return None
        try:
            route = self._registry.route(topic)
        except Error:
            return None
        if route.steps is None:
            self._steps.compile(route)
        return route

    def _announce_run(self, events: list[Event], dones: list[Done], caller: Caller) -> bool:
        """Announce messages that are all at one topic without features, if that is possible."""
        first, largest = events[0], self._admission.payload_bytes_max
        route = self._known.get(first.topic)
        if route is None or not route.bare or not self._may_announce(route, first, caller):
            return False
        for event in events:
            same = event.topic == first.topic and event.qos == first.qos
            if not same or event.kind is not MESSAGE or len(event.payload) > largest:
                return False
        self._committer.publish_unlogged_run(events)
        for index, event in enumerate(events):
            done = dones[index]
            if type(done) is not FireAndForget:
                done(Receipt(event))
        return True

    def _append_run(self, run: list[Write]) -> None:
        """Append admitted writes; when they find no room, none of them overtakes another."""
        try:
            self._committer.submit(run)
        except Error:
            self._append_each(run)

    def _append_each(self, run: list[Write]) -> None:
        """Append as many of these writes as there is room for, and refuse the rest."""
        for index, write in enumerate(run):
            try:
                self._committer.submit((write,))
            except Error as error:
                for refused in run[index:]:
                    self._refuse(refused, error)
                return

    def carry_out(self, write: Write) -> None:
        """Run a write; its ``done`` gets the outcome."""
        detour = self.detour
        if (
            detour is not None
            and (
                len(write.event.payload) >= detour.bytes_min
                or write.caller.connection in detour.waiting
            )
            and write.examination is None
        ):
            write.examination = OPEN
        try:
            if self.admit(write):
                if write.logged:
                    self._committer.submit((write,))
                else:
                    self.commit_or_announce((write,))
        except Error as error:
            self._refuse(write, error)

    def _refuse(self, write: Write, error: Error) -> None:
        for listener in self.on_refused:
            listener(write.caller, write.event, error)
        if self.take_unfit is None or not self.take_unfit(write, error):
            write.done(error)

    async def earlier_admitted(self, caller: Caller) -> None:
        """Wait until a caller's writes have left the detour."""
        if self.detour is not None and caller.connection in self.detour.waiting:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.detour.after(caller, partial(resolve, future, None))
            await future

    def admit(self, write: Write, *, many: bool = False) -> bool:
        """Run the steps of a write; return whether to append it.

        Raises the Error that refuses it. False: a step has taken over the write. ``many``: it is
        one of so many that their routes are not worth keeping.
        """
        event = write.event
        if event.topic.startswith(("/", DELAYED_PREFIX)):
            event.topic = self._registry.named(event.topic)
        if event.properties is not None:
            for step in self._steps.before_route(event.properties):
                if step(write):
                    return False
        compiled = self._registry.compiled(event.topic) if many else None
        if compiled is not None:
            steps = compiled.message_steps if event.kind is MESSAGE else compiled.steps
        else:
            route = self._known.get(event.topic) or self._registry.route(event.topic)
            steps = route.steps or self._steps.compile(route)
            if event.kind is MESSAGE:
                steps = route.message_steps
        for step in steps:
            if step(write):
                return False
        if write.logged and (event.properties is not None or write.caller.user not in NAMELESS):
            note_writer(event, write.caller)
        return True

    def commit_or_announce(self, writes: Sequence[Write], most: int = 0) -> None:
        """Commit admitted writes, in order; announce one at once that needs no disk.

        The server's own writes come here directly, without steps. Raises BUSY when too many wait;
        ``most`` overrides that limit, for a single large transaction.
        """
        committer = self._committer
        if len(writes) == 1:
            write = writes[0]
            waits = write.caller.connection in committer.pending
            if not (write.logged or write.depends or write.changes or waits):
                committer.publish_unlogged(write.event)
                if type(write.done) is not FireAndForget:
                    write.done(Receipt(write.event))
                return
        committer.submit(writes, most)
