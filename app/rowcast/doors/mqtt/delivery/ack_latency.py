"""Timing: how long clients take to acknowledge, for the list of slow subscriptions (O7).

Of all that goes to a client in one write the last message is timed: acknowledgements come in the
order of what they are for (MQTT-4.6.0-2), so none of the others takes longer. What is timed ends
with its connection. While a client has several open, only the first of them are timed, for the same
reason. It costs a third of a microsecond for each write and its acknowledgement.
"""

from typing import TYPE_CHECKING

from rowcast.core.clock import PER_SECOND
from rowcast.core.events import Event
from rowcast.core.slow_limits import SLOW_TIMED_MAX
from rowcast.kernel.watch.subscribed_filters import Interest

if TYPE_CHECKING:
    from rowcast.doors.mqtt.client import Client
    from rowcast.doors.mqtt.sessions.session import Session
    from rowcast.features.shared_subscriptions.assignments import Deal

Timed = tuple[Event, Interest, float]
"""A message on its way to a client, for which interest, and from when it counts, as a version."""


def begin(
    client: "Client",
    packet_id: int,
    event: Event,
    interest: Interest | None,
    *,
    tried: bool = False,
) -> None:
    """Note that a message is sent now; ``tried``: others had it before, so its arrival is nothing.

    QoS 0 is not acknowledged.
    """
    slow = client.broker.slow
    if slow is None or interest is None or not (event.qos and interest.qos):
        return
    timed = client.timed
    if timed is None:
        timed = client.timed = {}
    if len(timed) < SLOW_TIMED_MAX:
        whole = slow.whole and not tried
        begun = event.version if whole and event.version else slow.now() * PER_SECOND
        timed[packet_id] = event, interest, begun


def dealt(
    client: "Client",
    session: "Session",
    deal: "Deal",
    event: Event,
    interest: Interest,
    packet_id: int = 0,
) -> None:
    """Note when a message that a group dealt is sent."""
    slow, caller = client.broker.engine.reader.slow, client.caller
    subscription = session.subscription
    if slow is None or subscription is None or caller is None:
        return
    if slow.times_writes and not deal.tried:  # else it is others who let it wait
        slow.handed(caller, event, interest, deal.qos, subscription.joined)
    if packet_id:
        begin(client, packet_id, event, interest, tried=deal.tried)


def hold(session: "Session") -> None:
    """Note that a client can be sent nothing now."""
    if session.subscription is not None:
        session.subscription.hold()


def end(client: "Client", session: "Session", packet_id: int) -> None:
    """Note that a message is acknowledged."""
    timed = client.timed.pop(packet_id, None) if client.timed else None
    slow = client.broker.slow
    if timed is None or slow is None or slow.now() * PER_SECOND - timed[2] < slow.limit:
        return
    if client.caller is not None and session.subscription is not None:
        slow.answered(client.caller, session.subscription.joined, *timed)
