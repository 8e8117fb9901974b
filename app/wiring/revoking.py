"""The ending of clients whose certificate was taken back while they were here (FEATURES L4, L8).

Whoever has their key may be somebody else, so their wills are refused when they are due.
"""

import ssl
from dataclasses import replace

from app.broker.broker import Broker
from app.core.callers import NONE
from app.mqtt.reasons import Reason
from app.net.certificates import Certificates

_WORDS = "the certificate was taken back by its authority; connect with another one"


def end_revoked(broker: Broker, certificates: Certificates) -> None:
    """Disconnect every client whose certificate is on a list now."""
    for client in list(broker.clients):
        tls = client.transport.get_extra_info("ssl_object")
        shown = tls.getpeercert(binary_form=True) if isinstance(tls, ssl.SSLObject) else None
        if shown is None or client.closing or not certificates.revocations.has(shown):
            continue
        if client.session is not None and client.session.will_caller is not None:
            client.session.will_caller = replace(client.session.will_caller, grants=NONE)
        end = client.disconnect if client.accepted else client.reject
        end(Reason.NOT_AUTHORIZED, _WORDS)
