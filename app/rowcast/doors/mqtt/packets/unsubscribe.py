"""UNSUBSCRIBE: remove interests of the client's subscription, or leave shared groups.

A filter is spelt as it was subscribed to: rewriting and hooks are applied to it as in SUBSCRIBE.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.fairness_limits import MQTT_SUBSCRIBE_TURN_FILTERS
from rowcast.core.topics import TopicFilter
from rowcast.doors.mqtt.packets.filter_syntax import check_formed
from rowcast.doors.mqtt.packets.share_filters import share_of
from rowcast.doors.mqtt.packets.subscribe import bare, interest_of, rewritten
from rowcast.mqtt.packets import MQTT_5, Unsuback, Unsubscribe
from rowcast.mqtt.reasons import Reason
from rowcast.subscriptions.subscription import Subscription as LiveCursor

if TYPE_CHECKING:
    from rowcast.doors.mqtt.client import Client

log = logging.getLogger("rowcast.mqtt")


def on_unsubscribe(client: "Client", packet: Unsubscribe) -> None:
    """Remove interests; UNSUBACK states whether each existed (MQTT-3.10.4-1, MQTT-3.11.3-1)."""
    session, caller = client.session, client.caller
    if session is None or caller is None:  # the table of legal packets refuses it
        return
    if client.connection.version != MQTT_5:
        check_formed(packet.filters)
    if len(packet.filters) > MQTT_SUBSCRIBE_TURN_FILTERS:
        client.awaits_store = True
        task = _unsubscribe_many(client, caller, packet)
        session.asking = asyncio.get_running_loop().create_task(task)
        return
    reasons = [_unsubscribe(client, caller, text) for text in packet.filters]
    client.send_saved(Unsuback(packet.packet_id, tuple(reasons)))


async def _unsubscribe_many(client: "Client", caller: Caller, packet: Unsubscribe) -> None:
    """Remove interests in several turns of the loop; packets received meanwhile are buffered."""
    reasons: list[Reason] = []
    session = client.session
    try:
        async for text in client.broker.kernel.turns.each(packet.filters):
            if session is None or client.session is not session:
                return
            reasons.append(_unsubscribe(client, caller, text))
        client.send_saved(Unsuback(packet.packet_id, tuple(reasons)))
    except Exception:
        log.exception("an UNSUBSCRIBE of %s failed", client.name)
        client.disconnect(Reason.UNSPECIFIED_ERROR, "the server failed; its log has the reason")
    client.opened()


def _unsubscribe(client: "Client", caller: Caller, text: str) -> Reason:
    reason = _remove(client, caller, text)
    if reason is Reason.SUCCESS:
        client.broker.kernel.listeners.notify("unsubscribed", caller, filter=text)
    return reason


def _remove(client: "Client", caller: Caller, text: str) -> Reason:
    written = bare(text)
    try:
        text = rewritten(client, caller, text)
        share = share_of(text)
        topics = share.topics if share else TopicFilter(bare(text))
    except Error:
        return Reason.TOPIC_FILTER_INVALID
    session = client.session
    if session is None:
        return Reason.NO_SUBSCRIPTION_EXISTED
    if share is not None:
        sharing = session.sharing
        known_share = sharing is not None and client.broker.forget_share(sharing, text)
        return Reason.SUCCESS if known_share else Reason.NO_SUBSCRIPTION_EXISTED
    known = interest_of(session, topics)
    if known is None and session.subscription is not None:  # perhaps renamed by a hook
        renamed = session.subscription.interests.asked_as
        known = next(iter((*renamed(written), *renamed(topics.text))), None)
    if known is None:
        return Reason.NO_SUBSCRIPTION_EXISTED
    client.broker.kernel.unwatch(cast("LiveCursor", session.subscription), known.topics)
    client.broker.forget_filter(session, known)
    return Reason.SUCCESS
