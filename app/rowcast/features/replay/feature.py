"""The feature: the past is sent again as if live, on every door (M6)."""

import asyncio

from rowcast.features.replay.feed import Loop
from rowcast.features.replay.replay_rows import PATH, replay_rows
from rowcast.features.replay.replays import Replays
from rowcast.features.replay.settings import ReplaySection
from rowcast.features.replay.shared import SharedReplays
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class ReplaysOfThePast(Feature):
    """Replays of one server; ``loop`` is their clock, None: that of the running loop."""

    def __init__(self, settings: ReplaySection | None = None, loop: Loop | None = None) -> None:
        self._settings = settings or ReplaySection()
        self._loop = loop

    def install(self, kernel: Kernel) -> None:
        """Take filters of replays from now on."""
        shared = SharedReplays(kernel, self._time, self._settings.max)
        self.replays = Replays(kernel, shared, self._settings, self._loop)
        kernel.views.replays = self.replays
        kernel.provide(self.replays)
        kernel.rows(PATH, replay_rows(shared, kernel.cursor, self._changed))
        self._live = kernel.live

    def _changed(self, name: str) -> None:
        self._live.changed(PATH, name)

    def _time(self) -> float:
        return (self.replays.loop or asyncio.get_running_loop()).time()
