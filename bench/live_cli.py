"""Measures what live queries cost: a write beside 10,000 of them, a poller, a scan of all queries.

Figures are CPU seconds of the server for each write; phases take turns within one server, so that
other load of the machine meets all of them.
"""

import argparse
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench import frames
from bench.links import open_mqtt, receive_exactly
from bench.proc import Placement, cpu_seconds
from bench.servers import start
from rowcast.core.conditions import holds
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Attribute, Table, Type

TABLE = Table(
    "Sensor",
    "Sensor",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("v", Type.FLOAT),
        Attribute("t", Type.LONG),
        Attribute("p", Type.STRING),
    ),
)
PUBACK_SIZE = 4
SUBACK = 0x90
IN_FLIGHT = 32
QUIET_SECONDS = 0.5
QUIET_CPU_SECONDS = 0.02
SUBSCRIBED_AT_ONCE = 100
MATCHING = "v=lt=1000"
WINDOW = "&sort(-v)&limit(10)"
FORMS: tuple[Callable[[int], str], ...] = (
    lambda n: f"v=gt={1_000 + n}",
    lambda n: f"t=={1_000 + n}",
    lambda n: f"p==x{n}&v=lt=1000",
    lambda n: f"v=ge={1_000 + n}&v=lt={1_001 + n}",
)


def conditions(number: int) -> str:
    """Return the conditions of a query that no write of the benchmark matches."""
    return FORMS[number % len(FORMS)](number)


@contextmanager
def queries(port: int, texts: list[str]) -> Iterator[None]:
    """Keep live queries for a while, and read what they are sent."""
    sock = open_mqtt(port, f"reads-{time.time_ns()}")
    for begin in range(0, len(texts), SUBSCRIBED_AT_ONCE):
        some = [f"$query/Sensor/{text}" for text in texts[begin : begin + SUBSCRIBED_AT_ONCE]]
        sock.sendall(frames.subscribe_all(some, 0))
        seen = bytearray()
        while not any(seen[at] == SUBACK for at, _, _ in frames.split(seen, len(seen))):
            seen += sock.recv(65_536)
    reading = threading.Thread(target=_drain, args=(sock,))
    reading.start()
    try:
        yield
    finally:
        sock.sendall(frames.disconnect())
        reading.join()
        sock.close()


def _drain(sock: socket.socket) -> None:
    """Read until the server closes."""
    sock.settimeout(None)
    while sock.recv(65_536):
        pass


def write(sock: socket.socket, count: int) -> None:
    """Write retained records, some in flight at a time."""
    for begin in range(0, count, IN_FLIGHT):
        some = range(begin, min(begin + IN_FLIGHT, count))
        sock.sendall(
            b"".join(
                frames.publish(
                    f"Sensor/{number % 100}",
                    b'{"v":%d.5,"t":%d,"p":"y"}' % (number % 90, -number),
                    1,
                    number % IN_FLIGHT + 1,
                    retain=True,
                )
                for number in some
            )
        )
        receive_exactly(sock, PUBACK_SIZE * len(some))


def phase(port: int, pid: int, texts: list[str], writes: int) -> float:
    """Return microseconds of CPU for a write beside some queries."""
    with queries(port, texts) if texts else _nothing():
        sock = open_mqtt(port, f"writes-{time.time_ns()}")
        _quiet(pid)  # the current records of each query are read first
        write(sock, writes // 4)  # what is cached is cached now
        before = cpu_seconds(pid)
        write(sock, writes)
        taken = cpu_seconds(pid) - before
        sock.sendall(frames.disconnect())
        sock.close()
    return taken / writes * 1e6


def _quiet(pid: int) -> None:
    """Wait until a server has nothing to do."""
    before, now = 0.0, cpu_seconds(pid)
    while now - before > QUIET_CPU_SECONDS:
        time.sleep(QUIET_SECONDS)
        before, now = now, cpu_seconds(pid)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def poll(http_port: int, pid: int, count: int) -> float:
    """Return microseconds of CPU for one poll of a query that selects a hundred records."""
    request = f"GET /Sensor/?{MATCHING} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", http_port)) as sock:
        before = cpu_seconds(pid)
        for _ in range(count):
            sock.sendall(request)
            head = b""
            while b"\r\n\r\n" not in head:
                head += sock.recv(65_536)
            said, _, body = head.partition(b"\r\n\r\n")
            size = next(
                int(line.partition(b":")[2])
                for line in said.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            if len(body) < size:
                receive_exactly(sock, size - len(body))
        return (cpu_seconds(pid) - before) / count * 1e6


def scan(count: int) -> float:
    """Return microseconds of CPU to compare one record with each of the queries."""
    wheres = [parse_query(conditions(number), TABLE).where for number in range(count)]
    value = {"id": "1", "v": 70.5, "t": -7, "p": "y"}
    rounds = 5
    before = time.process_time()
    for _ in range(rounds):
        for where in wheres:
            holds(where, value, "1")
    return (time.process_time() - before) / rounds * 1e6


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="scripts/bench live", description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000, help="of one client, at most 10,000")
    parser.add_argument("--writes", type=int, default=2_000, help="of each phase and round")
    parser.add_argument("--rounds", type=int, default=5, help="in which the phases take turns")
    options = parser.parse_args()
    os.environ["ROWCAST_LIVE_QUERIES__MAX_PER_USER"] = "100000"
    others = [conditions(number) for number in range(options.queries)]
    phases = {
        "no live query": [],
        "1 that matches none": others[:1],
        f"{options.queries:,} that match none": others,
        f"{options.queries:,}, 1 of which matches": [*others[1:], MATCHING],
        f"{options.queries:,}, 10 of which match": [
            *others[10:],
            *(f"v=lt={1_000 + n}" for n in range(10)),
        ],
        f"{options.queries:,} windows that match none": [text + WINDOW for text in others],
        f"{options.queries:,} windows, 10 of which match": [
            *(text + WINDOW for text in others[10:]),
            *(f"v=lt={1_000 + n}{WINDOW}" for n in range(10)),
        ],
    }
    found: dict[str, list[float]] = {name: [] for name in phases}
    with tempfile.TemporaryDirectory(prefix="rowcast-live-") as folder:
        server = start("rowcast", Path(folder) / "ours", Placement().servers, "route")
        pid = server.process.pid
        try:
            for _ in range(options.rounds):
                for name, texts in phases.items():
                    found[name].append(phase(server.mqtt_port, pid, texts, options.writes))
            polled = poll(server.http_port, pid, 500)
        finally:
            server.process.stop()
    base = median(found["no live query"])
    print("| a write beside | CPU us | times |\n| --- | --- | --- |")
    for name, figures in found.items():
        print(f"| {name} | {median(figures):.1f} | {median(figures) / base:.2f} |")
    every = f"a comparison with each of {options.queries:,} queries, alone"
    print(f"| {every} | {scan(options.queries):,.0f} | |")
    print(f"| one poll of one query over REST (100 records) | {polled:,.0f} | |")


if __name__ == "__main__":
    main()
