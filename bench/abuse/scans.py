"""Queries that look at every row and whose clients leave, beside a reader that uses an index."""

import threading
import time
from contextlib import suppress

from bench.abuse.talk import connected, drop, many, request
from bench.abuse.victim import Target
from bench.stats import percentile

ROWS = 100_000
"""Enough that a look at each of them, at an attribute that is not declared, takes over a second."""
BATCH = 5_000
SCANS = 12
STAY_SECONDS = 2.0
"""For how long a client waits for its scan."""
READS_PER_SECOND = 20
ANSWER_SECONDS_MAX = 30.0
JSON = "application/json"


def scans(target: Target, until: float) -> str:
    """Twelve scans whose clients leave, again and again."""
    for start in range(0, ROWS, BATCH):
        rows = [
            b'{"id":"%d","n":%d,"text":"some text"}' % (n, n) for n in range(start, start + BATCH)
        ]
        _answer(target, request("PUT", "/Indexed/", b"[" + b",".join(rows) + b"]", JSON))
    alone = Honest(target, time.time() + 3)
    alone.join()
    end = max(until, time.time() + 15)
    honest, rounds = Honest(target, end), 0
    scan = request("GET", "/Indexed/?nosuch=ct=x&limit(5)", b"", JSON)
    while time.time() < end:
        peers = many(SCANS, lambda _: connected(target.http_port, scan))
        time.sleep(STAY_SECONDS)
        for sock in peers:
            drop(sock)
        rounds += 1
    honest.join()
    return (
        f"{rounds * SCANS} scans of {ROWS} rows; reads by index alone {alone.told()},"
        f" beside them {honest.told()}"
    )


def _answer(target: Target, said: bytes) -> bytes:
    """Return the status of an answer; empty when there is none."""
    sock = connected(target.http_port)
    sock.setblocking(True)
    sock.settimeout(ANSWER_SECONDS_MAX)
    with suppress(OSError), sock:
        sock.sendall(said)
        return sock.recv(65_536)[9:12]
    return b""


class Honest(threading.Thread):
    """A reader that asks by index at a fixed rate, as the server's readiness is asked."""

    def __init__(self, target: Target, until: float) -> None:
        super().__init__(daemon=True)
        self._target = target
        self._until = until
        self._seconds: list[float] = []
        self._failed = self._unready = 0
        self.start()

    def run(self) -> None:
        """Ask until the time is over."""
        number = 0
        while time.time() < self._until:
            number += 1
            begun = time.perf_counter()
            read = request("GET", f"/Indexed/?n={number * 97 % ROWS}&limit(5)", b"", JSON)
            self._failed += _answer(self._target, read) != b"200"
            self._seconds.append(time.perf_counter() - begun)
            ready = request("GET", "/health/ready", b"", JSON)
            self._unready += _answer(self._target, ready) != b"200"
            time.sleep(max(0.0, 1 / READS_PER_SECOND - (time.perf_counter() - begun)))

    def told(self) -> str:
        """Return what it noticed."""
        found = sorted(self._seconds)
        half, late = (percentile(found, q) * 1e3 for q in (0.5, 0.99))
        return (
            f"p50 {half:.1f} p99 {late:.1f} max {found[-1] * 1e3:.1f} ms of {len(found)},"
            f" {self._failed} failed, {self._unready} times not ready"
        )
