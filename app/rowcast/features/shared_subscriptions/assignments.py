"""Assignments of events to members, the state of members, and the round robin.

``groups.py`` has the rules of distribution; this module has one assignment, one member and one
round. It knows neither the log nor protocols.
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
    """A member of a group, one for each session; compared by identity."""

    @property
    def durable(self) -> bool:
        """Whether it may return after a disconnect."""

    def room(self) -> int:
        """Return its free capacity in events."""

    def takes(self, event: Event) -> bool:
        """Whether it may read an event."""

    def give(self, deal: "Assignment") -> None:
        """Accept an event; sets ``deal.sent`` when it is sent, and notifies the group when done."""

    def withdraw(self, deal: "Assignment") -> None:
        """Drop an assignment of an earlier connection, reassigned to another member."""


class Assignment:
    """One event assigned to one member, or to be reassigned.

    ``event`` is None for one open when the server stopped, until it is read again.
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
        """Its number in the group's order."""
        self.seq = seq
        self.event = event
        self.seat: MemberState | None = None
        self.interest: SubscribedFilter | None = None
        """The member's interest."""
        self.qos = event.qos if event is not None else 1
        """The minimum of the event's and the member's granted QoS (MQTT-4.8.2-3)."""
        self.sent = False
        """Whether it was sent to its member: set by the door."""
        self.returned = False
        """Whether it must be reassigned."""
        self.tried = False
        """Whether it was sent to a member before; then a failure here is no gap."""

    def __lt__(self, other: "Assignment") -> bool:
        return self.number < other.number


class MemberState:
    """The state of one member."""

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
        """Its open assignments, in order."""
        self.subscribed = self.connected = self.durable = False

    @property
    def room(self) -> int:
        """The number of further events to assign now."""
        return min(self.member.room(), self.ahead_events - len(self.deals))


class RoundRobin:
    """The connected members, in round-robin order."""

    __slots__ = ("_seats", "next")

    def __init__(self) -> None:
        self._seats: list[MemberState] = []
        self.next = 0

    def __len__(self) -> int:
        return len(self._seats)

    def __iter__(self) -> Iterator[MemberState]:
        return iter(self._seats)

    def add(self, seat: MemberState) -> None:
        """Add a member."""
        seat.connected = True
        self._seats.append(seat)

    def remove(self, seat: MemberState) -> None:
        """Remove a member; the order of the others is unchanged."""
        if seat.connected:
            seat.connected = False
            place = self._seats.index(seat)
            del self._seats[place]
            self.next -= place < self.next

    def places(self, wanted: int) -> list[tuple[MemberState, int]]:
        """Return the next ``wanted`` members with capacity, each with its successor.

        Members without capacity are skipped.
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
