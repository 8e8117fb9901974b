"""The feature: retention archives before it trims, and reads of the log find it there (M2)."""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from rowcast.core.topic_tables import LogSource, TopicRoot
from rowcast.features.archive.archive_index import ArchiveIndex
from rowcast.features.archive.archived_rows import ArchivedRows
from rowcast.features.archive.archiver import Archiver, ArchiverBounds
from rowcast.features.archive.disk_place import ArchivePlace
from rowcast.features.archive.file_format import FileFormat
from rowcast.journal.journaled_store import JournaledStore
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.net.background_threads import background_threads
from rowcast.reads.read_queue import ReadLane
from rowcast.routes.figure_rows import listed_rows
from rowcast.store.older_rows import Oldest, OldestRoom
from rowcast.store.store import Keep

log = logging.getLogger("rowcast.archive")

PATH: Final = "$SYS/archive"
_WRITER_BYTES: Final = 6
"""Of the name of whoever writes to a place that others have, too: one for each term."""


class LogArchive(Feature):
    """The archive of one log, in ``place``; ``writes``: not only read in this process.

    ``shared``: the nodes of a cluster have that place together.
    """

    def __init__(
        self,
        store: JournaledStore,
        place: ArchivePlace,
        files: FileFormat,
        bounds: ArchiverBounds | None = None,
        *,
        writes: bool = True,
        shared: bool = False,
    ) -> None:
        self._store = store
        self._files = files
        self._bounds = bounds
        self._writes = writes
        self.index = ArchiveIndex(place, secrets.token_hex(_WRITER_BYTES) if shared else None)
        self.rows = ArchivedRows(self.index, files)
        self._executor: ThreadPoolExecutor | None = None

    def install(self, kernel: Kernel) -> None:
        """Be asked before anything is trimmed."""
        self._kernel = kernel
        kernel.reader.is_old = self._is_old
        if not self._writes:
            return
        executor = self._executor = background_threads(1, "rowcast-archive")
        self.archiver = Archiver(
            self.index, self.rows, self._files, self._oldest, executor,
            kernel.removal_now, self._store.epoch, self._bounds,
        )  # fmt: skip
        kernel.archive = self.archiver
        kernel.log_parts.append(self)
        kernel.rows(PATH, listed_rows(PATH, self._listed))

    async def load(self) -> None:
        """Learn which files there are, before anything reads the log."""
        await self._kernel.reader.queue.read(self._look, ReadLane.SEARCH)

    def _look(self) -> None:
        self._store.read_older(self.rows)  # first: what is trimmed from here on is looked for
        parts = self._store.log_parts()
        try:
            for aside in self.index.read(parts, clean=self._writes):
                log.warning("archived events of a table that is no longer there are in %s", aside)
        except OSError as error:
            log.error("%s; reads of it are refused until it can be read", error)  # noqa: TRY400

    def _is_old(self, after: int, sources: Sequence[LogSource]) -> bool:
        """Whether reads after a position begin in files, which are then read in a slower lane."""
        trimmed = [self._store.trimmed_here(source) for source in sources or (None,)]
        return bool(self.index.numbers()) and after < max(trimmed)

    async def _oldest(
        self, source: LogSource, keep: Keep, now_seconds: float, room: OldestRoom
    ) -> Oldest | None:
        store = self._store
        return await self._kernel.reader.ask(
            lambda _: store.oldest_beyond(source, keep, now_seconds, room)
        )

    def keeps(self) -> Iterable[tuple[TopicRoot, Keep]]:
        """Return nothing: an archive is no part of the log."""
        return ()

    async def clean(self) -> int:
        """Remove what is too old, at each sweep of the log."""
        return await self.archiver.clean()

    def _listed(self) -> dict[str, dict[str, object]]:
        """Return a row for each part that has files, or should have."""
        names = self._store.log_parts()
        tried = {*self.index.numbers(), *self.archiver.names}
        return {str(number): self._row(number, names) for number in sorted(tried)}

    def _row(self, number: int, names: Mapping[int, tuple[str, int]]) -> dict[str, object]:
        chain = self.index.chain(number)
        return {
            "id": str(number),
            "source": names[number][0] if number in names else None,
            "files": len(chain),
            "after": chain[0].after if chain else None,
            "last": chain[-1].last if chain else None,
            "error": self.archiver.problem or None,
        }

    async def stop(self) -> None:
        """Finish the file that is being written."""
        if self._executor is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, int)  # behind it
            self._executor.shutdown(wait=False)
