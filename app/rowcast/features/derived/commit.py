"""The result of a run as records: one transaction, all or nothing, with the fact of the run.

Each row becomes the record of its key, written by ``job/<name>@<cut>``, which is its lineage;
unchanged rows make no event. Records that the result lacks are deleted.

Rows are compared with their records when they are read, page by page: nobody else writes the table.
Those that change something are kept in a file, and written together or staged, by their number
(``results/result_writing.py``).
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Final

from rowcast.codecs import JSON
from rowcast.core.derived_limits import JOB_COMMIT_TRIES, JOB_RETRY_SECONDS
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.limits import SCAN_PAGE_RECORDS
from rowcast.core.result_limits import RESULT_SLICE_ROWS
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.core.values import id_text
from rowcast.features.derived.writing import WRITER
from rowcast.kernel.kernel import Kernel
from rowcast.results.result_bounds import ChangeBounds
from rowcast.results.result_changes import Author, Changes
from rowcast.results.result_writing import write_result
from rowcast.results.topic_shards import TopicShards
from rowcast.store.store import Change
from rowcast.writes.write import Outcome, Receipt

_MEND: Final = "Aggregate further"
Counts = tuple[int, int]
"""How many rows were written, and how many removed."""
Conclude = Callable[[Counts], Sequence[Change]]
"""Returns the changes of facts in the transaction of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBounds(ChangeBounds):
    """How large a result may be."""

    size_bytes: int


class Result:
    """The rows of a run, checked; it is written by ``commit``, once, and closed.

    Those that change something are in a file of ``directory`` until then.
    """

    def __init__(
        self,
        kernel: Kernel,
        table: Table,
        run: tuple[str, str],
        bounds: ResultBounds,
        directory: Path,
    ) -> None:
        """``run``: the name of the job, and the cut."""
        self._kernel = kernel
        self._table = table
        self._bounds = bounds
        author = Author(*run, WRITER, "a job's result", alone=True)
        self._made = Changes(kernel, author, replace(bounds, mend=_MEND), str(directory))
        self._there = TopicShards(str(directory), bounds.held_bytes)
        """The topics of the records of the table."""
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Give back the disk; a commit that has not begun to be seen ends without a trace."""
        self._closed.set()
        self._made.close()
        self._there.discard()
        asyncio.get_running_loop().run_in_executor(None, self._there.close)

    async def read(self, file: Path) -> int:
        """Read the rows of a file, and what they replace; return how many rows it has.

        Raises Error for a row that is none. A thread reads the file.
        """
        size = (await asyncio.to_thread(file.stat)).st_size
        if size > self._bounds.size_bytes:
            most = self._bounds.size_bytes
            words = f"the result has {size} bytes, and one has at most {most}: results.bytes_max"
            raise Error(Code.TOO_LARGE, words)
        at = 0
        with file.open("rb") as opened:
            while lines := await asyncio.to_thread(_page, opened):
                events = [self._event(line, at + more) for more, line in enumerate(lines)]
                await self._made.add(events)
                at += len(lines)
        await self._remove_others()
        return at

    def _event(self, line: bytes, at: int) -> Event:
        key = self._table.primary_key
        row = json.loads(line)
        if key is None or not isinstance(row, dict) or row.get(key.name) is None:
            name = key.name if key is not None else "id"
            words = f"row {at} of the result has no {name!r}, which says which record it is"
            raise Error(Code.UNPROCESSABLE, words)
        topic = self._table.topic(id_text(row[key.name]))
        return Event(topic, PUT, line.strip(), JSON, 1, True)

    async def _remove_others(self) -> None:
        """Remove the records that the result lacks; only this job writes the table."""
        there = self._there
        await self._note_records()

        async def before(shard: int) -> frozenset[str]:
            return frozenset(await there.shard(shard))

        async for _ in self._made.compared(before):
            pass

    async def _note_records(self) -> None:
        topics, after = TopicFilter.below(self._table.path or ""), ""
        while True:
            page = await self._kernel.reader.scan(self._table, topics, after, SCAN_PAGE_RECORDS)
            await self._there.add(one.topic for one in page.records)
            if not page.more or not page.records:
                return
            after = page.records[-1].topic

    async def commit(self, conclude: Conclude) -> Counts:
        """Write it; returns when it is durable and announced. Raises the Error of a refusal."""
        for tries in range(JOB_COMMIT_TRIES):
            commit = _Commit(conclude)
            try:
                await write_result(self._kernel, self._made, commit, self._bounds)
            except Error as error:
                if error.code is not Code.BUSY or tries == JOB_COMMIT_TRIES - 1:
                    raise
                retry_seconds = error.detail.get("retry_after_seconds")
                wait = retry_seconds if isinstance(retry_seconds, int) else JOB_RETRY_SECONDS
            else:
                return commit.written, commit.removed
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._closed.wait()
        raise AssertionError


class _Commit:
    """What is counted of a result, and what is kept with it."""

    def __init__(self, conclude: Conclude) -> None:
        self._conclude = conclude
        self.written = self.removed = 0

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """Count what was written."""
        for outcome in outcomes:
            if isinstance(outcome, Receipt) and not outcome.late:
                self.removed += outcome.event.kind == DELETE
                self.written += outcome.event.kind != DELETE

    def conclude(self, _last: int) -> Sequence[Change]:
        """Return the changes of facts, once all is counted."""
        return self._conclude((self.written, self.removed))

    def pending_notices(self, _after: int, _last: int) -> Sequence[Change]:
        """Return nothing: no hook hears of the rows of a derived table."""
        return ()

    def seen(self) -> None:
        """Tell nobody."""


def _page(opened: IO[bytes]) -> list[bytes]:
    """Return the next lines of a result."""
    return list(islice(opened, RESULT_SLICE_ROWS))
