"""Shared subscriptions in MQTT: a session as a member of groups (MQTT 5, 4.8.2).

What a group assigns waits in ``assigned`` until the end of the turn, when it is sent. The group
decides who is assigned what, and what becomes of what is not completed; here is only how much there
is room for, and which flight an assignment is.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rowcast.core.cursors import parse_cursor
from rowcast.core.events import Event
from rowcast.doors.mqtt.delivery.sent import Sent
from rowcast.doors.mqtt.packets.share_filters import Share, groups_in, share_of
from rowcast.features.shared_subscriptions.assignments import Assignment
from rowcast.features.shared_subscriptions.group_table import filter_of
from rowcast.features.shared_subscriptions.groups import Group
from rowcast.kernel.kernel import Kernel
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.start_position import why_lost
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

if TYPE_CHECKING:
    from rowcast.doors.mqtt.sessions.session import Session


class Sharing:
    """A session's part in groups, of each of which it is a member.

    ``touch`` saves it soon; ``flush_events`` are encoded for its client at a time.
    """

    __slots__ = (
        "_flights",
        "_flush_events",
        "_kernel",
        "_short",
        "_stage",
        "_touch",
        "assigned",
        "session",
        "shares",
        "table",
    )

    def __init__(
        self,
        kernel: Kernel,
        session: "Session",
        touch: Callable[["Session"], None],
        flush_events: int,
    ) -> None:
        self._flush_events = flush_events
        self._kernel = kernel
        self.table = groups_in(kernel)
        """All groups of the server."""
        self.session = session
        self._touch = touch
        self._short = False
        """Whether a group was told that there is no room, and waits until there is."""
        self._stage: Stage | None = None
        """The stage of hooks for its messages."""
        self.shares: dict[str, tuple[Share, SubscribedFilter]] = {}
        """Shares by the complete text of the filter."""
        self.assigned: deque[Assignment] = deque()
        """Assignments not sent yet."""
        self._flights: dict[Assignment, int] = {}
        """Packet identifiers of assignments in flight."""

    # -- called by groups --------------------------------------------------------------------------

    @property
    def durable(self) -> bool:
        """Whether the session outlives its connection."""
        return self.session.durable

    def room(self) -> int:
        """Return the number of messages that may be sent now."""
        session, flush_events, room = self.session, self._flush_events, 0
        client = session.client
        stopped = client is None or client.stopped or len(client.later) >= flush_events
        if client is not None and not stopped and not session.resend:  # MQTT-4.6.0-1
            room = session.window.receive_maximum - len(session.window) - len(self.assigned)
            client.blocked |= room <= 0  # an acknowledgement calls again
            room = min(room, flush_events - len(self.assigned))
        self._short |= room <= 0
        return room

    def takes(self, event: Event) -> bool:
        """Whether its client may read an event (G6)."""
        visibility, client = self._kernel.visibility, self.session.client
        if not event.topic or not visibility.filtered or client is None or client.caller is None:
            return True
        return visibility.takes(client.caller, event)

    def assign(self, assignment: Assignment) -> None:
        """Queue an assignment; it is sent at the end of this turn."""
        self.assigned.append(assignment)
        client = self.session.client
        if client is not None:
            client.ready()

    def withdraw(self, assignment: Assignment) -> None:
        """Drop a flight of an earlier connection, whose message another member got."""
        packet_id = self._flights.pop(assignment, None)
        if packet_id is not None:
            self.session.window.acknowledge(packet_id)
            if self.session.kept:
                self.session.changed[packet_id] = None
                self._touch(self.session)

    # -- called by the client ----------------------------------------------------------------------

    @property
    def groups(self) -> list[Group]:
        """The groups of its flights and of its shares, each once, in the order of their making."""
        of_flights = (assignment.group for assignment in self._flights)
        of_shares = (self._group(share) for share, _ in self.shares.values())
        return list(dict.fromkeys((*of_flights, *of_shares)))

    def _group(self, share: Share) -> Group:
        return self.table.group(share.name, share.topics)

    def subscribe(
        self, text: str, share: Share, interest: SubscribedFilter, since: str | int | None = None
    ) -> None:
        """Join a group, or change the options. A new group starts at ``since``."""
        known, _ = self.shares.get(text, (share, None))
        if known != share:  # a hook changed the same filter
            self.unsubscribe(text)
        self.serve()
        if self.session.subscription is not None:
            self.session.subscription.join()
        self.shares[text] = share, interest
        self._group(share).join(self, interest, self._position(since))

    def _position(self, since: str | int | None) -> int | None:
        """Return the position of a cursor of this log; any other is the head (D55)."""
        if since is None or isinstance(since, int):
            return since
        cursor, kernel = parse_cursor(since), self._kernel
        lost = why_lost(cursor, kernel.reader.epoch, kernel.committer.reach)
        return None if lost else cursor.seq

    def unsubscribe(self, text: str) -> SubscribedFilter | None:
        """Leave a group; return the interest, None if it was not in it."""
        share, interest = self.shares.pop(text, (None, None))
        if share is not None:
            group = self._group(share)
            self._unassign(group)
            group.leave(self)
        return interest

    def connect(self) -> None:
        """Called when the client returns."""
        self.serve()
        for share, interest in self.shares.values():
            self._group(share).join(self, interest)

    def serve(self) -> None:
        """Set the stage of hooks for this client."""
        client = self.session.client
        if client is not None and client.caller is not None:
            self._stage = self._kernel.stage(client.caller)

    def deliverable(self, assignment: Assignment) -> tuple[Event, SubscribedFilter] | None:
        """Return the event and interest of an assignment; None if hooks withhold it (G8)."""
        event, interest = assignment.event, assignment.interest
        if event is None or interest is None:  # assignments have both
            return None
        if self._stage is None or not event.topic:
            return event, interest
        return next(
            ((became, interest) for became, _ in self._stage.pass_on([(event, interest)])), None
        )

    def rest(self) -> None:
        """Called when the connection closes and the session stays."""
        self.assigned.clear()
        for group in self.groups:
            group.rest(self)

    def end(self) -> None:
        """Called when the session ends."""
        self.assigned.clear()
        for group in self.groups:
            group.end(self)
        self.shares.clear()
        self._flights.clear()

    def _unassign(self, group: Group) -> None:
        """Return unsent assignments to the group."""
        self.assigned = deque(one for one in self.assigned if one.group is not group)

    def ready(self) -> None:
        """Notify groups of free capacity, if one waits for it: there may be thousands."""
        if self._short:
            self._short = False
            for share, _ in self.shares.values():
                self._group(share).ready()

    # -- flights -----------------------------------------------------------------------------------

    def sent(self, assignment: Assignment, packet_id: int) -> None:
        """Set the flight of an assignment."""
        self._flights[assignment] = packet_id

    def done(self, sent: Sent) -> None:
        """Complete the assignment of a flight, with any reason code (MQTT-4.8.2-6)."""
        assignment, sent.assignment = sent.assignment, None
        if assignment is not None:
            self._flights.pop(assignment, None)
            assignment.group.done(assignment)

    # -- restarts ----------------------------------------------------------------------------------

    def restore(
        self, shares: dict[str, SubscribedFilter], sent: Iterable[tuple[int, str, Sent]]
    ) -> None:
        """Restore stored filters, and flights with their groups."""
        groups: dict[str, Group] = {}
        for text, interest in shares.items():
            asked = share_of(text)
            if asked is not None:
                share = Share(asked.name, interest.topics)
                self.shares[text] = share, interest
                group = self._group(share)
                group.join(self, interest, connected=False)
                groups[filter_of(group)] = group
        for packet_id, text, flight in sent:
            if text in groups:  # otherwise it only completes its flights
                group = groups[text]
                flight.assignment = group.hold(self, flight.seq, flight.qos)
                self._flights[flight.assignment] = packet_id
