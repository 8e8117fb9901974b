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
over. ``state`` is the durable state: the position, and the numbers of open assignments. It knows no
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
        self._seats: dict[Member, MemberState] = {}
        self._ring = RoundRobin()
        self._members = self._durables = 0
        self._subscription: Subscription | None = None
        self._position: int | None = None
        """The position to resume from while there is no subscription; None for now."""
        self._returned: list[Assignment] = []
        """A heap of assignments to reassign; obsolete ones are skipped."""
        self._recalled: dict[int, Assignment] = {}
        """Assignments open when the server stopped and not read again yet, by number."""
        self._numbers = count(1)
        self._task: asyncio.Task[None] | None = None
        self._scheduled = False
        self._starved = False
        """Whether no member had capacity: ``done`` or ``ready`` resumes."""
        self.changed = False
        """Whether ``state`` may have changed since the owner reset this."""
        self.saved: bytes | None = None
        """The stored state, as far as known."""
        self.losses = LossCounter(reader.losses)
        """Losses: no member was connected, or had capacity."""
        self._owed: list[Gap] = []
        """Unreported gaps of these."""
        self._away: OfflineSessions | None = None
        """Counts losses while no member is connected."""

    @property
    def durable(self) -> bool:
        """Whether it keeps its position while no member is connected."""
        return self._durables > 0

    @property
    def ended(self) -> bool:
        """Whether it has no members."""
        return not self._members

    @property
    def position(self) -> int:
        """The position up to which all logged events were assigned."""
        if self._subscription is not None:
            return self._subscription.settled
        return self._reader.announced() if self._position is None else self._position

    @property
    def figures(self) -> dict[str, int]:
        """The numbers of members, connected members, and open assignments."""
        seats = list(self._seats.values())
        return {
            "members": self._members,
            "connected": sum(seat.connected for seat in seats),
            "in_hands": sum(len(seat.deals) for seat in seats),
            "waiting": len(self._returned),
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
        seat = self._seats.get(member)
        if seat is None:
            seat = self._seats[member] = MemberState(member, interest, self._limits.ahead_events)
        if not self._members and since is not None:
            self._position = since
        self._members += not seat.subscribed
        seat.subscribed, seat.interest = True, interest
        if connected and not seat.connected:
            self._ring.add(seat)
            for deal in seat.deals:  # it sends them again itself (MQTT-4.4.0-1)
                deal.returned = False
        self._settle(seat)

    def rest(self, member: Member) -> None:
        """Note a member's disconnect; its session stays."""
        seat = self._seats.get(member)
        if seat is None:
            return
        self._part(seat)
        for deal in seat.deals:
            if deal.qos < 2 and seat.subscribed:  # MQTT-4.8.2-4: QoS 2 waits for it
                self._return(deal)
        self._settle(seat)

    def leave(self, member: Member) -> None:
        """Remove a member that unsubscribed; it completes sent messages.

        (MQTT-3.10.4-2, MQTT-3.10.4-3).
        """
        seat = self._seats.get(member)
        if seat is None:
            return
        self._part(seat)
        self._members -= seat.subscribed
        seat.subscribed = False
        self._settle(seat)

    def end(self, member: Member) -> None:
        """Remove a member whose session ended, reassigning all but sent QoS 2 messages.

        Those are sent to no other member (MQTT-4.8.2-5).
        """
        seat = self._seats.get(member)
        if seat is None:
            return
        self._part(seat)
        for deal in list(seat.deals):
            self._release(deal)
            if deal.qos < 2:
                self._return(deal)
        self._members -= seat.subscribed
        seat.subscribed = False
        self._settle(seat)

    def _part(self, seat: MemberState) -> None:
        """Remove a member from the round robin; its unsent assignments are reassigned."""
        self._ring.remove(seat)
        for deal in list(seat.deals):
            if not deal.sent:
                self._release(deal)
                self._return(deal)

    def _settle(self, seat: MemberState) -> None:
        """After a change of membership: join or leave the bus, and notify the owner."""
        had_place = self.durable or self._subscription is not None
        durable = bool(seat.subscribed and seat.interest.qos and seat.member.durable)
        self._durables += durable - seat.durable
        seat.durable = durable
        self._drop_if_gone(seat)
        if self._ring:
            self._start()
            self._schedule()
        else:
            self._pause()
            if had_place and not self.durable:  # without a durable member nothing is kept
                self._position = None
                self._returned.clear()
                self._recalled.clear()
                self._forget_absence()
        self.changed = True
        self._on_change(self)

    def _forget_absence(self) -> None:
        """Start over: losses are not reported."""
        if self._away is not None:
            self._views.bus.absences.end(self._away)
            self._away = None
        self._owed.clear()

    def _drop_if_gone(self, seat: MemberState) -> None:
        if not seat.subscribed and not seat.deals:
            self._seats.pop(seat.member, None)

    # -- deals -------------------------------------------------------------------------------------

    def done(self, deal: Assignment) -> None:
        """Complete an assignment: acknowledged, refused (MQTT-4.8.2-6), or sent with QoS 0."""
        if deal.seat is None:
            return
        seat = deal.seat
        self._release(deal)
        self._drop_if_gone(seat)
        self.ready()

    def ready(self) -> None:
        """Called when a member has capacity again."""
        if self._starved:
            self._schedule()

    def _release(self, deal: Assignment) -> None:
        """Remove an assignment from its member."""
        if deal.seat is not None:
            del deal.seat.deals[deal]
            deal.seat = None
        deal.returned = False
        self._touch()

    def _touch(self) -> None:
        if not self.changed:
            self.changed = True
            self._on_change(self)

    def _return(self, deal: Assignment) -> None:
        """Queue an assignment to be reassigned, before later events."""
        deal.returned = True
        if deal.event is not None:
            heappush(self._returned, deal)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deal)

    def _deal(self) -> None:
        """Assign events, within capacity and the share of this turn."""
        self._scheduled = self._starved = False
        left = self._limits.turn_events
        while self._waits and self._subscription is not None:
            if left <= 0:
                self._schedule()
                return
            waiting = len(self._returned) + self._subscription.waiting
            places = self._ring.places(min(left, waiting or 1))
            if not places:
                self._starved = True
                return
            left -= len(places)
            try:
                self._deal_round(places, self._subscription)
            except Error as error:
                self._retry(error)

    @property
    def _waits(self) -> bool:
        """Whether there are events to assign, or to read."""
        while self._returned and not self._returned[0].returned:
            heappop(self._returned)
        ready = self._subscription is not None and self._subscription.ready
        return bool(self._returned) or ready

    def _deal_round(
        self, places: list[tuple[MemberState, int]], subscription: Subscription
    ) -> None:
        """Assign one event to each place, returned ones first."""
        turn = iter(places)
        wanted = len(places)
        while wanted and self._waits and self._returned:
            self._give(*next(turn), self._taken_over(heappop(self._returned)))
            wanted -= 1
        for event, _ in subscription.take(wanted) if wanted else ():
            if isinstance(event, Gap):  # one of them gets it
                self._give(*next(turn), Assignment(self, next(self._numbers), 0, event))
                continue
            if event.kind not in LOGGED:  # marks and current records: MQTT 5, 3.3.1.3
                continue
            deal = self._recalled.pop(event.seq, None) if self._recalled else None
            if deal is None:
                self._give(*next(turn), Assignment(self, next(self._numbers), event.seq, event))
            else:
                self._recall(deal, event)

    def _taken_over(self, old: Assignment) -> Assignment:
        """Return an assignment for another member, withdrawing it from the previous one."""
        holder = old.seat
        self._release(old)
        if holder is not None:
            holder.member.withdraw(old)
            self._drop_if_gone(holder)
        new = Assignment(self, old.number, old.seq, old.event)
        new.tried = old.tried or old.sent
        return new

    def _give(self, seat: MemberState, following: int, deal: Assignment) -> None:
        """Assign an event to a member, or to another if it may not read it."""
        self._touch()
        if not seat.connected:  # it left meanwhile
            self._return(deal)
            return
        self._ring.next = following
        event = cast("Event", deal.event)  # assigned events were read
        if not seat.member.takes(event):
            other = self._who_takes(event)
            if other is None:
                return  # no member may read it
            seat = other
        deal.seat, deal.interest = seat, seat.interest
        deal.qos = min(deal.qos, seat.interest.qos)
        seat.deals[deal] = None
        seat.member.give(deal)

    def _who_takes(self, event: Event) -> MemberState | None:
        """Return the member with most capacity that may read an event, even if it has none."""
        most = self._limits.turn_events
        able = (seat for seat in self._ring if len(seat.deals) < most)
        able = (seat for seat in able if seat.member.takes(event))
        return max(able, key=lambda seat: seat.room, default=None)

    # -- the bus and the log -----------------------------------------------------------------------

    def _start(self) -> None:
        """Join the bus, after open events were read again."""
        if self._subscription is not None or self._task is not None or not self._ring:
            return
        position = self.position
        if any(seq <= position and deal.event is None for seq, deal in self._recalled.items()):
            self._task = asyncio.get_running_loop().create_task(self._read_again(position))
            return
        subscription = Subscription(
            self._reader, "", self._schedule, self._deal, skips_trimmed=True
        )
        subscription.losses = self.losses
        self._subscription = subscription
        interest = SubscribedFilter(self.topics, marks=False)
        self._views.enter(subscription, interest)
        subscription.add(interest, self._position, current=False)
        self._end_absence()
        owed, self._owed = self._owed, []
        subscription.queue_gaps(owed)
        self._schedule()

    def _pause(self) -> None:
        """Leave the bus, keeping the position."""
        subscription = self._subscription
        if subscription is not None:
            self._position = subscription.settled
            self._subscription = None
            self._views.leave_all(subscription)
            if self.durable:
                self._owed = subscription.unreported_gaps()
                self._away = self._views.bus.absences.begin((self.topics,))
            subscription.close()

    def _end_absence(self) -> None:
        """Count losses while no member was connected."""
        if self._away is None:
            return
        missed = self._views.bus.absences.end(self._away)
        self._away = None
        if missed:
            self.losses.add(GapCause.AWAY, missed)
            self._owed.append(Gap(GapCause.AWAY, missed))

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

    async def _read_again(self, position: int) -> None:
        """Read open events of the last run from the log; then join the bus."""
        try:
            for seq in [seq for seq in self._recalled if seq <= position]:
                page = await self._reader.read(seq - 1, 1, ())
                deal = self._recalled.pop(seq, None)  # may have been removed meanwhile
                if deal is not None:
                    self._recall(deal, page[0] if page and page[0].seq == seq else None)
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

    def _recall(self, deal: Assignment, event: Event | None) -> None:
        """Set the event of an open number, which may be done or trimmed."""
        rows = self._views.rows(self.topics)
        deal.event = event if event is None or rows is None else rows.row(event) or event
        if event is None:
            log.warning("%d of the group %r is no longer in the log", deal.seq, self.name)
            deal.returned = False
        elif deal.returned:
            self._return(deal)

    # -- durable state -----------------------------------------------------------------------------

    def _open(self) -> Iterator[int]:
        """Yield the numbers of logged open events."""
        for deal in (*self._returned, *self._recalled.values()):
            if deal.returned:
                yield deal.seq
        for seat in self._seats.values():
            for deal in seat.deals:
                if not (deal.sent and deal.qos == 2 and not seat.durable):  # MQTT-4.8.2-5
                    yield deal.seq

    def state(self) -> bytes:
        """Return the state for ``restore``."""
        numbers = sorted({seq for seq in self._open() if seq})
        return encode({"position": self.position, "open": numbers}, CBOR)

    def restore(self, state: bytes) -> None:
        """Restore a stored state, before members join."""
        facts = cast("dict[str, object]", decode(state, CBOR))
        self._position = cast("int", facts["position"])
        for seq in cast("list[int]", facts["open"]):
            deal = self._recalled[seq] = Assignment(self, next(self._numbers), seq, None)
            deal.returned = True
        self._away = self._views.bus.absences.begin((self.topics,))

    def hold(self, member: Member, seq: int, qos: int) -> Assignment:
        """Restore the assignment of a message sent to a member in an earlier run.

        Also for those assigned after the state was saved; no other member gets it unasked.
        """
        deal = self._recalled.get(seq)
        if deal is None:
            deal = self._recalled[seq] = Assignment(self, next(self._numbers), seq, None)
        seat = self._seats[member]
        deal.seat, deal.interest, deal.qos, deal.sent = seat, seat.interest, qos, True
        deal.returned = qos < 2  # MQTT-4.8.2-4
        seat.deals[deal] = None
        return deal
