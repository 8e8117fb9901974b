"""Reauthorises connected clients when users, roles or rules have changed (L8).

Clients no longer authorised are disconnected with the reason; sessions of removed users are ended,
connected or not. Later writes use the current rights. A will is a write, and is refused when due if
its client may no longer write.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from rowcast.core.callers import NONE
from rowcast.core.errors import Code, Error
from rowcast.kernel.reauthorization import renew
from rowcast.mqtt.reasons import Reason

if TYPE_CHECKING:
    from rowcast.doors.mqtt.broker import Broker
    from rowcast.doors.mqtt.client import Client


def judge(broker: "Broker") -> None:
    """Reauthorise every client, and every offline session."""
    for client in list(broker.clients):
        if client.accepted and not client.closing:
            _judge(client)
    for session in list(broker.sessions):
        if broker.kernel.reauthorization.removed(session.user):
            if session.will_caller is not None:
                session.will_caller = replace(session.will_caller, grants=NONE)
            message = f"the user {session.user!r} was removed"
            broker.expel(session, Reason.NOT_AUTHORIZED, message)


def _judge(client: "Client") -> None:
    kernel, session, caller = client.broker.kernel, client.session, client.caller
    if session is None or caller is None:
        return
    try:
        current = kernel.reauthorization.current(caller)
        kernel.reauthorization.expect(current)
        client.caller = session.will_caller = current
    except Error as error:
        session.will_caller = replace(caller, grants=NONE)
        over = error.code is Code.UNAUTHENTICATED
        client.disconnect(
            Reason.NOT_AUTHORIZED if over else Reason.ADMINISTRATIVE_ACTION, error.message
        )
        return
    try:
        if session.subscription is not None:
            renew(kernel, session.subscription, current)
        if session.sharing is not None:
            for share, _ in session.sharing.shares.values():
                kernel.authorise_watch(share.topics, current)
            session.sharing.serve()
    except Error as error:  # the filter is left out when the client returns
        client.disconnect(Reason.NOT_AUTHORIZED, error.message)
