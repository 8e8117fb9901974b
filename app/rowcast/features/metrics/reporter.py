"""The reporter: writes changed texts to their topics, rate-limited.

The first change of a topic is written in the same turn. While it keeps changing, writes follow
after REPORT_SECONDS_MIN, then after doubling intervals up to REPORT_SECONDS_MAX; the last value is
always written (F2). A topic has one pending write at a time. A refused one is retried later with
the current value, without blocking; in-memory values stay correct (F23). Without changes there is
no timer.

It knows neither the meaning of the texts nor the store.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from rowcast.core.errors import Error
from rowcast.core.metric_limits import (
    REPORT_LOG_SECONDS,
    REPORT_RETRY_SECONDS,
    REPORT_SECONDS_MAX,
    REPORT_SECONDS_MIN,
)

log = logging.getLogger("rowcast.features.metrics")

Written = Callable[[Error | None], None]
"""Called on the loop with the result of a write, maybe before ``write`` returns."""


class Line:
    """One topic: the stored text, the pending one, and the earliest next write."""

    __slots__ = ("due", "last", "pause", "sending", "written")

    def __init__(self) -> None:
        self.written = self.sending = ""
        self.due = self.last = float("-inf")
        self.pause = REPORT_SECONDS_MIN


class Reporter:
    """Topics and their texts. ``read`` returns all current texts."""

    def __init__(
        self,
        read: Callable[[], Mapping[str, str]],
        write: Callable[[str, str, Written], None],
        loop: asyncio.AbstractEventLoop,
        retry_seconds: float = REPORT_RETRY_SECONDS,
    ) -> None:
        self._read = read
        self._write = write
        self._loop = loop
        self._retry_seconds = retry_seconds
        self._lines: dict[str, Line] = {}
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._at = float("inf")
        self._looked = self._busy_until = float("-inf")
        self._quiet_until = float("-inf")
        self._stopped = False
        self.failures = 0
        """Refused writes."""

    def changed(self) -> None:
        """Called on a possible change: checks at the end of this turn, rate-limited."""
        self._wake(self._looked + REPORT_SECONDS_MIN)

    def busy(self) -> None:
        """Called on frequent events: checks when the last changed topic is due."""
        self._wake(max(self._looked + REPORT_SECONDS_MIN, self._busy_until))

    def stop(self) -> None:
        """Write the current texts, and stop."""
        if self._timer is not None:
            self._timer.cancel()
        for line in self._lines.values():
            line.due = float("-inf")
        self._report()
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self, at: float) -> None:
        """Schedule a check, unless an earlier one is scheduled."""
        if self._stopped or self._at <= at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        wait = at - self._loop.time()
        if wait > 0:
            self._timer = self._loop.call_later(wait, self._report)
        else:
            self._timer = self._loop.call_soon(self._report)

    def _report(self) -> None:
        """Write changed texts that are due."""
        self._timer, self._at = None, float("inf")
        now = self._looked = self._loop.time()
        soonest, self._busy_until = float("inf"), now
        for topic, text in self._read().items():
            line = self._lines.get(topic)
            if line is None:
                line = self._lines[topic] = Line()
            if line.sending or text == line.written:
                continue
            if line.due > now:
                soonest = min(soonest, line.due)
            else:
                self._send(topic, line, text, now)
        if soonest < float("inf"):
            self._wake(soonest)

    def _send(self, topic: str, line: Line, text: str, now: float) -> None:
        again = now - line.last < 2 * line.pause
        line.pause = min(2 * line.pause, REPORT_SECONDS_MAX) if again else REPORT_SECONDS_MIN
        line.last, line.due, line.sending = now, now + line.pause, text
        self._busy_until = max(self._busy_until, line.due)
        self._write(topic, text, lambda error: self._written(line, text, error))

    def _written(self, line: Line, text: str, error: Error | None) -> None:
        line.sending = ""
        if error is None:
            line.written = text
        else:
            self._complain(error)
            line.due = self._loop.time() + self._retry_seconds
        self._wake(max(line.due, self._looked + REPORT_SECONDS_MIN))

    def _complain(self, error: Error) -> None:
        self.failures += 1
        now = self._loop.time()
        if now >= self._quiet_until:
            self._quiet_until = now + REPORT_LOG_SECONDS
            log.warning("what $SYS tells is not on disk and is tried again: %s", error.message)
