"""The result of a run as records: one group, all or nothing, with the fact of the run.

Each row becomes the record of its key, written by ``job/<name>@<cut>``, which is its lineage;
unchanged rows make no event. Records that the result lacks are deleted.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

from rowcast.codecs import JSON
from rowcast.core.derived_limits import JOB_COMMIT_TRIES, JOB_RETRY_SECONDS
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.limits import SCAN_PAGE_RECORDS
from rowcast.core.lineage import client_of
from rowcast.core.result_limits import RESULT_BYTES_MAX, RESULT_ROWS_MAX, RESULT_SLICE_ROWS
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.core.values import id_text
from rowcast.features.derived.writing import WRITER
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.unchanged import Unchanged
from rowcast.kernel.write import UNHEARD, Group, Outcome, Receipt, Write, resolver
from rowcast.store.store import Change

PART: Final = "a job's result"
Counts = tuple[int, int]
"""How many rows were written, and how many removed."""
Conclude = Callable[[Counts], Sequence[Change]]
"""Returns the changes of facts in the transaction of the result."""


class Result:
    """The rows of a run, checked; it is written by ``commit``."""

    def __init__(self, kernel: Kernel, table: Table, job: str, cut: str) -> None:
        self._kernel = kernel
        self._table = table
        self._job = job
        self._client = client_of(job, cut)
        self._events: dict[str, Event] = {}
        self._gone: list[str] = []

    async def read(self, file: Path) -> int:
        """Read the rows of a file, and what they replace; return how many rows it has.

        Raises Error for a row that is none. A thread reads the file.
        """
        for at, line in enumerate(await asyncio.to_thread(_lines, file)):
            self._add(line)
            if not at % RESULT_SLICE_ROWS:
                await asyncio.sleep(0)  # yield to the loop
        await self._compare()
        return len(self._events)

    def _add(self, line: bytes) -> None:
        at = len(self._events)
        key = self._table.primary_key
        row = json.loads(line)
        if key is None or not isinstance(row, dict) or row.get(key.name) is None:
            name = key.name if key is not None else "id"
            words = f"row {at} of the result has no {name!r}, which says which record it is"
            raise Error(Code.UNPROCESSABLE, words)
        topic = self._table.topic(id_text(row[key.name]))
        if topic in self._events:
            words = f"two rows of the result are for {topic}; a result has one row for each key"
            raise Error(Code.CONFLICT, words)
        if at >= RESULT_ROWS_MAX:
            raise Error(Code.TOO_LARGE, f"the result has more than {RESULT_ROWS_MAX} rows")
        self._events[topic] = Event(topic, PUT, line.strip(), JSON, 1, True, client=self._client)

    async def _compare(self) -> None:
        """Note the records that the result lacks; only this job writes the table."""
        topics, after = TopicFilter.below(self._table.path or ""), ""
        while True:
            page = await self._kernel.reader.scan(self._table, topics, after, SCAN_PAGE_RECORDS)
            self._gone += [one.topic for one in page.records if one.topic not in self._events]
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
        self._kernel.writes.append(writes, RESULT_ROWS_MAX * 3)
        outcome = await asyncio.shield(future)
        if isinstance(outcome, Error):
            raise outcome
        return counts[0]

    async def _admitted(self) -> list[Write]:
        """Return the writes of all rows and removals, checked like any write."""
        leave = Unchanged(self._job)
        events = [event.changed() for event in self._events.values()]
        events += [
            Event(topic, DELETE, b"", None, 1, True, client=self._client) for topic in self._gone
        ]
        writes: list[Write] = []
        for at, event in enumerate(events):
            write = Write(event, WRITER, UNHEARD, passed=True, part_of=PART)
            try:
                self._kernel.writes.admit(write)
            except Error as error:
                raise Error(error.code, f"{event.topic}: {error.message}") from error
            if event.kind == PUT:
                leave.decide_on(write)
            writes.append(write)
            if not at % RESULT_SLICE_ROWS:
                await asyncio.sleep(0)  # yield to the loop
        return writes


def _lines(file: Path) -> list[bytes]:
    """Return the lines of a result; raises TOO_LARGE."""
    with file.open("rb") as opened:
        read = opened.read(RESULT_BYTES_MAX + 1)
    if len(read) > RESULT_BYTES_MAX:
        raise Error(Code.TOO_LARGE, f"the result has more than {RESULT_BYTES_MAX} bytes")
    return read.splitlines()
