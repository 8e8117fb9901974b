"""The command line of ``scripts/bench replay``: a replay beside the clients that recorded what was.

A live reader on each door notes what it hears of random writes, and when. Then the same part of the
log is replayed to a reader on each door, at each speed. The lists must be equal. The spacing error
of an event is how much longer or shorter the pause before it was than the recorded one, divided by
the speed; the drift is how much later or sooner it came after the first event than it should have.
The live readers were late at times, too, so their own pauses are told beside those of the times
that the events have, and the replays' likewise ("own"). A timer alone, a program that does nothing
else, keeps the recorded times beside them: its errors are the machine's.
"""

import argparse
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import frames
from bench.links import open_mqtt, receive_exactly
from bench.proc import BenchError, Placement
from bench.replay.readers import LIVE, PAST, Heard, Lines, Reader, listen
from bench.servers import ROOT, start
from bench.stats import percentile

TOPICS = "Sensor/#"
RECORDS = 20
PAUSE_SECONDS_MAX = 0.06
"""Pauses between writes: at random up to this, and every fifth is none."""
PATIENCE_SECONDS = 30.0
GOAL_SECONDS = 0.020
"""Of the 99th percentile of spacing errors at the speed at which it was."""
ACK_BYTES = 4
TIMER = "a timer alone"
PRESENT = 0
"""The speed of what is not replayed."""


@dataclass(frozen=True, slots=True)
class Found:
    """One replay beside its recording."""

    door: str
    speed: int
    events: int
    equal: bool
    spacing: list[float]
    """Errors in seconds, in order of size."""
    drift: list[float]
    own: list[float]
    """Errors of spacing beside the times that the events have."""


def spacing(recorded: Sequence[float], replayed: Sequence[float], speed: float) -> list[float]:
    """Return how much the pauses differ from the recorded ones at a speed, the least first."""
    pauses = [
        (b - a, d - c)
        for a, b, c, d in zip(recorded, recorded[1:], replayed, replayed[1:], strict=False)
    ]
    return sorted(abs(now - then / speed) for then, now in pauses)


def drift(recorded: Sequence[float], replayed: Sequence[float], speed: float) -> list[float]:
    """Return how far each event is from its place after the first one, the least first."""
    return sorted(
        abs((now - replayed[0]) - (then - recorded[0]) / speed)
        for then, now in zip(recorded, replayed, strict=False)
    )


def compare(
    door: str,
    speed: int,
    live: Sequence[Heard],
    past: Sequence[Heard],
    times: Mapping[str, float],
) -> Found:
    """Compare a replay with its recording; ``times`` are those of the events, by cursor."""
    then, now = [item.seconds for item in live], [item.seconds for item in past]
    equal = [item.what for item in live] == [item.what for item in past]
    own = [times.get(item.what[-1], 0.0) for item in past]
    return Found(
        door,
        speed,
        len(past),
        equal,
        spacing(then, now, speed or 1),
        drift(then, now, speed or 1),
        spacing(own, now, speed or 1),
    )


def beside(live: Mapping[str, Reader], past: Mapping[str, Reader], speed: int) -> list[Found]:
    """Compare each door's replay with its recording, and the timer's with that of SSE."""
    recorded = {door: reader.heard for door, reader in live.items()} | {TIMER: live["SSE"].heard}
    times = live["SSE"].times
    return [compare(door, speed, recorded[door], past[door].heard, times) for door in past]


class Writer:
    """Writes and deletes records at random, at random times."""

    def __init__(self, port: int, count: int, seed: int) -> None:
        self.sock = open_mqtt(port, "writer")
        self._chance = random.Random(seed)
        self._count = count
        self._due = time.perf_counter()
        self._there: set[str] = set()
        self.written = 0

    def turn(self) -> float:
        """Write what is due; return in how many seconds there is more."""
        chance = self._chance
        while self.written < self._count and self._due <= time.perf_counter():
            name = f"Sensor/{chance.randrange(RECORDS)}"
            deletes = name in self._there and chance.random() < 0.2
            value = {"v": round(chance.uniform(0, 100), 3), "t": self.written, "p": "x" * 40}
            payload = b"" if deletes else json.dumps(value).encode()
            (self._there.discard if deletes else self._there.add)(name)
            self.sock.sendall(frames.publish(name, payload, 1, 1, retain=True))
            receive_exactly(self.sock, ACK_BYTES)
            self.written += 1
            if chance.randrange(5):
                self._due += chance.uniform(0, PAUSE_SECONDS_MAX)
        if self.written >= self._count:
            return PATIENCE_SECONDS
        return max(0.0, self._due - time.perf_counter())


def record(ports: tuple[int, int], count: int, seed: int) -> tuple[str, dict[str, Reader]]:
    """Return the cursor before some writes, and the readers that heard them."""
    readers = {door: begin(ports, TOPICS) for door, begin in LIVE.items()}
    every = list(readers.values())
    listen(every, lambda: bool(readers["SSE"].start), PATIENCE_SECONDS)
    time.sleep(0.5)  # the others have subscribed by now
    writer = Writer(ports[1], count, seed)

    def done() -> bool:
        return all(len(reader.heard) >= count for reader in every)

    listen(every, done, PATIENCE_SECONDS, writer.turn)
    for sock in (writer.sock, *(reader.sock for reader in every)):
        sock.close()
    return readers["SSE"].start, readers


def replay(
    ports: tuple[int, int], begin: str, speed: int, recorded: Sequence[Heard]
) -> dict[str, Reader]:
    """Return readers that heard the same part of the log again, and those of a timer."""
    with timer(recorded, speed) as alone:
        readers = {door: ask(ports, TOPICS, begin, speed) for door, ask in PAST.items()}
        readers[TIMER] = alone
        alone.sock.sendall(b"\n")
        listen(
            list(readers.values()),
            lambda: all(reader.over for reader in readers.values()),
            PATIENCE_SECONDS,
        )
    for reader in readers.values():
        reader.sock.close()
    return readers


@contextmanager
def timer(recorded: Sequence[Heard], speed: int) -> Iterator[Reader]:
    """Return a reader of a program that keeps the times of a recording."""
    places = [(item.seconds - recorded[0].seconds) / speed for item in recorded]
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-m", "bench.replay.timer", str(server.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, text=True) as child:
            if child.stdin is not None:
                child.stdin.write(json.dumps(places))
                child.stdin.close()
            server.settimeout(PATIENCE_SECONDS)
            yield Lines(server.accept()[0], recorded)
            child.terminate()


def measure(folder: Path, count: int, speeds: Sequence[int], seed: int) -> list[Found]:
    """Record, and replay at each speed."""
    server = start("rowcast", folder / "ours", Placement().servers, "route")
    ports = server.http_port, server.mqtt_port
    try:
        begin, live = record(ports, count, seed)
        first, times = live["SSE"], live["SSE"].times
        found = [
            compare(f"{door}, live", PRESENT, first.heard, live[door].heard, times)
            for door in ("SSE", "WebSocket")
        ]
        for speed in speeds:
            past = replay(ports, begin, speed, live["SSE"].heard)
            found += beside(live, past, speed)
        return found
    finally:
        server.process.stop()


def lines(found: Sequence[Found]) -> list[str]:
    """Return a table."""
    head = "| door | speed | events | lists | spacing ms: p50 | p99 | max "
    told = [f"{head}| drift ms: p99 | max | own ms: p99 |", f"|{' --- |' * 10}"]
    for one in found:
        figures = [
            percentile(one.spacing, 0.5),
            percentile(one.spacing, 0.99),
            one.spacing[-1] if one.spacing else 0.0,
            percentile(one.drift, 0.99),
            one.drift[-1] if one.drift else 0.0,
            percentile(one.own, 0.99),
        ]
        cells = " | ".join(f"{seconds * 1e3:.2f}" for seconds in figures)
        equal = "equal" if one.equal else "NOT EQUAL"
        speed = f"{one.speed}x" if one.speed else ""
        told.append(f"| {one.door} | {speed} | {one.events:,} | {equal} | {cells} |")
    return told


def verdict(found: Sequence[Found]) -> str:
    """Return which of the goals is missed; empty for none."""
    if not all(one.equal for one in found):
        return "what was replayed is not what was recorded"
    ours = [one for one in found if one.speed == 1 and one.door != TIMER]
    slow = any(percentile(one.spacing, 0.99) > GOAL_SECONDS for one in ours)
    return f"the spacing at 1x is off by more than {GOAL_SECONDS * 1e3:.0f} ms" if slow else ""


def main() -> None:
    """Measure, print a table, and end with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="scripts/bench replay", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000, help="writes that are recorded")
    parser.add_argument("--speed", type=int, action="append", help="1 and 10, if none is given")
    parser.add_argument("--seed", type=int, default=1, help="of the writes and their times")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowcast-replay-") as folder:
        try:
            found = measure(Path(folder), options.events, options.speed or [1, 10], options.seed)
        except BenchError as error:
            sys.exit(f"{parser.prog}: {error}")
    print("\n".join(lines(found)))
    missed = verdict(found)
    if missed:
        sys.exit(f"{parser.prog}: {missed}")


if __name__ == "__main__":
    main()
