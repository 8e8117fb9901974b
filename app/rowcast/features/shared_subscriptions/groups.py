"""Shared subscriptions: a group reads the log once, and distributes events to its members.

A group is a reader like any other: one ``Subscription`` with one filter and one position. Each
event goes to one member, in turn, among those that are connected and have room (MQTT 5, 4.8.2). So
a slow member does not block others, and events without a free member stay in the subscription,
whose queue is bounded and which never loses logged events.

An assignment is open until it is done: acknowledged, or sent with QoS 0. Open assignments of a
leaving member are reassigned first, in order (D36), except sent QoS 2 messages: these belong to
this member, and wait for its return or end with its session (MQTT-4.8.2-4, -5). Messages sent to a
durable member stay its own until another member takes them; if it returns before, its door sends
them again (MQTT-4.4.0-1).

When no member is connected the group leaves the bus. With a durable member (its session outlives
the connection, its QoS is above 0) it keeps its position, and resumes there; without one it starts
over. ``state`` is the durable state: the position, and the seqs of open assignments. It knows no
protocols: doors add members.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import cast

from rowcast.bus.missed_while_offline import OfflineSessions
from rowcast.codecs import CBOR, decode, encode
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.topics import TopicFilter
from rowcast.features.shared_subscriptions.assignments import (
    Assignment,
    GroupLimits,
    Member,
    MemberState,
    RoundRobin,
)
from rowcast.kernel.row_views import Views
from rowcast.subscriptions.gaps import Gap, GapCause, LossCounter
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.skipped_ranges import LOGGED
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

log = logging.getLogger("rowcast.groups")


class Group:
    """The members of one shared subscription, and its position in the log."""

    def __init__(
        self,
        name: str,
        topics: TopicFilter,
        reader: Reader,
        views: Views,
        on_change: Callable[["Group"], None],
        limits: GroupLimits,
    ) -> None:
        self.name = name
        self.topics = topics
        self._reader = reader
        self._views = views
        self._on_change = on_change
        self._limits = limits
        self._member_states: dict[Member, MemberState] = {}
        self._round_robin = RoundRobin()
        self._member_count = self._durable_count = 0
        self._subscription: Subscription | None = None
        self._position: int | None = None
        """The position to resume from while there is no subscription; None for now."""
        self._redeliveries: list[Assignment] = []
        """A heap of assignments to redeliver to another member; obsolete ones are skipped."""
        self._restored: dict[int, Assignment] = {}
        """Assignments open when the server stopped, by seq, until their events are read again."""
        self._numbers = count(1)
        self._task: asyncio.Task[None] | None = None
        self._scheduled = False
        self._no_capacity = False
        """Whether no member had capacity: ``done`` or ``ready`` resumes."""
        self.changed = False
        """Whether ``state`` may have changed since the owner reset this."""
        self.saved: bytes | None = None
        """The stored state, as far as known."""
        self.losses = LossCounter(reader.losses)
        """Events lost because no member was connected, or none had capacity."""
        self._unreported: list[Gap] = []
        """Gaps of these losses, to be reported to a member."""
        self._offline: OfflineSessions | None = None
        """Counts losses while no member is connected."""

    @property
    def durable(self) -> bool:
        """Whether it keeps its position while no member is connected."""
        return self._durable_count > 0

    @property
    def ended(self) -> bool:
        """Whether it has no members."""
        return not self._member_count

    @property
    def position(self) -> int:
        """The position up to which all logged events were assigned."""
        if self._subscription is not None:
            return self._subscription.settled
        return self._reader.announced() if self._position is None else self._position

    @property
    def figures(self) -> dict[str, int]:
        """The numbers of members, connected members, and open assignments."""
        states = list(self._member_states.values())
        return {
            "members": self._member_count,
            "connected": sum(state.connected for state in states),
            "in_hands": sum(len(state.assignments) for state in states),
            "waiting": len(self._redeliveries),
        }

    # -- members -----------------------------------------------------------------------------------

    def join(
        self,
        member: Member,
        interest: SubscribedFilter,
        since: int | None = None,
        *,
        connected: bool = True,
    ) -> None:
        """Add a member, change its options, or reconnect it after ``rest``.

        ``since`` is the position at which a new group starts, None for now.
        """
        state = self._member_states.get(member)
        if state is None:
            state = self._member_states[member] = MemberState(
                member, interest, self._limits.prefetch_events
            )
        if not self._member_count and since is not None:
            self._position = since
        self._member_count += not state.subscribed
        state.subscribed, state.interest = True, interest
        if connected and not state.connected:
            self._round_robin.add(state)
            for assignment in state.assignments:  # it sends them again itself (MQTT-4.4.0-1)
                assignment.redeliver = False
        self._membership_changed(state)

    def rest(self, member: Member) -> None:
        """Note a member's disconnect; its session stays."""
        state = self._member_states.get(member)
        if state is None:
            return
        self._leave_rotation(state)
        for assignment in state.assignments:
            if assignment.qos < 2 and state.subscribed:  # MQTT-4.8.2-4: QoS 2 waits for it
                self._queue_redelivery(assignment)
        self._membership_changed(state)

    def leave(self, member: Member) -> None:
        """Remove a member that unsubscribed; it completes sent messages.

        (MQTT-3.10.4-2, MQTT-3.10.4-3).
        """
        state = self._member_states.get(member)
        if state is None:
            return
        self._leave_rotation(state)
        self._member_count -= state.subscribed
        state.subscribed = False
        self._membership_changed(state)

    def end(self, member: Member) -> None:
        """Remove a member whose session ended, reassigning all but sent QoS 2 messages.

        Those are sent to no other member (MQTT-4.8.2-5).
        """
        state = self._member_states.get(member)
        if state is None:
            return
        self._leave_rotation(state)
        for assignment in list(state.assignments):
            self._unassign(assignment)
            if assignment.qos < 2:
                self._queue_redelivery(assignment)
        self._member_count -= state.subscribed
        state.subscribed = False
        self._membership_changed(state)

    def _leave_rotation(self, state: MemberState) -> None:
        """Remove a member from the round robin; its unsent assignments are reassigned."""
        self._round_robin.remove(state)
        for assignment in list(state.assignments):
            if not assignment.sent:
                self._unassign(assignment)
                self._queue_redelivery(assignment)

    def _membership_changed(self, state: MemberState) -> None:
        """After a change of membership: join or leave the bus, and notify the owner."""
        had_position = self.durable or self._subscription is not None
        durable = bool(state.subscribed and state.interest.qos and state.member.durable)
        self._durable_count += durable - state.durable
        state.durable = durable
        self._drop_if_gone(state)
        if self._round_robin:
            self._start()
            self._schedule()
        else:
            self._pause()
            if had_position and not self.durable:  # without a durable member nothing is kept
                self._position = None
                self._redeliveries.clear()
                self._restored.clear()
                self._forget_missed()
        self.changed = True
        self._on_change(self)

    def _forget_missed(self) -> None:
        """Start over: losses are not reported."""
        if self._offline is not None:
            self._views.bus.absences.end(self._offline)
            self._offline = None
        self._unreported.clear()

    def _drop_if_gone(self, state: MemberState) -> None:
        if not state.subscribed and not state.assignments:
            self._member_states.pop(state.member, None)

    # -- assignments -------------------------------------------------------------------------------

    def done(self, assignment: Assignment) -> None:
        """Complete an assignment: acknowledged, refused (MQTT-4.8.2-6), or sent with QoS 0."""
        if assignment.member_state is None:
            return
        state = assignment.member_state
        self._unassign(assignment)
        self._drop_if_gone(state)
        self.ready()

    def ready(self) -> None:
        """Called when a member has capacity again."""
        if self._no_capacity:
            self._schedule()

    def _unassign(self, assignment: Assignment) -> None:
        """Remove an assignment from its member."""
        if assignment.member_state is not None:
            del assignment.member_state.assignments[assignment]
            assignment.member_state = None
        assignment.redeliver = False
        self._mark_changed()

    def _mark_changed(self) -> None:
        if not self.changed:
            self.changed = True
            self._on_change(self)

    def _queue_redelivery(self, assignment: Assignment) -> None:
        """Queue an assignment to be reassigned, before later events."""
        assignment.redeliver = True
        if assignment.event is not None:
            heappush(self._redeliveries, assignment)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._assign_events)

    def _assign_events(self) -> None:
        """Assign events, within capacity and the share of this turn."""
        self._scheduled = self._no_capacity = False
        left = self._limits.turn_events
        while self._has_events and self._subscription is not None:
            if left <= 0:
                self._schedule()
                return
            waiting = len(self._redeliveries) + self._subscription.waiting
            picked = self._round_robin.pick(min(left, waiting or 1))
            if not picked:
                self._no_capacity = True
                return
            left -= len(picked)
            try:
                self._assign_round(picked, self._subscription)
            except Error as error:
                self._retry(error)

    @property
    def _has_events(self) -> bool:
        """Whether there are events to assign, or to read."""
        while self._redeliveries and not self._redeliveries[0].redeliver:
            heappop(self._redeliveries)
        ready = self._subscription is not None and self._subscription.ready
        return bool(self._redeliveries) or ready

    def _assign_round(
        self, picked: list[tuple[MemberState, int]], subscription: Subscription
    ) -> None:
        """Assign one event to each picked member, redeliveries first."""
        turn = iter(picked)
        wanted = len(picked)
        while wanted and self._has_events and self._redeliveries:
            self._assign(*next(turn), self._reassigned(heappop(self._redeliveries)))
            wanted -= 1
        for event, _ in subscription.take(wanted) if wanted else ():
            if isinstance(event, Gap):  # one of them gets it
                self._assign(*next(turn), Assignment(self, next(self._numbers), 0, event))
                continue
            if event.kind not in LOGGED:  # marks and current records: MQTT 5, 3.3.1.3
                continue
            assignment = self._restored.pop(event.seq, None) if self._restored else None
            if assignment is None:
                self._assign(*next(turn), Assignment(self, next(self._numbers), event.seq, event))
            else:
                self._restore_event(assignment, event)

    def _reassigned(self, old: Assignment) -> Assignment:
        """Return an assignment for another member, withdrawing it from the previous one."""
        holder = old.member_state
        self._unassign(old)
        if holder is not None:
            holder.member.withdraw(old)
            self._drop_if_gone(holder)
        new = Assignment(self, old.number, old.seq, old.event)
        new.sent_before = old.sent_before or old.sent
        return new

    def _assign(self, state: MemberState, following: int, assignment: Assignment) -> None:
        """Assign an event to a member, or to another if it may not read it."""
        self._mark_changed()
        if not state.connected:  # it left meanwhile
            self._queue_redelivery(assignment)
            return
        self._round_robin.next = following
        event = cast("Event", assignment.event)  # assigned events were read
        if not state.member.takes(event):
            other = self._other_member(event)
            if other is None:
                return  # no member may read it
            state = other
        assignment.member_state, assignment.interest = state, state.interest
        assignment.qos = min(assignment.qos, state.interest.qos)
        state.assignments[assignment] = None
        state.member.assign(assignment)

    def _other_member(self, event: Event) -> MemberState | None:
        """Return the member with most capacity that may read an event, even if it has none."""
        most = self._limits.turn_events
        able = (state for state in self._round_robin if len(state.assignments) < most)
        able = (state for state in able if state.member.takes(event))
        return max(able, key=lambda state: state.room, default=None)

    # -- the bus and the log -----------------------------------------------------------------------

    def _start(self) -> None:
        """Join the bus, after open events were read again."""
        if self._subscription is not None or self._task is not None or not self._round_robin:
            return
        position = self.position
        if any(
            seq <= position and assignment.event is None
            for seq, assignment in self._restored.items()
        ):
            self._task = asyncio.get_running_loop().create_task(self._read_open_events(position))
            return
        subscription = Subscription(
            self._reader, "", self._schedule, self._assign_events, skips_trimmed=True
        )
        subscription.losses = self.losses
        self._subscription = subscription
        interest = SubscribedFilter(self.topics, marks=False)
        self._views.enter(subscription, interest)
        subscription.add(interest, self._position, current=False)
        self._count_missed()
        unreported, self._unreported = self._unreported, []
        subscription.queue_gaps(unreported)
        self._schedule()

    def _pause(self) -> None:
        """Leave the bus, keeping the position."""
        subscription = self._subscription
        if subscription is not None:
            self._position = subscription.settled
            self._subscription = None
            self._views.leave_all(subscription)
            if self.durable:
                self._unreported = subscription.unreported_gaps()
                self._offline = self._views.bus.absences.begin((self.topics,))
            subscription.close()

    def _count_missed(self) -> None:
        """Count losses while no member was connected."""
        if self._offline is None:
            return
        missed = self._views.bus.absences.end(self._offline)
        self._offline = None
        if missed:
            self.losses.add(GapCause.AWAY, missed)
            self._unreported.append(Gap(GapCause.AWAY, missed))

    def stop(self) -> None:
        """Stop, for shutdown."""
        self._pause()
        if self._task is not None:
            self._task.cancel()

    def _retry(self, error: Error) -> None:
        """Retry later after a failed read of the log."""
        log.warning("the group %r of %r waits: %s", self.name, self.topics.text, error.message)
        self._pause()
        asyncio.get_running_loop().call_later(self._limits.retry_seconds, self._start)

    async def _read_open_events(self, position: int) -> None:
        """Read open events of the last run from the log; then join the bus."""
        try:
            for seq in [seq for seq in self._restored if seq <= position]:
                page = await self._reader.read(seq - 1, 1, ())
                assignment = self._restored.pop(seq, None)  # may have been removed meanwhile
                if assignment is not None:
                    self._restore_event(
                        assignment, page[0] if page and page[0].seq == seq else None
                    )
        except Error as error:
            self._task = None
            self._retry(error)
        except Exception:
            log.exception("what the group %r left open could not be read", self.name)
            self._task = None
            self._retry(Error(Code.BUSY, "the store could not be read; try again"))
        else:
            self._task = None
            self._start()

    def _restore_event(self, assignment: Assignment, event: Event | None) -> None:
        """Set the event of a restored assignment; None if it was trimmed from the log."""
        rows = self._views.rows(self.topics)
        assignment.event = event if event is None or rows is None else rows.row(event) or event
        if event is None:
            log.warning("%d of the group %r is no longer in the log", assignment.seq, self.name)
            assignment.redeliver = False
        elif assignment.redeliver:
            self._queue_redelivery(assignment)

    # -- durable state -----------------------------------------------------------------------------

    def _open_seqs(self) -> Iterator[int]:
        """Yield the seqs of open events; 0 for unlogged ones."""
        for assignment in (*self._redeliveries, *self._restored.values()):
            if assignment.redeliver:
                yield assignment.seq
        for state in self._member_states.values():
            for assignment in state.assignments:
                if not (
                    assignment.sent and assignment.qos == 2 and not state.durable
                ):  # MQTT-4.8.2-5
                    yield assignment.seq

    def state(self) -> bytes:
        """Return the state for ``restore``."""
        numbers = sorted({seq for seq in self._open_seqs() if seq})
        return encode({"position": self.position, "open": numbers}, CBOR)

    def restore(self, state: bytes) -> None:
        """Restore a stored state, before members join."""
        facts = cast("dict[str, object]", decode(state, CBOR))
        self._position = cast("int", facts["position"])
        for seq in cast("list[int]", facts["open"]):
            assignment = self._restored[seq] = Assignment(self, next(self._numbers), seq, None)
            assignment.redeliver = True
        self._offline = self._views.bus.absences.begin((self.topics,))

    def hold(self, member: Member, seq: int, qos: int) -> Assignment:
        """Restore the assignment of a message sent to a member in an earlier run.

        Also for those assigned after the state was saved; no other member gets it unasked.
        """
        assignment = self._restored.get(seq)
        if assignment is None:
            assignment = self._restored[seq] = Assignment(self, next(self._numbers), seq, None)
        state = self._member_states[member]
        assignment.member_state, assignment.interest, assignment.qos, assignment.sent = (
            state,
            state.interest,
            qos,
            True,
        )
        assignment.redeliver = qos < 2  # MQTT-4.8.2-4
        state.assignments[assignment] = None
        return assignment
