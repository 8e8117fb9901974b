"""A feature: a folder that adds behaviour at the kernel's seams.

``program/features.py`` lists the features of a server, in order. A feature that is switched off is
not created, so nothing of it is on any path. At the start, in this order:

1. ``install`` of each: the seams know it.
2. ``load`` of each.
3. The kernel restores facts: sessions, groups, delayed messages and whatever else the run before
   has kept in the store (``Seams.facts``).
4. ``start`` of each.
5. All ports open; then ``opened`` of each.

At the end the ports close first, and then ``stop`` of each is called, the last one first.

    class Quota(Feature):  # a step for each route, and rows of $SYS
        def install(self, kernel: Kernel) -> None:
            kernel.steps.add("retained", lambda route: self.check if route.shape else None)
            kernel.rows("$SYS/quotas", listed_rows("$SYS/quotas", self.rows))
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast")


class Feature:
    """Extended by each feature; only ``install`` is required."""

    def install(self, kernel: "Kernel") -> None:
        """Add the feature at the kernel's seams (``seams/``); nothing may be written yet."""
        raise NotImplementedError

    async def load(self) -> None:
        """Read from the store, before anything is restored or written."""

    async def start(self) -> None:
        """Start, after facts are restored, and before any port is open."""

    async def opened(self) -> None:
        """Start work that needs the ports, which are all open."""

    async def stop(self) -> None:
        """Stop, also after a failed ``start``; writes are still stored."""


class Background:
    """Tasks that run until the server stops; one that fails is logged at once."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, work: Coroutine[object, object, None]) -> None:
        """Start a task; called on the event loop."""
        task = asyncio.create_task(work)
        task.add_done_callback(_log_failure)
        self._tasks.append(task)

    async def stop(self) -> None:
        """Cancel all tasks, and wait for them."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log why a task has ended: nobody awaits it before the server stops."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        name = getattr(task.get_coro(), "__qualname__", task.get_name())
        log.error(
            "%s has ended, and does its work no more: restart the server", name, exc_info=error
        )
