"""What a result changes: its rows without those that are as their records, and what it removes.

It exists so that what all others wait for has only what changes, and so that no result is in memory
as a whole: what is to be written is in a file until then, and of every row only its topic is kept.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.lineage import client_of
from rowcast.core.result_limits import RESULT_SLICE_ROWS, STAGED_PAGE_BYTES, STAGED_PAGE_ROWS
from rowcast.core.tables import Table
from rowcast.results.result_bounds import ChangeBounds, too_many_changes
from rowcast.results.row_file import Page, RowFile
from rowcast.results.unchanged import Unchanged
from rowcast.writes.write import UNAWAITED, Done, Write

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Author:
    """Whose result it is: the job's, computed from a cut, and written by a caller."""

    job: str
    cut: str
    caller: Caller
    part_of: str = "a result"
    """What its rows are part of, for the error of a row that cannot be."""
    alone: bool = False
    """Whether nobody else writes the table: then it removes any record there, no right of its
    caller is checked, and no hook hears of its rows."""

    def write(self, kernel: "Kernel", event: Event, done: Done) -> Write:
        """Return the write of a row; raises the Error of one that is refused."""
        write = Write(event, self.caller, done, passed=True, part_of=self.part_of)
        try:
            kernel.writes.admit(write)
        except Error as error:
            raise self._about(event, error) from error
        return write

    def _about(self, event: Event, error: Error) -> Error:
        if not self.alone:  # its rows were checked, and told by number, when they came
            return error
        return Error(error.code, f"{event.topic}: {error.message}")

    def check(self, kernel: "Kernel", event: Event) -> None:
        """Raise the Error of a row that is refused; no hook hears of it."""
        self.write(kernel, event, UNAWAITED)

    def telling(self, kernel: "Kernel") -> Done:
        """Return what is told of the outcome of each write."""
        return UNAWAITED if self.alone else kernel.gate.telling(self.caller, UNAWAITED)


class Changes:
    """The writes of one result; ``most`` says how many it may have."""

    def __init__(
        self, kernel: "Kernel", author: Author, most: ChangeBounds, directory: str | None
    ) -> None:
        self._kernel = kernel
        self.author = author
        self._client = client_of(author.job, author.cut)
        self._leave = Unchanged(author.job)
        self._most = most
        self._file = RowFile(directory)
        self._pages: list[Page] = []
        self._kept: dict[str, list[Event]] = {}
        """What is to go into the next page of each table, by its name."""
        self._kept_bytes: Counter[str] = Counter()
        self.count = 0
        """How many there are."""
        self.topics: dict[str, bool] = {}
        """The topics of all rows, and whether each is written."""
        self.removed: set[str] = set()
        """The topics of records that are removed."""
        self.tables: dict[str, Table] = {}
        """The tables of all writes, by name."""

    async def add(self, events: Sequence[Event]) -> None:
        """Add a page of rows; the records that they are compared with are read together."""
        kept = [event.changed() for event in events]
        writes = [self._write(event) for event in events]
        wanted = [(write.event.table, write.event.topic) for write in writes]
        found = await self._kernel.committer.records(wanted)
        for write, event in zip(writes, kept, strict=True):
            topic = write.event.topic
            if not self._leave.leaves(write, found.get(topic)):
                self.topics[topic] = True
                await self._keep(event, cast("Table", write.event.table))  # it is admitted

    def _write(self, event: Event) -> Write:
        event.client = self._client
        write = self.author.write(self._kernel, event, UNAWAITED)
        topic = write.event.topic
        if not self.author.alone:
            self._kernel.rights.check_write(topic, self.author.caller, PUT)
        if topic in self.topics:
            raise Error(
                Code.CONFLICT,
                f"two rows of the result are for {topic}; a result has one row for each key",
            )
        self.topics[topic] = False
        return write

    async def remove(self, topics: AbstractSet[str]) -> None:
        """Remove the records at these topics for which there was no row.

        What no table declares any more is left: nobody sees the rows of such a table.
        """
        for topic in sorted(topics - self.topics.keys()):
            table = self._kernel.registry.table_at(topic)
            if table is not None:
                self.removed.add(topic)
                await self._keep(Event(topic, DELETE, b"", None, 1, True), table)

    def has(self, topic: str) -> bool:
        """Whether something is written at a topic."""
        return self.topics.get(topic, False) or topic in self.removed

    async def _keep(self, event: Event, table: Table) -> None:
        if self.count >= self._most.changes:
            raise too_many_changes(f"more than {self._most.changes} changes", self._most)
        name = table.name
        self.tables[name] = table
        self.count += 1
        kept = self._kept.setdefault(name, [])
        kept.append(event)
        self._kept_bytes[name] += len(event.payload)
        if len(kept) >= STAGED_PAGE_ROWS or self._kept_bytes[name] >= STAGED_PAGE_BYTES:
            await self._store(name)

    async def _store(self, name: str) -> None:
        """Write a page of the rows of one table."""
        self._pages.append(self._file.page(self._kept.pop(name)))
        del self._kept_bytes[name]
        await asyncio.to_thread(self._file.write, self._pages[-1])

    async def pages(self) -> AsyncIterator[list[Write]]:
        """Yield what is to be written, a page at a time, each of one table."""
        for name in list(self._kept):
            await self._store(name)
        author = self.author
        for page in self._pages:
            events = await asyncio.to_thread(self._file.read_all, page, self.tables)
            writes: list[Write] = []
            for at, event in enumerate(events):
                event.client = self._client
                write = author.write(self._kernel, event, author.telling(self._kernel))
                if event.kind != DELETE or not author.alone:
                    self._leave.decide_on(write)
                writes.append(write)
                if not at % RESULT_SLICE_ROWS:
                    await asyncio.sleep(0)  # yield to the loop
            yield writes

    def close(self) -> None:
        """Give back the disk."""
        self._file.discard()
        asyncio.get_running_loop().run_in_executor(None, self._file.close)
