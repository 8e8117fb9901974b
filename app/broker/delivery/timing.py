"""Timing: how long clients take to acknowledge, for the list of slow subscriptions (O7).

Of all that goes to a client in one write the last message is timed: acknowledgements come in the
order of what they are for (MQTT-4.6.0-2), so none of the others takes longer. What is timed ends
with its connection. A client that has very many open is timed for the first of them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.core.events import Event
from app.core.slow_limits import SLOW_TIMED_MAX
from app.engine.watch.interests import Interest, Pair

if TYPE_CHECKING:
    from app.broker.client import Client
    from app.broker.sessions.session import Session
    from app.engine.groups.deals import Deal

Timed = tuple[str, Interest, int, float]
"""A message on its way to a client: topic, interest, QoS, and from when it counts."""


def begin_last(client: "Client", session: "Session", pairs: Sequence[Pair], sent: int) -> None:
    """Note when the last message of QoS 1 or 2 of a write is sent; ``sent`` is how many were."""
    slow, subscription = client.broker.engine.reader.slow, session.subscription
    if slow is None or not slow.times_answers or subscription is None or sent < len(pairs):
        return  # where some were not sent, nobody knows which was the last: few writes are such
    for event, interest in reversed(pairs):
        qos = min(event.qos, interest.qos) if interest is not None else 0
        if qos and interest is not None:
            since = slow.begin_of(event, subscription.joined)
            _begin(client, session.window.latest, (event.topic, interest, qos, since))
            return


def dealt(
    client: "Client",
    session: "Session",
    deal: "Deal",
    event: Event,
    interest: Interest,
    packet_id: int = 0,
) -> None:
    """Note when a message that a group dealt is sent.

    One that others had before counts from now: how long they had it is nothing to this one.
    """
    slow, caller = client.broker.engine.reader.slow, client.caller
    subscription = session.subscription
    if slow is None or subscription is None or caller is None:
        return
    joined = subscription.joined
    if slow.times_writes and not deal.tried:
        slow.handed(caller, event, interest, deal.qos, joined)
    if slow.times_answers and packet_id:
        since = slow.now() if deal.tried else slow.begin_of(event, joined)
        _begin(client, packet_id, (event.topic, interest, deal.qos, since))


def hold(session: "Session") -> None:
    """Note that a client can be sent nothing now."""
    if session.subscription is not None:
        session.subscription.hold()


def end(client: "Client", packet_id: int) -> None:
    """Note that a message is acknowledged."""
    timed = client.timed.pop(packet_id, None) if client.timed else None
    slow, caller = client.broker.engine.reader.slow, client.caller
    if timed is not None and slow is not None and caller is not None:
        slow.answered(caller, *timed)


def _begin(client: "Client", packet_id: int, message: Timed) -> None:
    timed = client.timed
    if timed is None:
        timed = client.timed = {}
    if len(timed) < SLOW_TIMED_MAX:
        timed[packet_id] = message
