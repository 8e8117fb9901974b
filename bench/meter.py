"""One measured stretch: when it begins and ends, and what the server and the generator spent."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.proc import cpu_seconds
from bench.stats import percentile


@dataclass(slots=True)
class Meter:
    """Takes the counters at the end of the warm-up and of the run, and makes figures of them."""

    warmup_seconds: float
    seconds: float
    counter: Callable[[], float]
    """What the server has spent until now: seconds of CPU, or what a load's ``counter`` counts."""
    next_mark: float = 0.0
    begun: bool = False
    at_start: tuple[float, float, float, int] = (0.0, 0.0, 0.0, 0)
    at_end: tuple[float, float, float, int] = (0.0, 0.0, 0.0, 0)
    latencies: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Meter":
        """Return the meter of a load."""
        counter = spec.get("counter") or partial(cpu_seconds, spec["pid"])
        return cls(spec["warmup"], spec["seconds"], counter)

    def start(self) -> None:
        """Begin the warm-up."""
        self.next_mark = time.perf_counter() + self.warmup_seconds

    def passed(self, now: float, count: int) -> bool:
        """Take a mark when it is due; True once the measured time is over."""
        if now < self.next_mark:
            return False
        mark = (time.perf_counter(), self.counter(), time.process_time(), count)
        if self.begun:
            self.at_end = mark
            return True
        self.begun, self.at_start = True, mark
        self.next_mark = mark[0] + self.seconds
        self.latencies.clear()
        return False

    def figures(self) -> dict[str, float]:
        """Return rate, server CPU for each message, CPU shares and latencies in microseconds."""
        elapsed, server, own, count = (
            after - before for before, after in zip(self.at_start, self.at_end, strict=True)
        )
        out = {
            "rate": count / elapsed,
            "server_us": server * 1e6 / count if count else float("nan"),
            "server_share": server / elapsed,
            "generator_share": own / elapsed,
        }
        if self.latencies:
            ordered = sorted(self.latencies)
            out["p50_us"] = percentile(ordered, 0.5) * 1e6
            out["p99_us"] = percentile(ordered, 0.99) * 1e6
        return out
