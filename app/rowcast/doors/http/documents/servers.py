"""Servers of the AsyncAPI document: the address of each protocol, as seen by the requester."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from rowcast.doors.http.documents.schemas import Document

SSE: Final = "sse"
WS: Final = "ws"
MQTT: Final = "mqtt"
_OF_HTTP: Final = ("basic", "token", "ticket")
_OF_MQTT: Final = ("password", "scram", "certificate")
Servers = dict[str, tuple[tuple[str, ...], Document]]


def servers_at(scheme: str, host: str, ports: Mapping[str, int]) -> Servers:
    """Return the servers; ``scheme`` and ``host`` are the request's, ``ports`` the open ones.

    Behind a proxy or in a container only the port of the request is known to be reachable.
    """
    try:
        name = urlsplit(f"//{host}").hostname or "localhost"
    except ValueError:  # the header is untrusted
        name = host = "localhost"
    name = f"[{name}]" if ":" in name else name
    at = {word: f"{name}:{port}" for word, port in ports.items()} | {scheme: host}
    found: Servers = {}
    for http, ws in (("http", "ws"), ("https", "wss")):
        if http in at:
            found[http] = (SSE,), _server(at[http], http, "REST and server-sent events.", _OF_HTTP)
            found[ws] = (WS,), _server(at[http], ws, "WebSocket.", _OF_HTTP)
    for word, about in (("mqtt", "MQTT 3.1, 3.1.1 and 5."), ("mqtts", "The same over TLS.")):
        if word in ports:
            protocol = "mqtt" if word == "mqtt" else "secure-mqtt"
            found[word] = (MQTT,), _server(at[word], protocol, about, _OF_MQTT)
    return found


def _server(host: str, protocol: str, about: str, security: tuple[str, ...]) -> Document:
    return {
        "host": host,
        "protocol": protocol,
        "description": about,
        "security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in security],
    }
