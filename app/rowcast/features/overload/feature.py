"""The feature: refuses work in a stated order while memory is short (K9)."""

from collections.abc import Iterator
from typing import Final

from rowcast.core.shedding import Shed
from rowcast.features.overload.overload import Facts, Overload, Queues, Watermarks
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.routes.figure_rows import listed_rows
from rowcast.seams.door import Queued

PATH: Final = "$SYS/overload"


class OverloadProtection(Feature):
    """Measures the memory of the process, and sets the level of load shedding."""

    def __init__(self, marks: Watermarks) -> None:
        self._marks = marks
        self._overload: Overload | None = None

    def install(self, kernel: Kernel) -> None:
        """Register the row of the level."""

        def subscriptions() -> Iterator[Queued]:
            for door in kernel.doors:
                yield from door.subscriptions()

        def on_level(_level: Shed, facts: Facts) -> None:
            for door in kernel.doors:
                door.shed()
            kernel.listeners.notify_server("overload", facts)

        def relieve() -> None:
            for door in kernel.doors:
                door.relieve()

        queues = Queues(kernel.reader, subscriptions)
        overload = self._overload = Overload(self._marks, queues, kernel.reader, on_level)
        overload.relieve = relieve
        kernel.rows(PATH, listed_rows(PATH, lambda: {"memory": overload.facts()}))

    async def start(self) -> None:
        """Start measuring."""
        if self._overload is not None:
            self._overload.start()

    async def stop(self) -> None:
        """Stop measuring."""
        if self._overload is not None:
            self._overload.stop()
