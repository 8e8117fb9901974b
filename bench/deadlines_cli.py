"""The command line of ``scripts/bench deadlines``: how late a missed deadline is told.

Many records of a table with a deadline are written, evenly over a time or as fast as the server
takes them, and never again, so that each becomes stale; with a short deadline while others are
still written. A subscriber of `$stale/#` notes when it is told. The delay is from the end of the
deadline, which is in what it is told (``last_seen``, in milliseconds), to the message. All the
server's work for it is inside: the check, the durable write of the stale record, and its delivery.
"""

import argparse
import json
import socket
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench import frames
from bench.links import RECEIVE_BYTES_MAX, open_mqtt
from bench.proc import BenchError, apart
from bench.servers import start_ours
from bench.stats import percentile

SCHEMA = """\
type Sensor @table @export @deadline(after: "{seconds}s") {{ id: ID @primaryKey, v: Float }}
"""
GOAL_SECONDS = 0.100
"""Of the 99th percentile, by M4: deadlines are told within 100 ms for 100,000 records."""
IN_FLIGHT = 1_000
"""Writes that wait for their acknowledgement."""
WRITTEN_AT_ONCE = 20
PATIENCE_SECONDS = 60.0
"""After the last deadline."""


@dataclass(frozen=True, slots=True)
class Told:
    """A stale record that was told."""

    due: float
    """When its deadline ended, in seconds since 1970."""
    at: float
    """When its message came."""


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/bench deadlines", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000, help="records of the table")
    parser.add_argument(
        "--over", type=float, default=50.0, help="seconds in which they are written; 0: at once"
    )
    parser.add_argument("--deadline", type=int, default=60, help="seconds without a write")
    given = parser.parse_args()
    place = apart()
    with tempfile.TemporaryDirectory(prefix="rowcast-deadlines-") as folder:
        schema = SCHEMA.format(seconds=given.deadline)
        server = start_ours("rowcast", Path(folder), place.servers, schema=schema)
        try:
            server.process.wait_ready([server.mqtt_port])
            listener = open_mqtt(server.mqtt_port, "listener", "$stale/#", 0)
            patience = given.deadline + PATIENCE_SECONDS
            with ThreadPoolExecutor(1) as beside:  # some may be due before the last is written
                listening = beside.submit(listen, listener, given.records, patience)
                written = write(server.mqtt_port, given.records, given.over)
                told = listening.result()
        finally:
            server.process.stop()
    print(f"{given.records} records written in {written:.1f} s, deadline {given.deadline} s")
    print(line([item.at - item.due for item in told]))


def write(port: int, count: int, over: float) -> float:
    """Write the records, each acknowledged; return the seconds that it took."""
    sock, start, acknowledged = open_mqtt(port, "writer"), time.monotonic(), 0
    for begin in range(0, count, WRITTEN_AT_ONCE):
        time.sleep(max(0.0, start + over * begin / count - time.monotonic()))
        numbers = range(begin, min(count, begin + WRITTEN_AT_ONCE))
        sock.sendall(b"".join(_write(number) for number in numbers))
        while numbers.stop - acknowledged > IN_FLIGHT:
            acknowledged += _acknowledged(sock)
    while acknowledged < count:
        acknowledged += _acknowledged(sock)
    sock.close()
    return time.monotonic() - start


def _write(number: int) -> bytes:
    return frames.publish(f"Sensor/{number}", b'{"v":1.5}', 1, 1 + number % 65_535, retain=True)


def _acknowledged(sock: socket.socket) -> int:
    """Return how many acknowledgements came; a part of one is read to its end."""
    data = sock.recv(frames.ACK_SIZE * IN_FLIGHT)
    while data and len(data) % frames.ACK_SIZE:
        data += sock.recv(frames.ACK_SIZE - len(data) % frames.ACK_SIZE)
    if not data:
        raise BenchError("the server closed the writer's connection")
    return len(data) // frames.ACK_SIZE


def listen(sock: socket.socket, count: int, patience: float) -> list[Told]:
    """Return when each stale record was told; raise BenchError if one is missing."""
    sock.settimeout(patience)
    rest, told = bytearray(), []
    while len(told) < count:
        try:
            data = sock.recv(RECEIVE_BYTES_MAX)
        except TimeoutError as error:
            raise BenchError(f"{len(told)} of {count} records were told") from error
        if not data:
            raise BenchError("the server closed the listener's connection")
        rest += data
        told += take(rest, time.time())
    return told


def take(data: bytearray, now: float) -> list[Told]:
    """Remove the whole messages from the data; return what they tell."""
    told, used = [], 0
    for start, body, end in frames.split(data, len(data)):
        used = end
        if data[start] & 0xF0 == frames.PUBLISH:
            topic_bytes = int.from_bytes(data[body : body + 2], "big")
            told.append(Told(_due(data[body + 2 + topic_bytes : end]), now))
    del data[:used]
    return told


def _due(payload: bytes | bytearray) -> float:
    facts = json.loads(payload)
    return float(datetime.fromisoformat(facts["last_seen"]).timestamp() + facts["deadline_seconds"])


def line(delays: Sequence[float]) -> str:
    """Return the delays in a line, in milliseconds."""
    ordered = sorted(delays)
    shares = ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "longest"))
    figures = ", ".join(f"{name} {percentile(ordered, at) * 1e3:.1f}" for at, name in shares)
    verdict = "yes" if percentile(ordered, 0.99) <= GOAL_SECONDS else "NO"
    return f"told after its deadline, ms: {figures}; p99 within {GOAL_SECONDS * 1e3:.0f}: {verdict}"


if __name__ == "__main__":
    main()
