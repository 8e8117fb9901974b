"""SSE and WebSocket fan-out: many readers of one record, a few writers that feed it by PUT.

A closed loop by window, as in flow: at most `window` PUTs are answered and not yet delivered to
every reader. Events are counted by a mark in the payload, so framing and ids may differ.
"""

import socket
import time
from typing import Any

from bench.httpload import HEAD_END, request, response_end
from bench.links import Link, Poller, open_tcp
from bench.meter import Meter
from bench.proc import BenchError

MARK = b"zq9qz9zq"
BODY = b'{"v":21.5,"t":1700000000000,"p":"' + MARK + b'abcdefghijkl"}'
FEEDERS = 8
TURN_SECONDS = 0.1
QUIET_SECONDS = 0.4
SILENCE_SECONDS = 10.0
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
PROTOCOLS = {
    "sse": (b"Accept: text/event-stream\r\n", b"HTTP/1.1 200"),
    "ws": (UPGRADE, b"HTTP/1.1 101"),
}


class Reader(Link):
    """Counts the marks it receives."""

    def __init__(self, load: "Streams", sock: socket.socket) -> None:
        super().__init__(load.poller, sock)
        self.load = load

    def read(self) -> None:
        size = self.fill()
        self.load.delivered += self.poller.buffer.count(MARK, 0, size)
        self.keep(max(0, size - len(MARK) + 1), size)


class Feeder(Link):
    """Puts the record when the window lets it."""

    def __init__(self, load: "Streams", port: int) -> None:
        super().__init__(load.poller, open_tcp(port))
        self.load = load

    def put(self) -> None:
        """Send one PUT."""
        self.load.published += 1
        self.send(self.load.request)

    def read(self) -> None:
        data = bytes(self.poller.view[: self.fill()])
        end = response_end(data)
        self.carry = data[end:] if end else data
        if end:
            self.load.free.append(self)


class Streams:
    """Readers, feeders and the window between them."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.poller = Poller()
        self.meter = Meter.of(spec)
        self.request = request("PUT", spec["path"], BODY)
        self.published = self.delivered = 0
        self.free: list[Feeder] = []

    def run(self) -> dict[str, float]:
        """Open the readers, let what they get at first pass, and feed for the measured time."""
        for number in range(self.spec["readers"]):
            Reader(self, self.open_reader(number))
        while self.poller.turn(QUIET_SECONDS):
            pass
        self.delivered = 0
        self.free = [self.open_feeder() for _ in range(FEEDERS)]
        self.meter.start()
        last = time.perf_counter()
        while not self.meter.passed(now := time.perf_counter(), self.delivered):
            self.feed()
            if self.poller.turn(TURN_SECONDS):
                last = now
            elif now - last > SILENCE_SECONDS:
                raise BenchError("the stream fell silent")
        self.drain()
        self.poller.close()
        wanted = self.published * self.spec["readers"]
        lost = wanted - self.delivered
        return {**self.meter.figures(), "lost": lost, "lost_share": lost / max(1, wanted)}

    def open_reader(self, number: int) -> socket.socket:  # noqa: ARG002 - all are alike
        """Return the connection of a reader, by its number."""
        return open_stream(self.spec)

    def open_feeder(self) -> Feeder:
        """Return a connection that feeds."""
        return Feeder(self, self.spec["http_port"])

    def feed(self) -> None:
        """Fill the window."""
        while (
            self.free
            and self.published - self.delivered // self.spec["readers"] < self.spec["window"]
        ):
            self.free.pop().put()

    def drain(self) -> None:
        """Wait for what is on its way."""
        wanted = self.published * self.spec["readers"]
        while self.delivered < wanted and self.poller.turn(QUIET_SECONDS):
            pass


def open_stream(spec: dict[str, Any]) -> socket.socket:
    """Return a socket whose response head has been read."""
    headers, status = PROTOCOLS[spec["protocol"]]
    sock = open_tcp(spec["http_port"])
    sock.sendall(request("GET", spec["path"], extra=headers))
    data = b""
    while HEAD_END not in data:
        more = sock.recv(4096)
        data += more
        if not more or not data.startswith(status[: len(data)]):
            raise BenchError(f"the server refused a stream: {data[:200]!r}")
    return sock
