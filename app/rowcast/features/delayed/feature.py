"""The feature: ``$delayed/<seconds>/<topic>`` is written later (D52)."""

from rowcast.features.delayed.delayed import BOUNDS, OWNER, Delayed, DelayedBounds
from rowcast.features.delayed.delayed_rows import PATH, delayed_rows
from rowcast.features.delayed.ids import NUMBERS
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class DelayedPublish(Feature):
    """The delayed writes of one server."""

    def __init__(self, bounds: DelayedBounds = BOUNDS) -> None:
        self._bounds = bounds

    def install(self, kernel: Kernel) -> None:
        """Add the step of its path, after steps that may refuse a write."""
        delayed = self.delayed = Delayed(kernel, kernel.now, self._bounds)
        delayed.changed = kernel.rows(PATH, delayed_rows(delayed))
        kernel.steps.add("delay", delayed.step)
        kernel.facts(OWNER, delayed.restore)
        kernel.facts(NUMBERS, delayed.ids.restore)

    async def start(self) -> None:
        """Start publishing due writes, after sessions are restored."""
        self.delayed.start()

    async def stop(self) -> None:
        """Stop publishing; waiting writes are on disk."""
        self.delayed.stop()
