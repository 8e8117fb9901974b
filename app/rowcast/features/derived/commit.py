"""The result of a run as records: one group, all or nothing, with the fact of the run.

Each row becomes the record of its key, written by ``job/<name>@<cut>``, which is its lineage;
unchanged rows make no event. Records that the result lacks are deleted.

Rows are compared with their records when they are read, page by page: nobody else writes the table,
so only those that change something are in memory, and in the group for which other writers wait.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Final, cast

from rowcast.codecs import JSON
from rowcast.core.derived_limits import JOB_COMMIT_TRIES, JOB_RETRY_SECONDS
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.limits import COMMIT_BACKLOG_EVENTS_MAX, SCAN_PAGE_RECORDS
from rowcast.core.lineage import client_of
from rowcast.core.result_limits import RESULT_GROUP_CHANGES_MAX, RESULT_SLICE_ROWS
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.core.values import id_text
from rowcast.features.derived.writing import WRITER
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.unchanged import Unchanged
from rowcast.kernel.write import UNAWAITED, Group, Outcome, Receipt, Write, resolver
from rowcast.store.store import Change

PART: Final = "a job's result"
Counts = tuple[int, int]
"""How many rows were written, and how many removed."""
Conclude = Callable[[Counts], Sequence[Change]]
"""Returns the changes of facts in the transaction of the result."""


@dataclass(frozen=True, slots=True)
class ResultBounds:
    """How large a result may be."""

    size_bytes: int
    changes: int
    """Rows that it writes or removes."""


class Result:
    """The rows of a run, checked; it is written by ``commit``."""

    def __init__(
        self, kernel: Kernel, table: Table, job: str, cut: str, bounds: ResultBounds
    ) -> None:
        self._kernel = kernel
        self._table = table
        self._bounds = bounds
        self._client = client_of(job, cut)
        self._leave = Unchanged(job)
        self._topics: set[str] = set()
        self._changes: list[Event] = []

    async def read(self, file: Path) -> int:
        """Read the rows of a file, and what they replace; return how many rows it has.

        Raises Error for a row that is none. A thread reads the file.
        """
        size = (await asyncio.to_thread(file.stat)).st_size
        if size > self._bounds.size_bytes:
            most = self._bounds.size_bytes
            words = f"the result has {size} bytes, and one has at most {most}: results.bytes_max"
            raise Error(Code.TOO_LARGE, words)
        with file.open("rb") as opened:
            while lines := await asyncio.to_thread(_page, opened):
                await self._take([self._event(line) for line in lines])
        await self._remove()
        return len(self._topics)

    def _event(self, line: bytes) -> Event:
        at = len(self._topics)
        key = self._table.primary_key
        row = json.loads(line)
        if key is None or not isinstance(row, dict) or row.get(key.name) is None:
            name = key.name if key is not None else "id"
            words = f"row {at} of the result has no {name!r}, which says which record it is"
            raise Error(Code.UNPROCESSABLE, words)
        topic = self._table.topic(id_text(row[key.name]))
        if topic in self._topics:
            words = f"two rows of the result are for {topic}; a result has one row for each key"
            raise Error(Code.CONFLICT, words)
        self._topics.add(topic)
        return Event(topic, PUT, line.strip(), JSON, 1, True, client=self._client)

    async def _take(self, events: Sequence[Event]) -> None:
        """Keep the rows of a page that are not as their records."""
        wanted = [(self._table, event.topic) for event in events]
        found = await self._kernel.committer.records(wanted)
        for event in events:
            if not self._leave.leaves(self._write(event.changed()), found.get(event.topic)):
                self._keep(event)

    def _keep(self, event: Event) -> None:
        if len(self._changes) >= self._bounds.changes:
            raise Error(
                Code.TOO_LARGE,
                f"the result changes more than {self._bounds.changes} rows at once, and all other "
                "writers would wait for it: aggregate further, or set results.changes_max, "
                f"here up to {RESULT_GROUP_CHANGES_MAX}",
            )
        self._changes.append(event)

    async def _remove(self) -> None:
        """Remove the records that the result lacks; only this job writes the table."""
        topics, after = TopicFilter.below(self._table.path or ""), ""
        while True:
            page = await self._kernel.reader.scan(self._table, topics, after, SCAN_PAGE_RECORDS)
            for one in page.records:
                if one.topic not in self._topics:
                    self._keep(Event(one.topic, DELETE, b"", None, 1, True, client=self._client))
            if not page.more or not page.records:
                return
            after = page.records[-1].topic

    async def commit(self, conclude: Conclude) -> Counts:
        """Write it; returns when it is durable and announced. Raises the Error of a refusal."""
        for tries in range(JOB_COMMIT_TRIES):
            try:
                return await self._commit(conclude)
            except Error as error:
                if error.code is not Code.BUSY or tries == JOB_COMMIT_TRIES - 1:
                    raise
            await asyncio.sleep(JOB_RETRY_SECONDS)
        raise AssertionError

    async def _commit(self, conclude: Conclude) -> Counts:
        writes = await self._admitted()
        if not writes:
            self._kernel.committer.keep(conclude((0, 0)))
            await self._kernel.committer.durable()
            return 0, 0
        counts: list[Counts] = []

        def concluded(receipts: Sequence[Outcome]) -> Sequence[Change]:
            events = [cast("Receipt", one) for one in receipts]
            done = [one.event.kind for one in events if not one.late]
            counts[:] = [(len(done) - done.count(DELETE), done.count(DELETE))]
            return conclude(counts[0])

        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        group = Group(writes, concluded)
        for write in writes:
            write.group = group
        writes[-1].done = resolver(future)
        self._kernel.writes.append(writes, len(writes) + COMMIT_BACKLOG_EVENTS_MAX)
        outcome = await asyncio.shield(future)
        if isinstance(outcome, Error):
            raise outcome
        return counts[0]

    async def _admitted(self) -> list[Write]:
        """Return the writes of all changes, checked like any write."""
        writes: list[Write] = []
        for at, event in enumerate(self._changes):
            write = self._write(event.changed())
            if event.kind == PUT:
                self._leave.decide_on(write)
            writes.append(write)
            if not at % RESULT_SLICE_ROWS:
                await asyncio.sleep(0)  # yield to the loop
        return writes

    def _write(self, event: Event) -> Write:
        write = Write(event, WRITER, UNAWAITED, passed=True, part_of=PART)
        try:
            self._kernel.writes.admit(write)
        except Error as error:
            raise Error(error.code, f"{event.topic}: {error.message}") from error
        return write


def _page(opened: IO[bytes]) -> list[bytes]:
    """Return the next lines of a result."""
    return list(islice(opened, RESULT_SLICE_ROWS))
