"""The feature: ``$delayed/<seconds>/<topic>`` is written later (D52)."""

from rowcast.features.delayed.delayed import OWNER, Delayed
from rowcast.features.delayed.delayed_rows import PATH, delayed_rows
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class DelayedPublish(Feature):
    """The delayed writes of one server."""

    def install(self, kernel: Kernel) -> None:
        """Take writes to its path, once they were judged by whoever may refuse them."""
        delayed = self.delayed = Delayed(kernel, kernel.now)
        delayed.changed = kernel.rows(PATH, delayed_rows(delayed))
        kernel.steps.add("delay", delayed.step)
        kernel.facts(OWNER, delayed.restore)

    async def start(self) -> None:
        """Publish what is due: the sessions that it may be for are restored."""
        self.delayed.start()

    async def stop(self) -> None:
        """Publish no more; what waits is on disk."""
        self.delayed.stop()
