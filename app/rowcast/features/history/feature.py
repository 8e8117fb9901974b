"""The feature: the past of topics and tables is read as an answer (B13, B14)."""

from rowcast.features.history.asof import AsOf
from rowcast.features.history.bounds import BOUNDS, HistoryBounds
from rowcast.features.history.history import HistoryReads
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class History(Feature):
    """The history of one server; subscriptions that begin in the past do without it."""

    def __init__(self, bounds: HistoryBounds = BOUNDS) -> None:
        self._bounds = bounds

    def install(self, kernel: Kernel) -> None:
        """Have it found by doors; nothing asks it on the way of a write."""
        asof = AsOf(kernel.reader, kernel.transcoder, kernel.registry.shapes, self._bounds)
        self.reads = HistoryReads(kernel.reader, kernel, asof, kernel.now, self._bounds)
        kernel.past = self.reads
        kernel.provide(self.reads)
