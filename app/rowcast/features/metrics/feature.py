"""The feature: counts, and publishes the numbers under ``$SYS/broker`` and at ``/metrics``."""

from collections.abc import Sequence
from typing import Final

from rowcast.core.clock import WallClock
from rowcast.core.histograms import Histogram, HistogramFamily
from rowcast.core.metric_limits import REPORT_RETRY_SECONDS
from rowcast.core.tables import Table
from rowcast.features.metrics.metrics import Metrics
from rowcast.features.metrics.sys_tree import TABLE, SysTree
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.reads.read_queue import ReadLane
from rowcast.seams.door import DoorFigures
from rowcast.seams.seams import OwnLog, Page
from rowcast.store.store import Counts, Keep
from rowcast.subscriptions.gaps import GapCause
from rowcast.writes.last_write_wins import is_stamped
from rowcast.writes.write import Receipt

METRICS_PATH: Final = "/metrics"
METRICS_TOPIC: Final = "$SYS/broker"
EXPOSITION_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' content type."""


class SystemMetrics(Feature):
    """The metrics of one server.

    They are written every ``interval_seconds``; with 0 they are only available at ``/metrics``.
    A refused write is repeated after ``retry_seconds``.
    """

    def __init__(
        self,
        store: Counts,
        tables: Sequence[Table],
        interval_seconds: float,
        keep: Keep,
        now: WallClock,
        retry_seconds: float = REPORT_RETRY_SECONDS,
    ) -> None:
        self._store = store
        self._tables = tables
        self._interval_seconds = interval_seconds
        self._keep = keep
        self._retry_seconds = retry_seconds
        self.metrics = Metrics(now)

    def install(self, kernel: Kernel) -> None:
        """Register listeners, and the exposition."""
        self._kernel = kernel
        metrics = self.metrics
        metrics.look = self._look
        metrics.surveys = kernel.surveys
        kernel.surveys += (self._survey_doors, self._survey_store)
        kernel.own_logs.append(OwnLog(TABLE, self._keep))
        kernel.listeners.mqtt.append(metrics)
        kernel.committer.on_rare.append(self._count)
        interval, retry = self._interval_seconds, self._retry_seconds
        self.sys_tree = SysTree(kernel, metrics, interval, retry)
        exposition = self.sys_tree.exposition
        page = Page("metrics", METRICS_TOPIC, EXPOSITION_TYPE, exposition)
        kernel.pages[METRICS_PATH] = page
        kernel.histograms += (_commits(kernel), _reads(kernel))

    async def load(self) -> None:
        """Count the records that are stored."""
        self.metrics.retained = self._count_records()

    async def start(self) -> None:
        """Start writing the numbers at intervals."""
        if self._interval_seconds:
            self.sys_tree.start()

    async def stop(self) -> None:
        """Write the final numbers."""
        self.sys_tree.stop()

    def _count_records(self) -> int:
        return sum(self._store.figures(source).records for source in (*self._tables, None))

    # -- counters of other components --------------------------------------------------------------

    def _count(self, receipt: Receipt) -> None:
        """Count a late write."""
        if receipt.late:
            self.metrics.holding.late += is_stamped(receipt.event)

    def _look(self) -> None:
        """Update the cheap counters of doors, the reader and the store."""
        metrics = self.metrics
        metrics.retained = self._count_records()
        reader, holding = self._kernel.reader, metrics.holding
        dropped = reader.losses.counts.get(GapCause.SLOW, 0)
        holding.sessions = holding.sessions_expired = 0
        found = [door.figures() for door in self._kernel.doors]
        for figures in found:
            holding.sessions += figures.sessions
            holding.sessions_expired += figures.sessions_expired
            dropped += figures.dropped
        holding.dropped = dropped
        queue = reader.queue
        holding.queries_timed_out, holding.queries_abandoned = queue.timed_out, queue.abandoned
        self._count_traffic(found)

    def _count_traffic(self, found: Sequence[DoorFigures]) -> None:
        metrics, wire = self.metrics, self.metrics.wire
        wire.bytes_received = sum(figures.bytes_in for figures in found)
        wire.bytes_sent = sum(figures.bytes_out for figures in found)
        wire.packets_received = sum(figures.packets_in for figures in found)
        wire.packets_sent = sum(figures.packets_out for figures in found)
        wire.connections = sum(figures.connections for figures in found)
        wire.connects = sum(figures.connects for figures in found)
        metrics.on_publish_received(
            sum(figures.publishes_in for figures in found) - metrics.publishes_received,
            sum(figures.payload_in for figures in found) - metrics.publish_bytes_received,
        )
        metrics.on_publish_sent(
            sum(figures.publishes_out for figures in found) - metrics.publishes_sent,
            sum(figures.payload_out for figures in found) - metrics.publish_bytes_sent,
        )

    def _survey_doors(self) -> None:
        holding = self.metrics.holding
        holding.queries_waiting = self._kernel.reader.queue.waiting
        holding.in_flight = sum(door.in_flight() for door in self._kernel.doors)

    def _survey_store(self) -> None:
        """Update the size of the log, without the server's own metrics."""
        figures = self._store.figures
        found = [figures(source) for source in (*self._tables, None)]
        own = [figures(log.table.branch) for log in self._kernel.own_logs]
        holding = self.metrics.holding
        holding.stored = sum(x.events for x in found) - sum(x.events for x in own)
        holding.lag = self._store.lag()
        holding.lost = self._kernel.committer.announced_first.lost
        holding.stored_bytes = sum(x.bytes for x in found) - sum(x.bytes for x in own)


def _commits(kernel: Kernel) -> HistogramFamily:
    found = kernel.committer.commit_seconds
    about = "One group commit, from its decision until it is durable."
    return HistogramFamily("rowcast_commit_seconds", about, (), lambda: {(): found})


def _reads(kernel: Kernel) -> HistogramFamily:
    found = kernel.reader.queue.seconds
    series: dict[tuple[str, ...], Histogram] = {
        (lane.name.lower(),): found[lane] for lane in ReadLane
    }
    about = "Reads of the database with the time that they waited, by kind."
    return HistogramFamily("rowcast_read_seconds", about, ("kind",), lambda: series)
