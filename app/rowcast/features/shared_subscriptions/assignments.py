"""Assignments of events to members, the state of members, and the round robin.

``groups.py`` has the rules of distribution; this module has one assignment, one member and one
round. It knows neither the log nor protocols.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rowcast.core.events import Event
from rowcast.core.limits import (
    GROUP_PREFETCH_EVENTS_MAX,
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

    prefetch_events: int = GROUP_PREFETCH_EVENTS_MAX
    """Unacknowledged events of one member."""
    turn_events: int = GROUP_TURN_EVENTS
    """Events that are assigned in one turn of the loop."""
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

    def assign(self, assignment: "Assignment") -> None:
        """Accept an event, and notify the group when it is done.

        Sets ``assignment.sent`` when it is sent.
        """

    def withdraw(self, assignment: "Assignment") -> None:
        """Drop an assignment of an earlier connection, reassigned to another member."""


class Assignment:
    """One event assigned to one member, or to be reassigned.

    ``event`` is None for one open when the server stopped, until it is read again.
    """

    __slots__ = (
        "event",
        "group",
        "interest",
        "member_state",
        "number",
        "qos",
        "redeliver",
        "sent",
        "sent_before",
        "seq",
    )

    def __init__(self, group: "Group", number: int, seq: int, event: Event | None) -> None:
        self.group = group
        self.number = number
        """Its number in the group's order."""
        self.seq = seq
        self.event = event
        self.member_state: MemberState | None = None
        self.interest: SubscribedFilter | None = None
        """The member's interest."""
        self.qos = event.qos if event is not None else 1
        """The minimum of the event's and the member's granted QoS (MQTT-4.8.2-3)."""
        self.sent = False
        """Whether it was sent to its member: set by the door."""
        self.redeliver = False
        """Whether it waits to be reassigned."""
        self.sent_before = False
        """Whether it was sent to a member before; then a failure here is no gap."""

    def __lt__(self, other: "Assignment") -> bool:
        return self.number < other.number


class MemberState:
    """The state of one member."""

    __slots__ = (
        "assignments",
        "connected",
        "durable",
        "interest",
        "member",
        "prefetch_events",
        "subscribed",
    )

    def __init__(self, member: Member, interest: SubscribedFilter, prefetch_events: int) -> None:
        self.prefetch_events = prefetch_events
        self.member = member
        self.interest = interest
        self.assignments: dict[Assignment, None] = {}
        """Its open assignments, in order."""
        self.subscribed = self.connected = self.durable = False

    @property
    def room(self) -> int:
        """The number of further events to assign now."""
        return min(self.member.room(), self.prefetch_events - len(self.assignments))


class RoundRobin:
    """The connected members, in round-robin order."""

    __slots__ = ("_states", "next")

    def __init__(self) -> None:
        self._states: list[MemberState] = []
        self.next = 0

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[MemberState]:
        return iter(self._states)

    def add(self, state: MemberState) -> None:
        """Add a member."""
        state.connected = True
        self._states.append(state)

    def remove(self, state: MemberState) -> None:
        """Remove a member; the order of the others is unchanged."""
        if state.connected:
            state.connected = False
            index = self._states.index(state)
            del self._states[index]
            self.next -= index < self.next

    def pick(self, wanted: int) -> list[tuple[MemberState, int]]:
        """Return the next ``wanted`` members with capacity, each with its successor.

        Members without capacity are skipped.
        """
        states, index, vain = self._states, self.next, 0
        picked: list[tuple[MemberState, int]] = []
        rooms: dict[MemberState, int] = {}
        while len(picked) < wanted and vain < len(states):
            state = states[index % len(states)]
            index = (index + 1) % len(states)
            room = rooms[state] if state in rooms else state.room  # noqa: SIM401 - room is computed
            if room > 0:
                picked.append((state, index))
                vain = 0
            else:
                vain += 1
            rooms[state] = room - 1
        return picked
