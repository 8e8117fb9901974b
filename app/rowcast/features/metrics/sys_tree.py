"""``$SYS/broker`` as records: the metrics, written by the server through the kernel.

They are ordinary retained records at undeclared topics, which every door can read and subscribe to;
only the server may write there. Live numbers are written on change, system numbers every
``mqtt.sys_interval`` seconds.
"""

import asyncio
from typing import Final

from rowcast.core.callers import METRICS_WRITER
from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event
from rowcast.core.metric_limits import (
    REPORT_RETRY_SECONDS,
    SYS_HISTORY_BYTES,
    SYS_HISTORY_EVENTS,
    SYS_HISTORY_SECONDS,
)
from rowcast.core.topic_tables import METRICS, TopicRoot, TopicTable
from rowcast.features.metrics.exposition import exposition
from rowcast.features.metrics.metrics import Metrics
from rowcast.features.metrics.reporter import Reporter, Written
from rowcast.features.metrics.tree import LIVE, ROOT, SYSTEM, fixed, readings
from rowcast.kernel.kernel import Kernel
from rowcast.store.store import Keep
from rowcast.writes.write import LowPriority, Outcome

TABLE: Final = TopicTable(METRICS, TopicRoot("$SYS"))
"""Their topic table, created at start, and never dropped (F1, F2)."""
KEPT: Final = Keep(SYS_HISTORY_SECONDS, SYS_HISTORY_EVENTS, SYS_HISTORY_BYTES)
"""Their retention."""
QOS: Final = 2
"""As in Mosquitto: subscribers get them with their requested QoS."""


class SysTree:
    """The records of one server's metrics."""

    def __init__(
        self,
        kernel: Kernel,
        metrics: Metrics,
        interval_seconds: float,
        retry_seconds: float = REPORT_RETRY_SECONDS,
    ) -> None:
        self._kernel = kernel
        self._metrics = metrics
        self._interval_seconds = interval_seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._slow: dict[str, str] = {}
        """The values of the last round of system metrics."""
        self.reporter = Reporter(self._read, self._write, self._loop, retry_seconds)

    def exposition(self) -> bytes:
        """Return all current metrics for Prometheus."""
        if self._timer is None:  # without publishing there are no regular updates
            self._survey()
        return exposition(self._read(), self._kernel.histograms)

    def start(self) -> None:
        """Write all of them, and changes from now on."""
        self._slow = fixed()
        self._metrics.on_change = self.reporter.changed
        self._metrics.on_traffic = self.reporter.busy
        self._tick()

    def stop(self) -> None:
        """Write the final values."""
        if self._timer is not None:
            self._timer.cancel()
            self.reporter.stop()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._interval_seconds, self._tick)
        self._survey()

    def _survey(self) -> None:
        self._metrics.update_system_metrics()
        self._slow |= readings(self._metrics, SYSTEM)

    def _read(self) -> dict[str, str]:
        self._metrics.look()
        figures = self._kernel.figures.items()
        others = {ROOT + name: str(read()) for name, read in figures}
        return readings(self._metrics, LIVE) | others | self._slow

    def _write(self, topic: str, text: str, written: Written) -> None:
        def done(outcome: Outcome) -> None:
            written(outcome if isinstance(outcome, Error) else None)

        event = Event(topic, PUT, text.encode(), None, QOS, True)
        self._kernel.submit(event, METRICS_WRITER, LowPriority(done))
