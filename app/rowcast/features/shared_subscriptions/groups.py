"""Shared subscriptions: a group reads the log once, and deals what it reads to its members.

A group is a reader like any other: one ``Subscription`` with one filter and one position. Each
event goes to one member, in turn, among those that are connected and have room (MQTT 5, 4.8.2). So
a member that is slow or stopped holds nobody back, and what no member has room for waits in the
subscription, where it is bounded and, if it is logged, never lost.

What a member was dealt is open until it is done: acknowledged, or sent with QoS 0. What a member
leaves open goes to the others first, in order (D36), except QoS 2 that was sent to it:
that is for this member alone, and waits for its return or ends with its session (MQTT-4.8.2-4, -5).
What a durable member was sent stays its own until another member takes it; if it is back before,
its edge sends it again (MQTT-4.4.0-1).

When no member is connected the group leaves the bus. It keeps its position while a durable member
(its session outlives the connection, its QoS is above 0) is in it, and goes on from there; without
one it begins anew. ``state`` is what must survive the server: the position, and the numbers that
were dealt and are open. It knows nothing of protocols: an edge brings members.
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
    """The members of one shared subscription, and its place in the log."""

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
        """Where to go on while there is no subscription; None for now."""
        self._returned: list[Assignment] = []
        """A heap of what is to be dealt again; one that was taken meanwhile is skipped."""
        self._recalled: dict[int, Assignment] = {}
        """What was open when the server ended and is still to be read again, by number."""
        self._numbers = count(1)
        self._task: asyncio.Task[None] | None = None
        self._scheduled = False
        self._starved = False
        """Whether nobody had room for what waits: done or ``ready`` deals again."""
        self.changed = False
        """Whether ``state`` may be another than when the owner of the group set this to False."""
        self.saved: bytes | None = None
        """The state that is on disk, as far as the owner knows."""
        self.losses = LossCounter(reader.losses)
        """What no member had room for, or was there for."""
        self._owed: list[Gap] = []
        """What is to be told of that."""
        self._away: OfflineSessions | None = None
        """Counts what is missed while nobody is connected."""

    @property
    def durable(self) -> bool:
        """Whether it keeps its place while nobody is connected."""
        return self._durables > 0

    @property
    def ended(self) -> bool:
        """Whether nobody is in it any more."""
        return not self._members

    @property
    def position(self) -> int:
        """The number up to which everything logged was dealt."""
        if self._subscription is not None:
            return self._subscription.settled
        return self._reader.announced() if self._position is None else self._position

    @property
    def figures(self) -> dict[str, int]:
        """How many members there are, how many are connected, and what is not done."""
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
        """Begin to deal to a member, or change its options, or see it again after ``rest``.

        ``since`` is the position at which a new group begins, None for now.
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
        """See a member's connection end; its session lasts."""
        seat = self._seats.get(member)
        if seat is None:
            return
        self._part(seat)
        for deal in seat.deals:
            if deal.qos < 2 and seat.subscribed:  # MQTT-4.8.2-4: QoS 2 waits for it
                self._return(deal)
        self._settle(seat)

    def leave(self, member: Member) -> None:
        """Deal no more to a member that unsubscribed; it completes what it was sent.

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
        """See a member's session end: what it held is for the others, but QoS 2 that was sent.

        That is sent to nobody else (MQTT-4.8.2-5).
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
        """Take a seat out of the turn; what it was not sent yet is for the others."""
        self._ring.remove(seat)
        for deal in list(seat.deals):
            if not deal.sent:
                self._release(deal)
                self._return(deal)

    def _settle(self, seat: MemberState) -> None:
        """Follow a change of membership: on the bus or off it, and tell the owner."""
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
            if had_place and not self.durable:  # without a durable member nothing is for later
                self._position = None
                self._returned.clear()
                self._recalled.clear()
                self._forget_absence()
        self.changed = True
        self._on_change(self)

    def _forget_absence(self) -> None:
        """Begin anew: what was missed is nobody's."""
        if self._away is not None:
            self._views.bus.absences.end(self._away)
            self._away = None
        self._owed.clear()

    def _drop_if_gone(self, seat: MemberState) -> None:
        if not seat.subscribed and not seat.deals:
            self._seats.pop(seat.member, None)

    # -- deals -------------------------------------------------------------------------------------

    def done(self, deal: Assignment) -> None:
        """Complete a deal: it was acknowledged, refused (MQTT-4.8.2-6), or sent with QoS 0."""
        if deal.seat is None:
            return
        seat = deal.seat
        self._release(deal)
        self._drop_if_gone(seat)
        self.ready()

    def ready(self) -> None:
        """Hear that a member has room again."""
        if self._starved:
            self._schedule()

    def _release(self, deal: Assignment) -> None:
        """Take a deal out of its member's hands."""
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
        """Have a deal dealt again, before what comes later in the log."""
        deal.returned = True
        if deal.event is not None:
            heappush(self._returned, deal)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deal)

    def _deal(self) -> None:
        """Deal what there is, as far as there is room and this turn's share reaches."""
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
        """Whether there is something to deal, or to read."""
        while self._returned and not self._returned[0].returned:
            heappop(self._returned)
        ready = self._subscription is not None and self._subscription.ready
        return bool(self._returned) or ready

    def _deal_round(
        self, places: list[tuple[MemberState, int]], subscription: Subscription
    ) -> None:
        """Give one event to each place, what was returned first."""
        turn = iter(places)
        wanted = len(places)
        while wanted and self._waits and self._returned:
            self._give(*next(turn), self._taken_over(heappop(self._returned)))
            wanted -= 1
        for event, _ in subscription.take(wanted) if wanted else ():
            if isinstance(event, Gap):  # one of them is told
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
        """Return a deal for another member; whoever was sent it before is to forget it."""
        holder = old.seat
        self._release(old)
        if holder is not None:
            holder.member.withdraw(old)
            self._drop_if_gone(holder)
        new = Assignment(self, old.number, old.seq, old.event)
        new.tried = old.tried or old.sent
        return new

    def _give(self, seat: MemberState, following: int, deal: Assignment) -> None:
        """Put an event into a member's hands, or another's if it may not be given this one."""
        self._touch()
        if not seat.connected:  # it went while others were given theirs
            self._return(deal)
            return
        self._ring.next = following
        event = cast("Event", deal.event)  # what is dealt was read
        if not seat.member.takes(event):
            other = self._who_takes(event)
            if other is None:
                return  # none of them may know of it
            seat = other
        deal.seat, deal.interest = seat, seat.interest
        deal.qos = min(deal.qos, seat.interest.qos)
        seat.deals[deal] = None
        seat.member.give(deal)

    def _who_takes(self, event: Event) -> MemberState | None:
        """Return who may be given an event: who has most room, or, within reason, has none."""
        most = self._limits.turn_events
        able = (seat for seat in self._ring if len(seat.deals) < most)
        able = (seat for seat in able if seat.member.takes(event))
        return max(able, key=lambda seat: seat.room, default=None)

    # -- the bus and the log -----------------------------------------------------------------------

    def _start(self) -> None:
        """Go on the bus, once all that is to be read again is there."""
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
        subscription.owe(owed)
        self._schedule()

    def _pause(self) -> None:
        """Leave the bus, to go on from here."""
        subscription = self._subscription
        if subscription is not None:
            self._position = subscription.settled
            self._subscription = None
            self._views.leave_all(subscription)
            if self.durable:
                self._owed = subscription.untold()
                self._away = self._views.bus.absences.begin((self.topics,))
            subscription.close()

    def _end_absence(self) -> None:
        """Count what was missed while nobody was here."""
        if self._away is None:
            return
        missed = self._views.bus.absences.end(self._away)
        self._away = None
        if missed:
            self.losses.add(GapCause.AWAY, missed)
            self._owed.append(Gap(GapCause.AWAY, missed))

    def stop(self) -> None:
        """Read and deal no more: the server stops."""
        self._pause()
        if self._task is not None:
            self._task.cancel()

    def _retry(self, error: Error) -> None:
        """Try again later: the log could not be read."""
        log.warning("the group %r of %r waits: %s", self.name, self.topics.text, error.message)
        self._pause()
        asyncio.get_running_loop().call_later(self._limits.retry_seconds, self._start)

    async def _read_again(self, position: int) -> None:
        """Read from the log what was open when the server ended; then go on the bus."""
        try:
            for seq in [seq for seq in self._recalled if seq <= position]:
                page = await self._reader.read(seq - 1, 1, ())
                deal = self._recalled.pop(seq, None)  # it may have been forgotten meanwhile
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
        """Take note of what an open number stands for; it may be done, or gone for good."""
        rows = self._views.rows(self.topics)
        deal.event = event if event is None or rows is None else rows.row(event) or event
        if event is None:
            log.warning("%d of the group %r is no longer in the log", deal.seq, self.name)
            deal.returned = False
        elif deal.returned:
            self._return(deal)

    # -- what survives the server ------------------------------------------------------------------

    def _open(self) -> Iterator[int]:
        """Give the numbers that would be lost with the server: of logged events, not done."""
        for deal in (*self._returned, *self._recalled.values()):
            if deal.returned:
                yield deal.seq
        for seat in self._seats.values():
            for deal in seat.deals:
                if not (deal.sent and deal.qos == 2 and not seat.durable):  # MQTT-4.8.2-5
                    yield deal.seq

    def state(self) -> bytes:
        """Return what ``restore`` goes on from."""
        numbers = sorted({seq for seq in self._open() if seq})
        return encode({"position": self.position, "open": numbers}, CBOR)

    def restore(self, state: bytes) -> None:
        """Go on from a state of an earlier run; before anybody joins."""
        facts = cast("dict[str, object]", decode(state, CBOR))
        self._position = cast("int", facts["position"])
        for seq in cast("list[int]", facts["open"]):
            deal = self._recalled[seq] = Assignment(self, next(self._numbers), seq, None)
            deal.returned = True
        self._away = self._views.bus.absences.begin((self.topics,))

    def hold(self, member: Member, seq: int, qos: int) -> Assignment:
        """Return the deal of what a member was sent in an earlier run; it is the member's again.

        Also of what was taken since the state was written; nobody else is dealt it unasked.
        """
        deal = self._recalled.get(seq)
        if deal is None:
            deal = self._recalled[seq] = Assignment(self, next(self._numbers), seq, None)
        seat = self._seats[member]
        deal.seat, deal.interest, deal.qos, deal.sent = seat, seat.interest, qos, True
        deal.returned = qos < 2  # MQTT-4.8.2-4
        seat.deals[deal] = None
        return deal
