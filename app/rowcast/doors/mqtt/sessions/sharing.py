"""Shared subscriptions at this edge: a session as a member of groups (MQTT 5, 4.8.2).

What a group deals waits in ``given`` until the end of the turn, when it is sent. Who is dealt what,
and what becomes of what is not completed, the group decides; here is only how much there is room
for, and which flight a deal is.
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
        "_stage",
        "_touch",
        "given",
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
        self._stage: Stage | None = None
        """What hooks have to say of what it is given."""
        self.shares: dict[str, tuple[Share, SubscribedFilter]] = {}
        """By the whole text of the filter."""
        self.given: deque[Assignment] = deque()
        """What was dealt and is not sent yet."""
        self._flights: dict[Assignment, int] = {}
        """The packet identifiers of what is in flight and not completed for its group."""

    # -- the group's side --------------------------------------------------------------------------

    @property
    def durable(self) -> bool:
        """Whether the session outlives its connection."""
        return self.session.durable

    def room(self) -> int:
        """Return how many more messages may be sent now."""
        session = self.session
        client = session.client
        if client is None or client.stopped or len(client.later) >= self._flush_events:
            return 0
        if session.resend:  # what was sent before goes first (MQTT-4.6.0-1)
            return 0
        room = session.window.receive_maximum - len(session.window) - len(self.given)
        if room <= 0:
            client.blocked = True  # an acknowledgement calls again
        return min(room, self._flush_events - len(self.given))

    def takes(self, event: Event) -> bool:
        """Tell whether its client may read an event (G6)."""
        visibility, client = self._kernel.visibility, self.session.client
        if not event.topic or not visibility.filtered or client is None or client.caller is None:
            return True
        return visibility.takes(client.caller, event)

    def give(self, deal: Assignment) -> None:
        """Take a message; it is sent at the end of this turn."""
        self.given.append(deal)
        client = self.session.client
        if client is not None:
            client.ready()

    def withdraw(self, deal: Assignment) -> None:
        """Forget a flight of an earlier connection: another member was sent its message."""
        packet_id = self._flights.pop(deal, None)
        if packet_id is not None:
            self.session.window.acknowledge(packet_id)
            if self.session.kept:
                self.session.changed.add(packet_id)
                self._touch(self.session)

    # -- the client's side -------------------------------------------------------------------------

    @property
    def groups(self) -> set[Group]:
        """The groups that it is in, or still completes messages for."""
        groups = {deal.group for deal in self._flights}
        for share, _ in self.shares.values():
            groups.add(self._group(share))
        return groups

    def _group(self, share: Share) -> Group:
        return self.table.group(share.name, share.topics)

    def subscribe(
        self, text: str, share: Share, interest: SubscribedFilter, since: str | int | None = None
    ) -> None:
        """Take part in a group, or change the options. A new group begins at ``since``."""
        known, _ = self.shares.get(text, (share, None))
        if known != share:  # a hook gave the same filter another meaning
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
        lost = why_lost(cursor, kernel.reader.epoch, kernel.committer.stored)
        return None if lost else cursor.seq

    def unsubscribe(self, text: str) -> SubscribedFilter | None:
        """Leave a group; return how its messages were wanted, None if it was in no such group."""
        share, interest = self.shares.pop(text, (None, None))
        if share is not None:
            group = self._group(share)
            self._ungive(group)
            group.leave(self)
        return interest

    def connect(self) -> None:
        """See the session's client again."""
        self.serve()
        for share, interest in self.shares.values():
            self._group(share).join(self, interest)

    def serve(self) -> None:
        """Note what hooks have to say of what this client is given."""
        client = self.session.client
        if client is not None and client.caller is not None:
            self._stage = self._kernel.stage(client.caller)

    def let(self, deal: Assignment) -> tuple[Event, SubscribedFilter] | None:
        """Return what is sent of a deal, and how it is wanted; None if hooks let nothing through.

        (G8).
        """
        event, interest = deal.event, deal.interest
        if event is None or interest is None:  # what is dealt has both
            return None
        if self._stage is None or not event.topic:
            return event, interest
        return next(
            ((became, interest) for became, _ in self._stage.pass_on([(event, interest)])), None
        )

    def rest(self) -> None:
        """See its connection end; the session lasts."""
        self.given.clear()
        for group in self.groups:
            group.rest(self)

    def end(self) -> None:
        """See the session end."""
        self.given.clear()
        for group in self.groups:
            group.end(self)
        self.shares.clear()
        self._flights.clear()

    def _ungive(self, group: Group) -> None:
        """Give back what was not sent."""
        self.given = deque(deal for deal in self.given if deal.group is not group)

    def ready(self) -> None:
        """Hear that there may be room again."""
        for share, _ in self.shares.values():
            self._group(share).ready()

    # -- flights -----------------------------------------------------------------------------------

    def sent(self, deal: Assignment, packet_id: int) -> None:
        """Note which flight a deal is."""
        self._flights[deal] = packet_id

    def done(self, sent: Sent) -> None:
        """Complete what a flight was dealt for, with whatever reason (MQTT-4.8.2-6)."""
        deal, sent.deal = sent.deal, None
        if deal is not None:
            self._flights.pop(deal, None)
            deal.group.done(deal)

    # -- restarts ----------------------------------------------------------------------------------

    def restore(
        self, shares: dict[str, SubscribedFilter], sent: Iterable[tuple[int, str, Sent]]
    ) -> None:
        """Put back what an earlier run left: filters, and flights with the group of each."""
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
            if text in groups:  # else it completes what it has, and nobody asks for it
                group = groups[text]
                flight.deal = group.hold(self, flight.seq, flight.qos)
                self._flights[flight.deal] = packet_id
