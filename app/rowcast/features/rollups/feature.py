"""The feature: keeps the rows of roll-ups."""

import asyncio
import logging
from collections.abc import Sequence

from rowcast.bus.subscriber import Subscriber
from rowcast.core.errors import Error
from rowcast.core.events import Event
from rowcast.core.rollup_limits import ROLLUP_PAUSE_SECONDS, ROLLUP_RETRY_SECONDS
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.rollups.rollup import OWNER, Rollup, refuse_writes
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel
from rowcast.routes.registry import Route
from rowcast.seams.seams import Facts
from rowcast.writes.write import Step

log = logging.getLogger("rowcast.rollups")


class _Wake(Subscriber):
    """Wakes a roll-up when its table is written."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.event.set()

    def offer(self, event: Event) -> None:  # noqa: ARG002 - it reads the log
        """Note that there is something in the log."""
        self.event.set()


class Rollups(Feature):
    """The roll-ups of a server; not ``keeps``: another process keeps their rows."""

    def __init__(self, tables: Sequence[Table], *, keeps: bool = True) -> None:
        self._keeps = keeps
        self._tables = {table.name: table for table in tables}
        self._background = Background()
        self.rollups: list[Rollup] = []
        self._wakes: list[tuple[TopicFilter, _Wake]] = []

    def install(self, kernel: Kernel) -> None:
        """Refuse writes of clients, and have the open periods restored."""
        self._kernel = kernel
        rollups = [table for table in self._tables.values() if table.rollup is not None]
        if rollups:
            kernel.steps.add("rows", _step)
        for table in rollups if self._keeps else ():
            if table.rollup is not None:
                source = self._tables[table.rollup.of]
                self.rollups.append(Rollup(kernel, table, source))
        if self.rollups:
            kernel.facts(OWNER, self._restore)
            kernel.figures["rollups/readings"] = lambda: sum(
                item.periods.readings for item in self.rollups
            )
            kernel.figures["rollups/late"] = lambda: sum(item.too_late for item in self.rollups)

    def _restore(self, facts: Facts) -> None:
        for rollup in self.rollups:
            rollup.restore(facts)

    async def start(self) -> None:
        """Follow the log."""
        for rollup in self.rollups:
            wake = _Wake()
            topics = TopicFilter.below(rollup.source.path or "")
            self._kernel.bus.add(topics, wake)
            self._wakes.append((topics, wake))
            self._background.run(_follow(rollup, wake.event))

    async def stop(self) -> None:
        """Stop; the next start continues."""
        await self._background.stop()
        for topics, wake in self._wakes:
            self._kernel.bus.remove(topics, wake)


async def _follow(rollup: Rollup, wake: asyncio.Event) -> None:
    """Roll up what is written, once a second at most, for ever."""
    while True:
        await wake.wait()
        wake.clear()
        try:
            await rollup.catch_up(_pause)
        except Error as error:
            log.warning("%s: rolled up later: %s", rollup.table.name, error.message)
            wake.set()
        await asyncio.sleep(ROLLUP_PAUSE_SECONDS)


def _pause() -> "asyncio.Future[None]":
    return asyncio.ensure_future(asyncio.sleep(ROLLUP_RETRY_SECONDS))


def _step(route: Route) -> Step | None:
    table = route.table
    return None if table is None or table.rollup is None else refuse_writes(table)
