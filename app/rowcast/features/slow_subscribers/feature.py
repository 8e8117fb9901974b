"""The feature: measures how late subscriptions are served, and lists the slow ones (O7)."""

import asyncio

from rowcast.features.slow_subscribers.slow_rows import PATH, slow_rows
from rowcast.features.slow_subscribers.slow_subscribers import SlowSettings, SlowSubscriptions
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Engine


class SlowSubscribers(Feature):
    """The list of slow subscriptions of a server."""

    def __init__(self, settings: SlowSettings) -> None:
        self._settings = settings

    def install(self, kernel: Engine) -> None:
        """Measure deliveries, and show the list at its path."""

        def changed(name: str, happened: str) -> None:
            tell(name, happened)

        loop = asyncio.get_running_loop()
        slow = SlowSubscriptions(self._settings, kernel.now, loop, changed)
        tell = kernel.rows(PATH, slow_rows(slow))
        slow.listen(kernel.reader)
        kernel.figures["subscriptions/slow"] = lambda: len(slow)
        kernel.figures["publish/messages/slow"] = lambda: slow.total
