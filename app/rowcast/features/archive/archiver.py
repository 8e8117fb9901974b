"""The archiver: writes what is about to be trimmed, merges small files, and removes old ones.

Retention asks it before it trims (``secure``). The oldest events beyond the limits are read from
the tables and written to a file; when that is durable and noted in the index, as many of the oldest
may be trimmed. So a kill at any moment leaves each event in the log, in a file, or in both, where
it counts once. What cannot be written is not trimmed: it is told once, and tried at each sweep.

All files are written on one thread of a lower priority.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, TypeVar

from rowcast.core.archive_limits import (
    ARCHIVE_FILE_BYTES,
    ARCHIVE_FILE_SECONDS,
    ARCHIVE_STEP_BYTES,
    ARCHIVE_STEP_EVENTS,
)
from rowcast.core.clock import WallClock, seconds_of
from rowcast.core.errors import Error
from rowcast.core.topic_tables import LogSource, TopicRoot
from rowcast.features.archive.archive_index import ArchivedRange, ArchiveIndex
from rowcast.features.archive.archived_rows import ArchivedRows
from rowcast.features.archive.file_format import FileFormat
from rowcast.store.older_rows import Oldest, OldestRoom
from rowcast.store.store import Keep

log = logging.getLogger("rowcast.archive")

T = TypeVar("T")

_WRITING: Final = "events cannot be archived, so they are not trimmed"
_MERGING: Final = "small files of the archive cannot be merged"
_OPENING: Final = "the archive cannot be read"
_REMOVING: Final = "old files of the archive cannot be removed"
NOT_ARCHIVED: Final = TopicRoot("$SYS")
"""The server's own metrics, which no reader of all topics gets."""

ReadOldest = Callable[[LogSource, Keep, float, OldestRoom], Awaitable[Oldest | None]]
"""Reads a part's oldest events beyond limits, off the event loop."""


_STEP: Final = OldestRoom(ARCHIVE_STEP_EVENTS, ARCHIVE_STEP_BYTES)


@dataclass(frozen=True, slots=True)
class ArchiverBounds:
    """What is written at a time, and into one file."""

    step: OldestRoom = _STEP
    file_bytes: int = ARCHIVE_FILE_BYTES
    file_seconds: float = ARCHIVE_FILE_SECONDS
    keep_seconds: float = 0
    """The age limit of the archive; 0 keeps it for ever."""


class Archiver:
    """Writes the archive of one log; used on the event loop."""

    def __init__(
        self,
        index: ArchiveIndex,
        rows: ArchivedRows,
        files: FileFormat,
        read_oldest: ReadOldest,
        executor: Executor,
        now: WallClock,
        epoch: str,
        bounds: ArchiverBounds | None = None,
    ) -> None:
        self._index = index
        self._rows = rows
        self._files = files
        self._read_oldest = read_oldest
        self._executor = executor
        self._now = now
        self._epoch = epoch
        self._bounds = bounds or ArchiverBounds()
        self._problems: dict[str, str] = {}
        """What cannot be done, and why."""
        self.names: dict[int, str] = {}
        """The names of the parts that were archived in this run."""

    async def secure(self, source: LogSource, keep: Keep, now_seconds: float) -> int | None:
        """Archive a part's oldest events beyond ``keep``; return how many may be trimmed."""
        if source == NOT_ARCHIVED:
            return None
        if not await self.open():
            return 0
        found = await self._read_oldest(source, keep, now_seconds, self._bounds.step)
        if found is None or not found.beyond:
            return 0
        if not found.rows:
            return found.beyond
        if not await self._done(_WRITING, lambda: self._write(found)):
            return 0
        await self._done(_MERGING, lambda: self._merge_all(found.number))
        return found.beyond

    async def open(self) -> bool:
        """Learn which files there are, where that was not possible before; return whether."""
        return await self._done(_OPENING, self._index.open) if self._index.is_closed else True

    async def clean(self) -> int:
        """Remove files in which everything is too old; return how many."""
        before = len(self._ranges())
        if self._bounds.keep_seconds and await self.open():
            await self._done(_REMOVING, self._remove_old)
        return before - len(self._ranges())

    def _ranges(self) -> Sequence[ArchivedRange]:
        return [item for number in self._index.numbers() for item in self._index.chain(number)]

    @property
    def problem(self) -> str:
        """What is wrong; empty while all is well."""
        return "; ".join(f"{what}: {why}" for what, why in self._problems.items())

    async def _done(self, what: str, work: Callable[[], object]) -> bool:
        """Do something on the thread for files; tell its problem once, and return whether."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, work)
        except (OSError, Error) as error:
            self._log_problem(what, str(error))
        except Exception as error:
            if what not in self._problems:
                log.exception("a file of the archive could not be made")
            self._log_problem(what, f"Parquet does not take it ({error})")
        else:
            if self._problems.pop(what, ""):
                log.info("the archive is written again as it should be")
            return True
        return False

    def _log_problem(self, what: str, why: str) -> None:
        if why != self._problems.get(what):
            log.error("%s; tried again at a later sweep: %s", what, why)
        self._problems[what] = why

    # -- on the thread for files -------------------------------------------------------------------

    def _write(self, found: Oldest) -> None:
        number, last = found.number, found.rows[-1][0]
        assert isinstance(last, int)  # noqa: S101 - the first column of the log
        self.names[number] = found.name
        self._index.prepare(number, found.name)
        path = self._index.path(number, found.after, last)
        self._files.write(path, found.rows, self._facts(number, found.after, last))
        self._index.add(number, ArchivedRange(found.after, last, path))

    def _merge_all(self, number: int) -> None:
        try:
            while self._merge(number):
                pass
        except FileNotFoundError:  # a node that was replaced has merged it
            self._index.renew(number, self._index.archived(number))

    def _facts(self, number: int, after: int, last: int) -> dict[str, object]:
        """Return what a file says of itself."""
        name = self.names.get(number, "")
        return {"epoch": self._epoch, "source": name, "after": after, "last": last}

    def _merge(self, number: int) -> bool:
        """Merge the last two files if they are of a size; return whether they were.

        So each event is written again a few times at most, and files are few.
        """
        if len(self._index.chain(number)) < 2:
            return False
        first, second = self._index.chain(number)[-2:]
        if first.last != second.after:
            return False  # a node that was replaced wrote one of them: events would be there twice
        sizes = [self._index.place.size(item.path) for item in (first, second)]
        if sizes[0] > 2 * sizes[1] or sum(sizes) > self._bounds.file_bytes:
            return False
        if self._bounds.keep_seconds and not self._is_short(first, second):
            return False
        path = self._index.path(number, first.after, second.last)
        facts = self._facts(number, first.after, second.last)
        self._files.merge([first.path, second.path], path, facts)
        for gone in self._index.merge(number, ArchivedRange(first.after, second.last, path)):
            self._index.place.remove(gone.path)
        return True

    def _is_short(self, first: ArchivedRange, second: ArchivedRange) -> bool:
        """Whether a file of both would span little time, so that it is removed soon enough."""
        ends = [seconds_of(self._rows.newest(item)) for item in (first, second)]
        return ends[1] - ends[0] <= self._bounds.file_seconds

    def _remove_old(self) -> None:
        oldest = self._now() - self._bounds.keep_seconds
        for number in self._index.numbers():
            try:
                self._remove_older(number, oldest)
            except FileNotFoundError:  # a node that was replaced has removed or merged it
                self._index.renew(number)

    def _remove_older(self, number: int, oldest: float) -> None:
        while chain := self._index.chain(number):
            if seconds_of(self._rows.newest(chain[0])) >= oldest:
                break
            self._index.forget(number, chain[0])
            self._index.place.remove(chain[0].path)
        for item in self._index.unread(number):  # from before a gap, or of a node that was replaced
            if seconds_of(self._rows.newest(item)) < oldest:
                self._index.place.remove(item.path)
