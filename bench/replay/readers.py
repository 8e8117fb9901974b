"""Readers of one server by each door, on one loop, that note what they hear and when.

A time is taken when a socket has something, before anything is parsed. So what a reader notes of
the present and of the past has the same error, and what one door costs is not in the times of
another but for the turns of this loop.
"""

import json
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from bench.links import open_tcp, receive_exactly
from bench.proc import BenchError
from bench.streams import UPGRADE
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_5, Connect, Packet, Publish, Subscribe, Subscription
from rowcast.mqtt.violations import Violation
from rowcast_client.events import Frames

RECEIVE_BYTES = 65_536
EVENTS = frozenset({"put", "patch", "delete", "message"})
END = "end"
LONG, LONGER = 126, 127
"""Of a WebSocket's frame: its length is in the next 2 bytes, or 8 (RFC 6455, 5.2)."""
TEXT = 0x81
HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Heard:
    """What a reader was told, and when by this process's clock."""

    what: tuple[str, ...]
    """Kind, topic, payload and cursor."""
    seconds: float


class Reader:
    """One reader; ``kind`` of ``heard`` says whether it is an event or the end of a replay."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.heard: list[Heard] = []
        self.start = ""
        """The cursor at which it began."""
        self.over = False
        self.times: dict[str, float] = {}
        """The times that the events have themselves, in seconds since 1970, by cursor."""

    def take(self, seconds: float) -> None:
        """Note what the socket has."""
        data = self.sock.recv(RECEIVE_BYTES)
        if not data:
            self.over = True
            return
        for kind, topic, payload, cursor in self.told(data):
            if kind == END:
                self.over = True
            elif kind == "current":
                self.start = cursor
            elif kind in EVENTS:
                self.heard.append(Heard((kind, topic, payload, cursor), seconds))

    def told(self, data: bytes) -> Iterator[tuple[str, str, str, str]]:
        """Yield what some bytes tell."""
        raise NotImplementedError


class Envelopes(Reader):
    """A reader whose events are JSON."""

    def envelope(self, text: str) -> tuple[str, str, str, str]:
        """Return what an envelope tells."""
        fields = json.loads(text)
        if "error" in fields:
            raise BenchError(f"the server refused: {fields['error']}")
        kind, topic, cursor = (str(fields.get(name) or "") for name in ("kind", "topic", "cursor"))
        self.times[cursor] = (fields.get("version") or 0) / 1e6
        return kind, topic, json.dumps(fields.get("value"), sort_keys=True), cursor


class Sse(Envelopes):
    """An EventSource."""

    def __init__(self, sock: socket.socket, path: str) -> None:
        super().__init__(sock)
        self._frames, self._rest = Frames(), b""
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
        sock.sendall(request.encode())
        head = _head(sock)
        if not head.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"the server refused {path}: {head.decode()}")

    def told(self, data: bytes) -> Iterator[tuple[str, str, str, str]]:
        """Yield the events of whole chunks (RFC 9112, 7.1)."""
        self._rest += data
        while True:
            size, found, rest = self._rest.partition(b"\r\n")
            length = int(size, 16) if found else 0
            if not found or len(rest) < length + 2:
                return
            chunk, self._rest = rest[:length], rest[length + 2 :]
            for frame in self._frames.feed(chunk):
                yield self.envelope(frame.data)
            if not length:
                self.over = True
                return


class Ws(Envelopes):
    """A WebSocket with one command."""

    def __init__(self, sock: socket.socket, command: dict[str, object]) -> None:
        super().__init__(sock)
        self._rest = b""
        sock.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + UPGRADE + b"\r\n")
        if not _head(sock).startswith(b"HTTP/1.1 101"):
            raise BenchError("the server refused a WebSocket")
        text = json.dumps({"id": 1} | command).encode()
        size = bytes((0x80 | LONG,)) + len(text).to_bytes(2, "big")
        sock.sendall(bytes((TEXT,)) + size + bytes(4) + text)  # masked with zeros

    def told(self, data: bytes) -> Iterator[tuple[str, str, str, str]]:
        """Yield the events of whole frames, which are texts."""
        self._rest += data
        while (found := _frame(self._rest)) is not None:
            text, self._rest = found
            if text:
                yield self.envelope(text.decode())


class Mqtt(Reader):
    """A client of MQTT 5."""

    def __init__(self, sock: socket.socket, name: str, prefix: str, topics: str) -> None:
        super().__init__(sock)
        self._prefix = prefix
        self._connection = Connection("client", version=MQTT_5)
        asked: dict[str, object] = {"user_property": (("seq", "true"),)}
        wanted = (Subscription(f"{prefix}{topics}", 0),)
        packets: Sequence[Packet] = (Connect(MQTT_5, name), Subscribe(1, wanted, asked))
        sock.sendall(b"".join(encode(packet, MQTT_5) for packet in packets))

    def told(self, data: bytes) -> Iterator[tuple[str, str, str, str]]:
        """Yield the messages."""
        for packet in self._connection.receive(data):
            if isinstance(packet, Violation):
                raise packet
            if not isinstance(packet, Publish):
                continue
            topic = packet.topic.removeprefix(self._prefix)
            users = dict((packet.properties or {}).get("user_property", ()))
            kind = users.get("op") or ("snapshot" if packet.retain else "put")
            if topic == "$end":
                kind = END
            elif topic.startswith("$"):
                kind = ""
            yield kind, topic, packet.payload.decode(), users.get("seq", "")


class Lines(Reader):
    """What ``bench/replay/timer.py`` sends: the number of each event when it is due."""

    def __init__(self, sock: socket.socket, recorded: Sequence[Heard]) -> None:
        super().__init__(sock)
        self._recorded, self._rest = recorded, b""

    def told(self, data: bytes) -> Iterator[tuple[str, str, str, str]]:
        """Yield the recorded events that are due."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield self._recorded[int(line)].what


def live_sse(ports: tuple[int, int], topics: str) -> Reader:
    """Return a reader of the present."""
    return Sse(open_tcp(ports[0]), f"/?topic={quote(topics, safe='')}")


def live_ws(ports: tuple[int, int], topics: str) -> Reader:
    """Return a reader of the present."""
    return Ws(open_tcp(ports[0]), {"op": "subscribe", "topic": topics})


def live_mqtt(ports: tuple[int, int], topics: str) -> Reader:
    """Return a reader of the present."""
    return Mqtt(open_tcp(ports[1]), "live", "", topics)


def past_sse(ports: tuple[int, int], topics: str, start: str, speed: int) -> Reader:
    """Return a reader of the past."""
    path = f"/?topic={quote(topics, safe='')}&from={start}&speed={speed}"
    return Sse(open_tcp(ports[0]), path)


def past_ws(ports: tuple[int, int], topics: str, start: str, speed: int) -> Reader:
    """Return a reader of the past."""
    asked = {"op": "replay", "topic": topics, "from": start, "speed": speed}
    return Ws(open_tcp(ports[0]), asked)


def past_mqtt(ports: tuple[int, int], topics: str, start: str, speed: int) -> Reader:
    """Return a reader of the past."""
    return Mqtt(open_tcp(ports[1]), "past", f"$replay/{start},,{speed}/", topics)


LIVE: dict[str, Callable[[tuple[int, int], str], Reader]] = {
    "SSE": live_sse,
    "WebSocket": live_ws,
    "MQTT": live_mqtt,
}
PAST: dict[str, Callable[[tuple[int, int], str, str, int], Reader]] = {
    "SSE": past_sse,
    "WebSocket": past_ws,
    "MQTT": past_mqtt,
}
"""Ways to read, by door; ports are those of HTTP and MQTT."""


def listen(
    readers: Sequence[Reader],
    done: Callable[[], bool],
    patience_seconds: float,
    turn: Callable[[], float] | None = None,
) -> None:
    """Let readers note what they hear until it is done; raises BenchError after a silence.

    ``turn`` does what is due besides, and returns in how many seconds there is more.
    """
    last = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader.sock, selectors.EVENT_READ, reader)
        while not done():
            ready = selector.select(min(patience_seconds, turn() if turn else patience_seconds))
            now = time.perf_counter()
            for key, _ in ready:
                key.data.take(now)
                if key.data.over:
                    selector.unregister(key.fileobj)
            last = now if ready else last
            if now - last > patience_seconds:
                raise BenchError(f"nothing came for {patience_seconds:.0f} s")


def _head(sock: socket.socket) -> bytes:
    head = b""
    while not head.endswith(HEAD_END):
        head += receive_exactly(sock, 1)
    return head


def _frame(data: bytes) -> tuple[bytes, bytes] | None:
    """Return the first frame's text, and the rest; None if it is not whole."""
    if len(data) < 2:
        return None
    length, at = data[1], 2
    if length >= LONG:
        at = 4 if length == LONG else 10
        if len(data) < at:
            return None
        length = int.from_bytes(data[2:at], "big")
    if len(data) < at + length:
        return None
    return (data[at : at + length] if data[0] == TEXT else b""), data[at + length :]
