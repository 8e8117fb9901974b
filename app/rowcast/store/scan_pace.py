"""Pacing of scans that evaluate rows in Python: they yield the interpreter's lock to other work.

SQLite finds most records without the interpreter's lock. What it cannot check, sort or group
exactly is done in Python, and a thread that does so wants the lock again for each row. The event
loop gives the lock up whenever it sends or waits, and then has it back only after a switch interval
(Python's docs, "sys.setswitchinterval"), of each scan. So one scan at a time looks at rows, and
when it finds that others wanted the lock or the core meanwhile, all scans rest. Alone on the
machine a scan never rests.
"""

import time
from collections.abc import Callable, Generator, Iterable
from threading import Lock
from typing import TypeVar

from rowcast.core.read_limits import (
    SCAN_HINDERED_RATIO,
    SCAN_LOOK_ROWS,
    SCAN_REST_SECONDS,
    SCAN_SLICE_SECONDS,
    SCAN_TURN_SECONDS_MAX,
)

T = TypeVar("T")


class ScanPace:
    """Of all scans of one store; each method is for any thread.

    A scan looks at rows for ``slice_seconds`` and then lets others; where that took more than
    ``hindered_ratio`` times its CPU time, it rests for ``rest_seconds`` first. It waits at most
    ``turn_seconds_max`` for its turn, and looks at the clock after each ``look_rows``. ``clock`` is
    the time, ``used`` the CPU time of this thread.
    """

    def __init__(
        self,
        slice_seconds: float = SCAN_SLICE_SECONDS,
        rest_seconds: float = SCAN_REST_SECONDS,
        turn_seconds_max: float = SCAN_TURN_SECONDS_MAX,
        hindered_ratio: float = SCAN_HINDERED_RATIO,
        look_rows: int = SCAN_LOOK_ROWS,
        *,
        clock: Callable[[], float] = time.perf_counter,
        used: Callable[[], float] = time.thread_time,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slice_seconds = slice_seconds
        self._rest_seconds = rest_seconds
        self._turn_seconds_max = turn_seconds_max
        self._hindered_ratio = hindered_ratio
        self._look_rows = look_rows
        self._clock = clock
        self._used = used
        self._rest = rest
        self._turn = Lock()

    def rows(self, rows: Iterable[T]) -> Generator[T, None, None]:
        """Yield the rows at this pace."""
        turn, left = self._turn.acquire(timeout=self._turn_seconds_max), self._look_rows
        begun, used = self._clock(), self._used()
        try:
            for row in rows:
                yield row
                left -= 1
                if left:
                    continue
                left = self._look_rows
                seconds = self._clock() - begun
                if seconds < self._slice_seconds:
                    continue
                if seconds > self._hindered_ratio * (self._used() - used):
                    self._rest(self._rest_seconds)  # with the turn, so that all scans rest
                if turn:
                    self._turn.release()
                turn = self._turn.acquire(timeout=self._turn_seconds_max)
                begun, used = self._clock(), self._used()
        finally:
            if turn:
                self._turn.release()
