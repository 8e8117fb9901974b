"""Retention: trims the log of what its limits no longer keep.

It looks once in a while, in small steps, so writers wait for no more than one of them. The log is
trimmed only beyond its limits, never ahead of what they promise, nor of an archive. Whatever has a
time of its own is ended by ``expiries.py``.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rowcast.core.clock import WallClock
from rowcast.core.errors import Error
from rowcast.core.limits import SWEEP_EVENTS_MAX
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource
from rowcast.kernel.kernel import Kernel
from rowcast.store.store import Keep
from rowcast.writes.last_write_wins import outdated

log = logging.getLogger("rowcast.retention")

_ALL: Final = 1 << 63
"""More events than any log has."""


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """Limits of each table's log, and the interval of sweeps in seconds."""

    keep: Keep
    sweep_seconds: float
    others: Sequence[tuple[LogSource, Keep]] = ()
    """Limits of parts that belong neither to a declared table nor to a topic table."""
    step_events: int = SWEEP_EVENTS_MAX
    """How many events are forgotten at a time."""


class Retention:
    """The sweeper."""

    def __init__(
        self,
        kernel: Kernel,
        tables: Sequence[Table],
        settings: RetentionSettings,
        now: WallClock,
    ) -> None:
        self._kernel = kernel
        self._tables: tuple[Table | None, ...] = (*tables, None)
        self._settings = settings
        self._now = now
        self._day = 0
        """The day of the last removal of tombstones, since 1970."""

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(self._settings.sweep_seconds)
            try:
                await self.sweep()
            except Error as error:
                log.warning("a sweep failed and will be tried again: %s", error.message)
            except Exception:
                log.exception("a sweep failed and will be tried again")

    async def sweep(self) -> int:
        """Trim every table's log; return of how many events."""
        trimmed = 0
        for table in self._tables:
            trimmed += await self._trim(table, self._keep(table))
        for source, keep in self._settings.others:
            trimmed += await self._trim(source, keep)
        for parts in self._kernel.log_parts:
            for branch, keep in parts.keeps():
                trimmed += await self._trim(branch, keep)
        while await self._kernel.committer.tidy(self._settings.step_events):
            pass
        self._forget_tombstones()
        for parts in self._kernel.log_parts:
            await parts.clean()
        return trimmed

    def _forget_tombstones(self) -> None:
        today = int(self._now()) // 86_400
        if today != self._day:
            self._day = today
            self._kernel.committer.keep(outdated(self._now()))

    async def _trim(self, source: LogSource, keep: Keep) -> int:
        """Trim a part, of which an archive, or else a compaction, has first what goes."""
        first, total = self._kernel.archive or self._kernel.compaction, 0
        while first is not None:
            count = await first.secure(source, keep, self._now())
            if count is None:
                break
            done = await self._steps(source, keep, count)
            total += done
            if done < count or not count:
                return total
        return total + await self._steps(source, keep, _ALL)

    async def _steps(self, source: LogSource, keep: Keep, count: int) -> int:
        """Trim at most ``count`` of a part's oldest events, some at a time."""
        total = 0
        while total < count:
            most = min(self._settings.step_events, count - total)
            done = await self._kernel.committer.trim(source, keep, self._now(), most)
            total += done
            if done < most:
                break
        return total

    def _keep(self, table: Table | None) -> Keep:
        """Return the limits that a table declares, and no others, or else the server's.

        A declared limit by age applies without the server's limits by size (E24).
        """
        if table is None:
            return self._settings.keep
        own = Keep(table.history_seconds, table.history_events, table.history_bytes)
        return self._settings.keep if own == Keep() else own
