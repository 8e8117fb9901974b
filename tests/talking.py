"""Small clients over plain sockets, which can be cut off at any moment, for tests of the program.

That real clients understand the server is shown in `tests/interop`; these here are for counting.
"""

import base64
import json
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Self
from urllib.parse import quote

from websockets.sync.client import ClientConnection, connect

from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import (
    MQTT_5,
    Connack,
    Connect,
    Packet,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from rowcast.mqtt.violations import Violation
from serving import PATIENCE_SECONDS, Server

RECEIVE_BYTES = 65_536
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes close() send RST and forget what was not sent."""


class Closed(Exception):  # noqa: N818 - as sockets say it
    """The server closed the connection."""


def open_socket(port: int) -> socket.socket:
    """Return a connected socket that never waits longer than PATIENCE_SECONDS."""
    connected = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def cut(connected: socket.socket) -> None:
    """Close without a goodbye: the peer gets RST."""
    with suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connected.close()


def user_properties(packet: object) -> dict[str, str]:
    """Return the user properties of a packet."""
    return dict((getattr(packet, "properties", None) or {}).get("user_property", ()))


class Mqtt:
    """An MQTT client that is connected from the start and acknowledges what it takes."""

    def __init__(
        self,
        port: int,
        version: int = MQTT_5,
        client_id: str = "",
        properties: dict[str, object] | None = None,
        **who: object,
    ) -> None:
        self.version = version
        self.socket = open_socket(port)
        method = "authentication_method" in (properties or {})
        self._connection = Connection("client", version=version, authentication=method)
        self._packets: deque[Packet | Violation] = deque()
        self._messages: deque[Publish] = deque()
        self._packet_id = 0
        self.connack: Connack | None = None
        """The answer; with an Authentication Method, that is the caller's to receive."""
        try:
            self.send(Connect(version, client_id, properties=properties, **who))
            if not method:
                self.connack = self._answer(Connack)
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def cut(self) -> None:
        """Close without DISCONNECT."""
        cut(self.socket)

    def send(self, packet: Packet) -> None:
        """Send a packet."""
        self.socket.sendall(encode(packet, self.version))

    def receive(self) -> Packet:
        """Return the next packet; raises Closed at the end."""
        while not self._packets:
            try:
                data = self.socket.recv(RECEIVE_BYTES)
            except ConnectionError as error:
                raise Closed from error
            if not data:
                raise Closed
            self._packets.extend(self._connection.receive(data))
        packet = self._packets.popleft()
        if isinstance(packet, Violation):
            raise packet
        return packet

    def ready(self) -> bool:
        """Whether ``receive`` would not wait."""
        readable = select.poll()  # ``select`` takes no descriptor beyond 1023
        readable.register(self.socket, select.POLLIN)
        return bool(self._packets) or bool(readable.poll(0))

    def _answer(self, kind: type) -> Packet:
        while not isinstance(packet := self.receive(), kind):
            if isinstance(packet, Publish):
                self._take(packet)
        return packet

    def _take(self, packet: Publish) -> None:
        if packet.qos:
            self.send(Puback(packet.packet_id))
        self._messages.append(packet)

    def next_id(self) -> int:
        """Return a packet identifier."""
        self._packet_id = self._packet_id % 65_535 + 1
        return self._packet_id

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 1,
        *,
        retain: bool = True,
        properties: dict[str, object] | None = None,
    ) -> Puback | None:
        """Publish, and return the acknowledgement."""
        packet_id = self.next_id() if qos else 0
        self.send(Publish(topic, payload, qos, retain, False, packet_id, properties))
        return self._answer(Puback) if qos else None

    def subscribe(
        self, topics: str, qos: int = 1, properties: dict[str, object] | None = None, **options: int
    ) -> Suback:
        """Subscribe, and return the answer."""
        wanted = (Subscription(topics, qos, **options),)
        self.send(Subscribe(self.next_id(), wanted, properties))
        return self._answer(Suback)

    def unsubscribe(self, topics: str) -> Unsuback:
        """Unsubscribe, and return the answer."""
        self.send(Unsubscribe(self.next_id(), (topics,)))
        return self._answer(Unsuback)

    def message(self) -> Publish:
        """Return the next message, acknowledged."""
        while not self._messages:
            packet = self.receive()
            if isinstance(packet, Publish):
                self._take(packet)
        return self._messages.popleft()


@dataclass(frozen=True)
class Told:
    """What a stream told: the event, its text, and the id of a Server-Sent Event."""

    fields: dict[str, object]
    text: str = ""
    id: str = ""

    @property
    def kind(self) -> object:
        """What happened."""
        return self.fields["kind"]

    @property
    def value(self) -> object:
        """The value at the topic."""
        return self.fields.get("value")


class Events:
    """A stream of Server-Sent Events."""

    def __init__(self, server: Server, path: str, since: str = "", **headers: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_SECONDS)
        given = {"Accept": "text/event-stream"} | headers
        if since:
            given["Last-Event-ID"] = since
        self._connection.request("GET", path, headers=given)
        self.socket = self._connection.sock
        self.response: HTTPResponse = self._connection.getresponse()
        self.status = self.response.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self._connection.close()

    def __iter__(self) -> Iterator[Told]:
        """Give the events until the server ends the stream."""
        event_id, data = "", []
        while line := self.response.readline():
            text = line.decode().rstrip("\r\n")
            name, _, value = text.partition(":")
            if name == "id":
                event_id = value.removeprefix(" ")
            elif name == "data":
                data.append(value.removeprefix(" "))
            elif not text and data:
                whole = "\n".join(data)
                yield Told(json.loads(whole), whole, event_id)
                data = []

    def next(self) -> Told:
        """Return the next event."""
        return next(iter(self))

    def until_current(self) -> list[Told]:
        """Return the records as they are."""
        told = []
        while (event := self.next()).kind != "current":
            told.append(event)
        return told


def open_websocket(server: Server, path: str, **options: object) -> ClientConnection:
    """Return a WebSocket that compresses nothing and takes any size."""
    return connect(
        f"ws://127.0.0.1:{server.http_port}{path}",
        compression=None,
        max_size=None,
        open_timeout=PATIENCE_SECONDS,
        proxy=None,
        **options,
    )


def told(websocket: ClientConnection) -> Told:
    """Return the next event of a WebSocket."""
    text = websocket.recv(PATIENCE_SECONDS)
    return Told(json.loads(text), text)


def query(**fields: str | Sequence[str]) -> str:
    """Return the query of a URL."""
    return "?" + "&".join(f"{name}={quote(str(value), safe='')}" for name, value in fields.items())


def upgrade(path: str, subprotocol: str = "") -> bytes:
    """Return the request that opens a WebSocket."""
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Version: 13"]
    lines += [f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}"]
    lines += [f"Sec-WebSocket-Protocol: {subprotocol}"] if subprotocol else []
    return "\r\n".join([*lines, "", ""]).encode()


def wipe(server: Server) -> None:
    """Delete every record of a server."""
    with Mqtt(server.mqtt_port) as client:
        client.subscribe("#", properties={"user_property": (("seq", ""),)})
        topics = []
        while not (message := client.message()).topic.startswith("$snapshot/end"):
            topics.append(message.topic)
        for topic in topics:
            client.publish(topic, b"")
