"""Disconnects clients whose certificate was revoked while they were connected (L4, L8).

Their key may be stolen, so their wills are refused.
"""

import asyncio
from dataclasses import replace

from rowcast.core.callers import NONE
from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.client import Client
from rowcast.mqtt.reasons import Reason
from rowcast.net.certificates import Certificates
from rowcast.net.relay import certificate_der

_WORDS = "the certificate was taken back by its authority; connect with another one"


async def end_revoked(broker: Broker, certificates: Certificates) -> None:
    """Disconnect every client whose certificate is on a revocation list now."""
    shown: dict[Client, bytes] = {}
    for client in broker.clients:
        data = certificate_der(client.transport)
        if data is not None:
            shown[client] = data
    known = certificates.revocations
    gone = await asyncio.to_thread(lambda: [who for who, data in shown.items() if known.has(data)])
    for client in gone:
        if client.closing:
            continue
        if client.session is not None and client.session.will_caller is not None:
            client.session.will_caller = replace(client.session.will_caller, grants=NONE)
        end = client.disconnect if client.accepted else client.reject
        end(Reason.NOT_AUTHORIZED, _WORDS)
