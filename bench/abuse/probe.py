"""The client that behaves well: writes at a fixed rate, each timed from when it was due.

A write is a retained PUBLISH of QoS 1 to a declared table, so it waits for the disk; a subscriber
hears of it. Measured are the acknowledgement and the delivery.
"""

import multiprocessing
import select
import time
from dataclasses import dataclass, field

from bench import frames
from bench.links import open_mqtt
from bench.stats import percentile

PER_SECOND = 100
LOST_SECONDS = 30.0
RECEIVE_BYTES_MAX = 1 << 18


@dataclass(slots=True)
class Noticed:
    """What the client noticed, in seconds."""

    writes: list[float] = field(default_factory=list)
    deliveries: list[float] = field(default_factory=list)
    lost: int = 0

    def quantile(self, of: str, q: float) -> float:
        """Return a quantile in milliseconds."""
        found = sorted(getattr(self, of))
        return percentile(found, q) * 1e3 if found else float("nan")


def measure(port: int, seconds: float) -> Noticed:
    """Write for so long, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_measure, args=(port, seconds, results), daemon=True)
    process.start()
    noticed: Noticed = results.get(timeout=seconds + 2 * LOST_SECONDS + 60)
    process.join()
    return noticed


def _measure(port: int, seconds: float, results) -> None:
    results.put(probe(port, seconds))


def probe(port: int, seconds: float) -> Noticed:
    """Write for so long; what is not answered within LOST_SECONDS is lost."""
    name = f"{time.time_ns():x}"
    subscriber = open_mqtt(port, f"probe-sub-{name}", "Probe/#")
    publisher = open_mqtt(port, f"probe-pub-{name}")
    noticed, due_of = Noticed(), {}
    number, carry = 0, {subscriber: b"", publisher: b""}
    begin = due = time.perf_counter()
    end = begin + seconds
    while True:
        now = time.perf_counter()
        while due <= now and due < end:
            number += 1
            due_of[number] = [due, False, False]
            body = b'{"v": %08d}' % (10_000_000 + number)
            publisher.sendall(
                frames.publish(f"Probe/{number % 100}", body, 1, number % 65_535 + 1, retain=True)
            )
            due += 1 / PER_SECOND
        if now >= end and (not due_of or now > end + LOST_SECONDS):
            break
        wait = max(0.0, due - now) if due < end else 0.2
        for sock in select.select([subscriber, publisher], [], [], wait)[0]:
            data = carry[sock] + sock.recv(RECEIVE_BYTES_MAX)
            now = time.perf_counter()
            used = 0
            for start, _, stop in frames.split(data, len(data)):
                used = stop
                _note(noticed, due_of, data[start:stop], now)
            carry[sock] = data[used:]
    noticed.lost = len(due_of)
    subscriber.close()
    publisher.close()
    return noticed


def _note(noticed: Noticed, due_of, frame: bytes, now: float) -> None:
    kind = frame[0] & 0xF0
    if kind == frames.PUBACK:
        number, place, into = int.from_bytes(frame[2:4], "big") - 1, 1, noticed.writes
    elif kind == frames.PUBLISH and not frame[0] & 1:
        number = int(frame[frame.rindex(b"v") + 2 :].strip(b' :}"')) - 10_000_000
        place, into = 2, noticed.deliveries
    else:
        return
    known = due_of.get(number)
    if known is None or known[place]:
        return
    known[place] = True
    into.append(now - known[0])
    if known[1] and known[2]:
        del due_of[number]
