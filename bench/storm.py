"""A reconnect storm: all clients connect at the same moment, after the server was gone for them.

With ``durable`` each of them comes back to a session with one subscription that waits for it. The
time to CONNACK counts from the call of connect, so it holds the kernel's queue of connections too.
"""

import time
from typing import Any

from bench.crowd import Crowd, Newcomer, Visitor
from bench.proc import BenchError, cpu_seconds, rss_bytes
from bench.stats import percentile

SETTLE_SECONDS = 0.7
"""Above what a server may wait before it writes down what happened."""


class Survivor(Visitor):
    """A client of the storm: how long it waited is noted."""

    def __init__(self, storm: "Storm", client_id: str) -> None:
        super().__init__(storm.crowd, client_id, clean=not storm.durable)
        self.storm = storm

    def welcome(self) -> None:
        super().welcome()
        self.storm.waited.append(time.perf_counter() - self.begun)
        if self.present != self.storm.durable:
            raise BenchError("a session was not there, or there where none was expected")


class Storm:
    """The clients, and what they saw."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.durable: bool = spec["durable"]
        self.crowd = Crowd(spec["mqtt_port"])
        self.waited: list[float] = []

    def run(self) -> dict[str, float]:
        """Let the sessions be made, then all come at once."""
        count, pid = self.spec["clients"], self.spec["pid"]
        if self.durable:
            self.crowd.come(lambda n: Newcomer(self.crowd, f"c{n}", f"storm/{n}", 1), count)
        time.sleep(SETTLE_SECONDS)
        cpu, memory, start = cpu_seconds(pid), rss_bytes(pid), time.perf_counter()
        self.crowd.come(lambda n: Survivor(self, f"c{n}"), count, at_once=count)
        elapsed = time.perf_counter() - start
        waited = sorted(self.waited)
        figures = {
            "rate": count / elapsed,
            "server_us": (cpu_seconds(pid) - cpu) * 1e6 / count,
            "bytes": (rss_bytes(pid) - memory) / count,
            "p50_us": percentile(waited, 0.5) * 1e6,
            "p99_us": percentile(waited, 0.99) * 1e6,
            "clients": float(count),
        }
        self.crowd.close()
        return figures
