"""What hooks are asked at this edge: who may come in, and with which filters; and their reasons.

The kernel asks the hooks about everything that is written, watched and read; here is only what no
other door has: connections that begin with a packet, sessions that go on, and reasons of MQTT 5.
"""

from typing import TYPE_CHECKING

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.features.hooks.hook import Refusal
from rowcast.mqtt.packets import Connect
from rowcast.mqtt.reasons import REASONS, PacketType, Reason
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

if TYPE_CHECKING:
    from rowcast.doors.mqtt.broker import Broker
    from rowcast.doors.mqtt.client import Client
    from rowcast.doors.mqtt.sessions.session import Session

_NOT_BELIEVED = frozenset({Code.UNAUTHENTICATED, Code.DENIED})
_NOT_NOW = frozenset({Code.BUSY})


def reason_of(error: Error, packet: PacketType, usual: Reason) -> Reason:
    """Return a hook's reason code, if valid for the packet; else the usual one."""
    if isinstance(error, Refusal) and error.reason >= Reason.UNSPECIFIED_ERROR:
        return REASONS[packet].get(error.reason, usual)
    return usual


async def ask_connect(client: "Client", packet: Connect, caller: Caller) -> None:
    """Call hooks to admit a client; raises the refusal (G2)."""
    hooks = client.broker.kernel.hooks
    try:
        await hooks.connect(caller, packet)
    except Error as error:
        if error.code in _NOT_BELIEVED:
            hooks.auth_failed(caller, error.message)
        raise


async def ask_subscriptions(client: "Client", session: "Session", caller: Caller) -> None:
    """Call hooks to check the filters of a resumed session.

    Changes by hooks were applied when the filters were new.
    """
    broker, hooks = client.broker, client.broker.kernel.hooks
    if not hooks.subscribing:
        return
    for interest in list(session.filters):
        allowed = await _is_allowed(broker, interest, caller)
        if session.client is not client:  # taken over: the other connection does it
            return
        if not allowed:
            session.filters.remove(interest)
            broker.forget_filter(session, interest)
            hooks.unsubscribed(caller, interest.topics.text)
    sharing = session.sharing
    for text, (_, interest) in list(sharing.shares.items()) if sharing is not None else ():
        allowed = await _is_allowed(broker, interest, caller)
        if session.client is not client:
            return
        if sharing is not None and not allowed:
            broker.forget_share(sharing, text)


async def _is_allowed(broker: "Broker", interest: SubscribedFilter, caller: Caller) -> bool:
    asked = SubscribedFilter(interest.topics, interest.qos)
    asked.take(interest)
    try:
        await broker.kernel.hooks.subscribe_waiting(caller, asked)
    except Error as error:
        return error.code in _NOT_NOW  # overload must not remove a filter for good
    return True
