"""HTTP requests on keep-alive connections, one under way on each of them."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

from bench.links import Link, Poller, open_tcp
from bench.meter import Meter
from bench.proc import BenchError

HEAD_END = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
SILENCE_SECONDS = 10.0
RECORDS = 1000


def request(method: str, path: str, body: bytes = b"", extra: bytes = b"") -> bytes:
    """Encode a request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode() + extra
    if body:
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    return head + b"\r\n" + body


def response_end(data: bytes) -> int:
    """Return where the first response ends, 0 while it is unfinished; an error status raises."""
    head_end = data.find(HEAD_END)
    if head_end < 0:
        return 0
    head = data[:head_end].lower()
    if not data.startswith(b"HTTP/1.1 2"):
        raise BenchError(f"the server answered {data[:200]!r}")
    start = head_end + len(HEAD_END)
    _, found, rest = head.partition(b"content-length:")
    if found:
        end = start + int(rest.partition(b"\r\n")[0])
    elif b"transfer-encoding: chunked" in head:
        end = data.find(LAST_CHUNK, start) + len(LAST_CHUNK)
        return end if end >= start + len(LAST_CHUNK) else 0
    else:
        end = start
    return end if end <= len(data) else 0


class Requester(Link):
    """One connection with one request under way at a time."""

    def __init__(self, load: "Requests", port: int) -> None:
        super().__init__(load.poller, open_tcp(port))
        self.load = load
        self.size = 0
        self.sent_at = 0.0

    def ask(self) -> None:
        """Send the next request, if there is one."""
        encoded = next(self.load.requests, None)
        if encoded:
            self.sent_at = time.perf_counter()
            self.send(encoded)

    def read(self) -> None:
        size = self.fill()
        buffer = self.poller.buffer
        if size == self.size and buffer.startswith(b"HTTP/1.1 2"):
            self.carry = b""
        else:
            data = bytes(self.poller.view[:size])
            self.size = response_end(data)
            if not self.size:
                self.carry = data
                return
            self.carry = data[self.size :]
        self.load.answered(self)


class Requests:
    """The closed loop of REST: each connection asks again when it is answered."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.poller = Poller()
        self.meter = Meter.of(spec)
        self.count = 0
        self.requests: Iterator[bytes] = iter(())

    def run(self) -> dict[str, float]:
        """Put the records, then ask for the measured time."""
        links = [Requester(self, self.spec["http_port"]) for _ in range(self.spec["connections"])]
        path = self.spec["path"]
        if path != "/":
            self.requests = iter(puts(path, RECORDS))
            self.begin(links)
            while self.count < RECORDS:
                self.turn()
        self.requests = itertools.cycle(self.measured(path))
        self.begin(links)
        self.meter.start()
        while not self.meter.passed(time.perf_counter(), self.count):
            self.turn()
        self.poller.close()
        return self.meter.figures()

    def measured(self, path: str) -> list[bytes]:
        """Return the requests that are measured, in turn."""
        if path == "/":
            return [request("GET", path)]
        if self.spec["method"] == "PUT":
            return puts(path, 2 * RECORDS)
        return [request("GET", f"{path}{number}") for number in range(RECORDS)]

    @staticmethod
    def begin(links: list[Requester]) -> None:
        """Let every connection ask once; answers keep it going."""
        for link in links:
            link.ask()

    def turn(self) -> None:
        """Handle answers; a server that falls silent is an error."""
        if not self.poller.turn(SILENCE_SECONDS):
            raise BenchError("the server stopped answering")

    def answered(self, link: Requester) -> None:
        """Count an answer and ask again."""
        self.count += 1
        self.meter.latencies.append(time.perf_counter() - link.sent_at)
        link.ask()


def puts(path: str, count: int) -> list[bytes]:
    """Return PUTs of all records in turn, values changing."""
    return [request("PUT", f"{path}{n % RECORDS}", record(n)) for n in range(count)]


def record(number: int) -> bytes:
    """Return the JSON body of a record."""
    return b'{"v":%d.25,"t":%d,"p":"abcdefghijklmnop"}' % (number, 1_700_000_000_000 + number)
