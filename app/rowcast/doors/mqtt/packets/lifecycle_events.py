"""What hooks are told and asked at this edge: who came and went, sessions that ended, reasons.

The kernel asks the hooks about everything that is written, watched and read; here is only what no
other door has: connections that begin with a packet, sessions, and the reasons of MQTT 5.
"""

from typing import TYPE_CHECKING

from rowcast.core.callers import NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.doors.mqtt.delivery.delivery_format import DOOR
from rowcast.doors.mqtt.sessions.rows import tell
from rowcast.doors.mqtt.sessions.subscription_rows import tell_subscription
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
    """Return the reason that a hook chose, where the packet may carry it; else the usual one."""
    if isinstance(error, Refusal) and error.reason >= Reason.UNSPECIFIED_ERROR:
        return REASONS[packet].get(error.reason, usual)
    return usual


def came(client: "Client") -> None:
    """Tell of a new connection: nobody knows yet who it is (G17)."""
    caller = Caller("anonymous", NONE, DOOR, peer=client.peer)
    client.broker.kernel.hooks.connection(caller)


async def ask(client: "Client", packet: Connect, caller: Caller) -> None:
    """Ask whether a client may come in; raises the refusal (G2)."""
    hooks = client.broker.kernel.hooks
    try:
        await hooks.connect(caller, packet)
    except Error as error:
        if error.code in _NOT_BELIEVED:
            hooks.auth_failed(caller, error.message)
        raise


def entered(client: "Client", caller: Caller, *, present: bool) -> None:
    """Tell that a client was let in, and what became of its session (G3, G9)."""
    hooks = client.broker.kernel.hooks
    client.broker.entered.add(client)
    client.broker.observer.on_connect(caller.client_id)
    if client.session is not None:
        if not present:
            tell(client.broker, client.session, "registered")
        tell(client.broker, client.session, "connected")
    (hooks.session_resumed if present else hooks.session_created)(caller)
    hooks.connected(caller)


def refused(client: "Client", packet: Connect, reason: Reason, message: str) -> None:
    """Tell that a client was not let in (O6)."""
    refused_at(client.broker, client.peer, packet, reason, message)


def refused_at(broker: "Broker", peer: str, packet: Connect, reason: Reason, message: str) -> None:
    """Tell that a connection from a peer was refused."""
    user = packet.username or "anonymous"
    caller = Caller(user, NONE, DOOR, packet.client_id, peer)
    broker.kernel.listeners.tell("refused", caller, reason=message, code=int(reason))


def taken_over(old: "Client", new: "Client") -> None:
    """Tell that another connection takes the session of a client."""
    if old.caller is not None:
        old.broker.kernel.listeners.tell("taken_over", old.caller, by=new.peer)


def left(client: "Client") -> None:
    """Tell once that a client that was let in is gone, and why."""
    broker = client.broker
    if client in broker.entered and client.caller is not None:
        broker.entered.discard(client)
        broker.observer.on_disconnect(client.caller.client_id)
        broker.kernel.hooks.disconnected(client.caller, client.trouble or None)


async def ask_again(client: "Client", session: "Session", caller: Caller) -> None:
    """Ask hooks whether the filters of a session that goes on are still allowed.

    What they would change about them they have changed when they were new.
    """
    broker, hooks = client.broker, client.broker.kernel.hooks
    if not hooks.subscribing:
        return
    for interest in list(session.filters):
        allowed = await _is_allowed(broker, interest, caller)
        if session.client is not client:  # taken over: another connection asks
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
        return error.code in _NOT_NOW  # too much at once is no reason to lose a filter for good
    return True


def restored(broker: "Broker", session: "Session") -> None:
    """Tell of the subscriptions of a session of an earlier run."""
    for text in _filters(session):
        broker.observer.on_subscribe(session.client_id, text)


def _filters(session: "Session") -> list[str]:
    """Return the filters of a session; shared ones as they were asked for."""
    shares = session.sharing.shares if session.sharing is not None else ()
    return [*(interest.topics.text for interest in session.interests), *shares]


def ended(broker: "Broker", session: "Session") -> None:
    """Tell that a session is over, and with it its subscriptions (G9, G18, X5)."""
    hooks = broker.kernel.hooks
    caller = Caller(session.user, NONE, DOOR, session.client_id)
    for interest in session.interests:
        hooks.unsubscribed(caller, interest.topics.text)
    if session.sharing is not None:
        for share, _ in session.sharing.shares.values():
            hooks.unsubscribed(caller, share.topics.text)
    if session.left_at is not None:  # else its connection ends with it, and tells of that
        hooks.listeners.tell(
            "session_ended", caller, away_seconds=round(broker.now() - session.left_at)
        )
    hooks.session_ended(session.client_id)
    for text in _filters(session):
        broker.observer.on_unsubscribe(session.client_id, text)
        tell_subscription(broker, session.client_id, text)
    broker.observer.changed()
    tell(broker, session, "ended")
