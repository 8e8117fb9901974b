"""Deals: what a group hands to its members, what it knows of each, and whose turn it is.

The rules of handing over are the group's (``groups.py``); here is only what holds for one deal, one
member and one round. It knows nothing of the log or of protocols.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rowcast.core.events import Event
from rowcast.core.limits import (
    GROUP_AHEAD_EVENTS_MAX,
    GROUP_RETRY_SECONDS,
    GROUP_SAVE_SECONDS,
    GROUP_TURN_EVENTS,
)
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

if TYPE_CHECKING:
    from rowcast.features.shared_subscriptions.groups import Group


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Limits of groups; reasons are where the defaults are."""

    ahead_events: int = GROUP_AHEAD_EVENTS_MAX
    """Events that one member has and did not complete."""
    turn_events: int = GROUP_TURN_EVENTS
    """Events that are dealt in one turn of the loop."""
    retry_seconds: float = GROUP_RETRY_SECONDS
    """Until a log that could not be read is read again."""
    save_seconds: float = GROUP_SAVE_SECONDS
    """Until a changed state is on disk."""


class Member(Protocol):
    """Who takes part in a group: compared by identity, one for each session."""

    @property
    def durable(self) -> bool:
        """Whether it may come back after its connection ends."""

    def room(self) -> int:
        """Return how many more events it can take now."""

    def takes(self, event: Event) -> bool:
        """Tell whether it may be given an event at all."""

    def give(self, deal: "Assignment") -> None:
        """Take an event; sets ``deal.sent`` when it goes out, and tells the group when done."""

    def withdraw(self, deal: "Assignment") -> None:
        """Forget what was sent on an earlier connection: another member has it now."""


class Assignment:
    """One event in the hands of one member, or on its way to the next.

    ``event`` is None for what was open when the server ended, until it is read again.
    """

    __slots__ = (
        "event",
        "group",
        "interest",
        "number",
        "qos",
        "returned",
        "seat",
        "sent",
        "seq",
        "tried",
    )

    def __init__(self, group: "Group", number: int, seq: int, event: Event | None) -> None:
        self.group = group
        self.number = number
        """Its place in the order in which the group took its events."""
        self.seq = seq
        self.event = event
        self.seat: MemberState | None = None
        self.interest: SubscribedFilter | None = None
        """How its member wants it."""
        self.qos = event.qos if event is not None else 1
        """That of the event, or what its member was granted if that is less (MQTT-4.8.2-3)."""
        self.sent = False
        """Whether its member may have it: set by the edge."""
        self.returned = False
        """Whether it is to be dealt again."""
        self.tried = False
        """Whether a member was sent it before: then it is no gap if this one cannot be."""

    def __lt__(self, other: "Assignment") -> bool:
        return self.number < other.number


class MemberState:
    """What a group knows of one member."""

    __slots__ = (
        "ahead_events",
        "connected",
        "deals",
        "durable",
        "interest",
        "member",
        "subscribed",
    )

    def __init__(self, member: Member, interest: SubscribedFilter, ahead_events: int) -> None:
        self.ahead_events = ahead_events
        self.member = member
        self.interest = interest
        self.deals: dict[Assignment, None] = {}
        """What it holds and has not completed, in order."""
        self.subscribed = self.connected = self.durable = False

    @property
    def room(self) -> int:
        """How many more events it is dealt now."""
        return min(self.member.room(), self.ahead_events - len(self.deals))


class RoundRobin:
    """The members that are dealt to, in turn (``next`` is nextIdx of the architecture's plan)."""

    __slots__ = ("_seats", "next")

    def __init__(self) -> None:
        self._seats: list[MemberState] = []
        self.next = 0

    def __len__(self) -> int:
        return len(self._seats)

    def __iter__(self) -> Iterator[MemberState]:
        return iter(self._seats)

    def add(self, seat: MemberState) -> None:
        """Let a member take part."""
        seat.connected = True
        self._seats.append(seat)

    def remove(self, seat: MemberState) -> None:
        """Deal to a member no more; the turn of the others is as it was."""
        if seat.connected:
            seat.connected = False
            place = self._seats.index(seat)
            del self._seats[place]
            self.next -= place < self.next

    def places(self, wanted: int) -> list[tuple[MemberState, int]]:
        """Return whose turn it is, up to ``wanted`` times, and who follows each of them.

        Who has no room is passed over.
        """
        seats, index, vain = self._seats, self.next, 0
        places: list[tuple[MemberState, int]] = []
        rooms: dict[MemberState, int] = {}
        while len(places) < wanted and vain < len(seats):
            seat = seats[index % len(seats)]
            index = (index + 1) % len(seats)
            room = rooms[seat] if seat in rooms else seat.room  # noqa: SIM401 - it is worked out
            if room > 0:
                places.append((seat, index))
                vain = 0
            else:
                vain += 1
            rooms[seat] = room - 1
        return places
