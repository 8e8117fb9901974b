"""The feature: measures how late subscriptions are served, and lists the slow ones (O7)."""

import asyncio
from collections.abc import Mapping
from typing import Final

from rowcast.core.histograms import Histogram, HistogramFamily
from rowcast.features.slow_subscribers.slow_rows import PATH, slow_rows
from rowcast.features.slow_subscribers.slow_subscribers import SlowSettings, SlowSubscriptions
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel

LAG: Final = "rowcast_delivery_lag_seconds"
ABOUT: Final = "From the arrival of an event to its hand-over to a subscriber; one in seventeen."


class SlowSubscribers(Feature):
    """The list of slow subscriptions of a server."""

    def __init__(self, settings: SlowSettings) -> None:
        self._settings = settings

    def install(self, kernel: Kernel) -> None:
        """HistogramFamily deliveries, and show the list at its path."""

        def changed(name: str, happened: str) -> None:
            notify(name, happened)

        loop = asyncio.get_running_loop()
        slow = SlowSubscriptions(self._settings, kernel.now, loop, changed)
        notify = kernel.rows(PATH, slow_rows(slow))
        slow.listen(kernel.reader)
        kernel.histograms.append(HistogramFamily(LAG, ABOUT, ("door",), lambda: _by_door(slow)))
        kernel.figures["subscriptions/slow"] = lambda: len(slow)
        kernel.figures["publish/messages/slow"] = lambda: slow.total


def _by_door(slow: SlowSubscriptions) -> Mapping[tuple[str, ...], Histogram]:
    return {(door,): found for door, found in slow.lags.items()}
