"""Latency of acknowledgements, for features (O7).

The last message of each write to a client is timed: acknowledgements are in order (MQTT-4.6.0-2),
so none of the others takes longer. Timings end with the connection. With several writes in flight,
only the first ones are timed, for the same reason. It costs a third of a microsecond for each write
and its acknowledgement.
"""

from rowcast.core.events import Event
from rowcast.core.slow_limits import SLOW_TIMED_MAX
from rowcast.doors.mqtt.delivery.outgoing import Outgoing
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.features.shared_subscriptions.assignments import Assignment
from rowcast.subscriptions.delivery import GroupMember, Sent
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


def begin_timing(
    client: Outgoing,
    packet_id: int,
    event: Event,
    interest: SubscribedFilter | None,
    *,
    again: bool = False,
) -> None:
    """Start the timing of a message; ``again``: another client got it before.

    QoS 0 is not acknowledged.
    """
    deliveries = client.deliveries
    if not deliveries.kernel.reader.acknowledged:
        return
    if interest is None or not (event.qos and interest.qos):
        return
    timed = client.timed
    if timed is None:
        timed = client.timed = {}
    if len(timed) < SLOW_TIMED_MAX:
        timed[packet_id] = Sent(event, interest, deliveries.now(), again)


def begin_timing_assignment(
    client: Outgoing,
    session: Session,
    assignment: Assignment,
    event: Event,
    interest: SubscribedFilter,
    packet_id: int = 0,
) -> None:
    """Start the timing of a message assigned by a group."""
    caller, subscription = client.caller, session.subscription
    if subscription is None or caller is None:
        return
    if not assignment.sent_before:  # otherwise other members delayed it
        for feature in client.deliveries.kernel.reader.delivered:
            feature.delivered(GroupMember(caller, subscription.joined), ((event, interest),))
    if packet_id:
        begin_timing(client, packet_id, event, interest, again=assignment.sent_before)


def end_timing(client: Outgoing, session: Session, packet_id: int) -> None:
    """Stop the timing of an acknowledged message."""
    sent = client.timed.pop(packet_id, None) if client.timed else None
    if sent is None or client.caller is None or session.subscription is None:
        return
    for feature in client.deliveries.kernel.reader.acknowledged:
        feature.acknowledged(client.caller, session.subscription.joined, sent)
