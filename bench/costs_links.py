"""The two clients of a feature whose cost is measured: one writes in bursts, one reads."""

import json
import socket
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Protocol, cast

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from bench.costs import PASSWORD, Had
from bench.links import RECEIVE_BYTES_MAX, open_tcp
from bench.proc import BenchError
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import (
    Connack,
    Connect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
)

PATIENCE_SECONDS = 30.0
MINE, DONE = (Publish,), (Puback, Pubcomp)


class Wire(Protocol):
    """What MQTT is spoken over."""

    def sendall(self, data: bytes, /) -> None:
        """Send all of it."""

    def recv(self, size: int, /) -> bytes:
        """Return what comes next."""


class SocketWire:
    """A WebSocket as a wire."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def sendall(self, data: bytes) -> None:
        self._connection.send(data)

    def recv(self, _size: int) -> bytes:
        return cast("bytes", self._connection.recv(PATIENCE_SECONDS))


class Place:
    """Where a server is, and who may come in."""

    def __init__(self, http_port: int, mqtt_port: int, tls_port: int, authority: Path) -> None:
        self.http_port = http_port
        self.mqtt_port = mqtt_port
        self.tls_port = tls_port
        self.authority = authority

    def wire(self, transport: str, closing: ExitStack) -> Wire:
        """Return a new connection."""
        if transport == "websocket":
            url, spoken = f"ws://127.0.0.1:{self.http_port}/mqtt", [Subprotocol("mqtt")]
            return SocketWire(
                closing.enter_context(connect(url, subprotocols=spoken, compression=None))
            )
        plain = open_tcp(self.tls_port if transport == "tls" else self.mqtt_port)
        if transport != "tls":
            return closing.enter_context(plain)
        context = ssl.create_default_context(cafile=self.authority)
        return closing.enter_context(context.wrap_socket(plain, server_hostname="localhost"))


class Mqtt:
    """A client that acknowledges what it takes."""

    def __init__(self, wire: Wire, client_id: str, had: Had) -> None:
        self._wire = wire
        self._version = had.version
        self._decoder = Connection("client", version=had.version)
        self._packet_id = 0
        lasting = had.lasting and client_id.startswith("reader")
        properties = {"session_expiry_interval": 3600} if lasting else None
        who: dict[str, Any] = {"clean_start": not lasting}
        if had.user:
            who |= {"username": had.user, "password": PASSWORD.encode()}
        self._send([Connect(had.version, client_id, properties=properties, **who)])
        self.take(1, (Connack,))

    def subscribe(self, topics: str, qos: int, properties: dict[str, Any] | None) -> None:
        """Subscribe."""
        self._send([Subscribe(1, (Subscription(topics, qos),), properties)])
        self.take(1, (Suback,))

    def publish(self, topics: Sequence[str], payload: bytes, had: Had) -> None:
        """Write a message to each of the topics, together."""
        self._send([self._message(topic, payload, had) for topic in topics])

    def _message(self, topic: str, payload: bytes, had: Had) -> Publish:
        self._packet_id = self._packet_id % 65_535 + 1
        packet_id = self._packet_id if had.qos else 0
        return Publish(topic, payload, had.qos, had.retain, False, packet_id, None)

    def take(self, count: int, kinds: tuple[type, ...] = MINE) -> None:
        """Return when so many packets of these kinds have come."""
        while count > 0:
            data = self._wire.recv(RECEIVE_BYTES_MAX)
            if not data:
                raise BenchError("the server closed a connection")
            packets = self._decoder.receive(data)
            for packet in packets:
                refused = getattr(packet, "reason", None) or max(getattr(packet, "reasons", [0]))
                if isinstance(packet, Exception) or int(refused) >= 0x80:
                    raise BenchError(f"the server said {packet!r}")
            count -= sum(isinstance(packet, kinds) for packet in packets)
            self._send([answer for item in packets if (answer := _answer(item)) is not None])

    def _send(self, packets: Sequence[Packet]) -> None:
        if packets:
            self._wire.sendall(b"".join(encode(packet, self._version) for packet in packets))


def _answer(packet: object) -> Packet | None:
    """Return what is to be said to a packet."""
    if isinstance(packet, Publish) and packet.qos:
        return (Puback if packet.qos == 1 else Pubrec)(packet.packet_id)
    if isinstance(packet, Pubrec):
        return Pubrel(packet.packet_id)
    return Pubcomp(packet.packet_id) if isinstance(packet, Pubrel) else None


class Reader(Protocol):
    """Who reads."""

    def take(self, count: int, /) -> None:
        """Return when so many messages have come."""


class Stream:
    """A reader at SSE."""

    def __init__(self, place: Place, topics: str, closing: ExitStack) -> None:
        connection = HTTPConnection("127.0.0.1", place.http_port, timeout=PATIENCE_SECONDS)
        closing.callback(connection.close)
        connection.request("GET", f"/{topics}/", headers={"Accept": "text/event-stream"})
        self._answer = connection.getresponse()
        self.take(1)  # the mark after the current records

    def take(self, count: int) -> None:
        while count:
            line = self._answer.readline()
            if not line:
                raise BenchError("the server closed a stream")
            count -= line.startswith(b"data:")


class Socket:
    """A reader at a WebSocket."""

    def __init__(self, place: Place, topics: str, closing: ExitStack) -> None:
        url = f"ws://127.0.0.1:{place.http_port}/{topics}/"
        self._connection = closing.enter_context(connect(url, compression=None))
        self.take(1)

    def take(self, count: int) -> None:
        for _ in range(count):
            json.loads(self._connection.recv(PATIENCE_SECONDS))


def open_reader(place: Place, name: str, had: Had, topics: str, closing: ExitStack) -> Reader:
    """Return a reader of all below a topic."""
    if had.door == "sse":
        return Stream(place, topics, closing)
    if had.door != "mqtt":
        return Socket(place, topics, closing)
    client = Mqtt(place.wire(had.transport, closing), f"reader-{name}", had)
    wanted = f"$share/group/{topics}/#" if had.share else f"{topics}/#"
    properties = {"user_property": (("accept", had.accept),)} if had.accept else None
    client.subscribe(wanted, had.qos, properties)
    return client


def open_writer(place: Place, name: str, had: Had, closing: ExitStack) -> Mqtt:
    """Return a writer."""
    writes = replace(had, user=had.writer or had.user)
    return Mqtt(place.wire(had.transport, closing), f"writer-{name}", writes)


def raise_socket_timeouts() -> None:
    """Let nothing wait for ever."""
    socket.setdefaulttimeout(PATIENCE_SECONDS)
