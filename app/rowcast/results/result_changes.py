"""What a result changes: its rows without those that are as their records, and what it removes.

It exists so that what all others wait for has only what changes, and so that no result is in memory
as a whole: what is to be written is in a file until then, and the topics of all rows are in another
one, of which a part at a time is looked at (``topic_shards.py``).

Where nothing depends on a record but whether the row is equal to it, a row is admitted and compared
once: what is staged of it needs neither again. A row that others made equal meanwhile is written.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.lineage import client_of
from rowcast.core.result_limits import (
    RESULT_SHARDS,
    RESULT_SLICE_ROWS,
    STAGED_PAGE_BYTES,
    STAGED_PAGE_ROWS,
)
from rowcast.core.tables import Table
from rowcast.results.result_bounds import ChangeBounds, too_many_changes
from rowcast.results.row_file import Page, RowFile
from rowcast.results.topic_shards import TopicShards
from rowcast.results.unchanged import Unchanged
from rowcast.rows.compiled_table import CompiledTable
from rowcast.writes.topic_marks import TopicMarks
from rowcast.writes.write import FIRE_AND_FORGET, Done, Write

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
            kernel.writes.admit(write, many=True)
        except Error as error:
            raise self._about(event, error) from error
        if event.table is None:
            words = "no table declares this topic, to which a hook has moved the row; a result has "
            raise Error(Code.UNPROCESSABLE, f"{words}rows of declared tables only")
        return write

    def _about(self, event: Event, error: Error) -> Error:
        if not self.alone:  # its rows were checked, and told by number, when they came
            return error
        return Error(error.code, f"{event.topic}: {error.message}")

    def check(self, kernel: "Kernel", event: Event) -> None:
        """Raise the Error of a row that is refused; no hook hears of it."""
        self.write(kernel, event, FIRE_AND_FORGET)

    def notifying(self, kernel: "Kernel") -> Done:
        """Return the callback for the outcome of each write."""
        done = FIRE_AND_FORGET
        return done if self.alone else kernel.gate.notifying(self.caller, done)


class TopicShard(NamedTuple):
    """A part of all topics, by their hashes."""

    number: int
    before: AbstractSet[str]
    """Those of the records that the result replaces."""
    rows: AbstractSet[str]
    """Those of its rows."""


class _Kept(NamedTuple):
    """A page of what is to be written in one table."""

    page: Page
    table: str
    simple: bool
    """Whether all its writes are admitted, and depend on no record."""


Before = Callable[[int], Awaitable[AbstractSet[str]]]
"""Returns the topics in a shard of the records that a result replaces."""


async def nothing_before(_shard: int) -> AbstractSet[str]:
    """Return no topics: a result that replaces nothing."""
    return frozenset()


class Changes:
    """The writes of one result; ``most`` says how many it may have.

    First all rows are added, then ``compared`` is read to its end.
    """

    def __init__(
        self, kernel: "Kernel", author: Author, most: ChangeBounds, directory: str | None
    ) -> None:
        self._kernel = kernel
        self.author = author
        self._client = client_of(author.job, author.cut)
        self._leave = Unchanged(author.job)
        self._most = most
        self._file = RowFile(directory)
        self._policy = kernel.rights.policy
        """By which rows are admitted."""
        self._pages: list[_Kept] = []
        self._others: set[str] = set()
        """The tables whose next page has writes that are not simple, by name."""
        self._kept: dict[str, list[Event]] = {}
        """What is to go into the next page of each table, by its name."""
        self._kept_bytes: Counter[str] = Counter()
        self.count = 0
        """How many there are."""
        self.topics = TopicShards(directory, most.held_bytes)
        """The topics of all rows."""
        self.written = TopicMarks()
        """Where something is written or removed."""
        self.tables: dict[str, Table] = {}
        """The tables of all writes, by name."""

    async def add(self, events: Sequence[Event]) -> None:
        """Add a page of rows; the records that they are compared with are read together."""
        kept = [event.changed() for event in events]
        writes = [self._write(event) for event in events]
        wanted = [(write.event.table, write.event.topic) for write in writes]
        found = await self._kernel.committer.records(wanted)
        for write, event in zip(writes, kept, strict=True):
            if self._leave.leaves(write, found.get(write.event.topic)):
                continue
            table, simple = cast("Table", write.event.table), _simple(write)  # it is admitted
            await self._keep(write.event if simple else event, table, simple=simple)
        await self.topics.add(write.event.topic for write in writes)

    def _write(self, event: Event) -> Write:
        event.client = self._client
        write = self.author.write(self._kernel, event, FIRE_AND_FORGET)
        if not self.author.alone:
            self._kernel.rights.check_write(write.event.topic, self.author.caller, PUT)
        return write

    async def compared(self, before: Before) -> AsyncIterator[TopicShard]:
        """Remove the records of before for which there is no row; yield both, shard by shard.

        What no table declares any more is left: nobody sees the rows of such a table. Raises
        CONFLICT where two rows have one topic.
        """
        for number in range(RESULT_SHARDS):
            topics = await self.topics.shard(number)
            shard = TopicShard(number, await before(number), frozenset(topics))
            if len(shard.rows) < len(topics):
                raise _twice(topics)
            for topic in sorted(shard.before - shard.rows):
                table = self._kernel.registry.table_at(topic)
                if table is not None:
                    await self._keep(Event(topic, DELETE, b"", None, 1, True), table, simple=False)
            yield shard

    def has(self, topic: str) -> bool:
        """Whether something may be written at a topic; of some others it says so, too."""
        return self.written.has(topic)

    async def _keep(self, event: Event, table: Table, *, simple: bool) -> None:
        if self.count >= self._most.changes:
            raise too_many_changes(f"more than {self._most.changes} changes", self._most)
        name = table.name
        self.tables[name] = table
        self.written.add(event.topic)
        self.count += 1
        if not simple:
            self._others.add(name)
        kept = self._kept.setdefault(name, [])
        kept.append(event)
        self._kept_bytes[name] += len(event.payload)
        if len(kept) >= STAGED_PAGE_ROWS or self._kept_bytes[name] >= STAGED_PAGE_BYTES:
            await self._store(name)

    async def _store(self, name: str) -> None:
        """Write a page of the rows of one table."""
        page = self._file.page(self._kept.pop(name))
        self._pages.append(_Kept(page, name, name not in self._others))
        self._others.discard(name)
        del self._kept_bytes[name]
        await asyncio.to_thread(self._file.write, page)

    async def pages(self, decided: Collection[str] = ()) -> AsyncIterator[list[Write]]:
        """Yield what is to be written, a page at a time, each of one table.

        Those of the tables ``decided`` need not be compared again, where they are simple.
        """
        for name in list(self._kept):
            await self._store(name)
        for page, table, simple in self._pages:
            events = await asyncio.to_thread(self._file.read_all, page, self.tables)
            same = self._policy is self._kernel.rights.policy
            make = self._again
            if simple and same and table in decided:
                make = partial(self._once, self._kernel.registry.shapes[table])
            notifying = self.author.notifying(self._kernel)
            writes: list[Write] = []
            for at, event in enumerate(events):
                event.client = self._client
                writes.append(make(event, notifying))
                if not at % RESULT_SLICE_ROWS:
                    await asyncio.sleep(0)  # yield to the loop
            yield writes

    def _again(self, event: Event, done: Done) -> Write:
        """Return a write that is admitted, and compared when it is decided."""
        write = self.author.write(self._kernel, event, done)
        if event.kind != DELETE or not self.author.alone:
            self._leave.decide_on(write)
        return write

    def _once(self, shape: CompiledTable, event: Event, done: Done) -> Write:
        """Return a write that was admitted and compared."""
        author = self.author
        return Write(event, author.caller, done, None, shape, passed=True, part_of=author.part_of)

    def close(self) -> None:
        """Give back the disk."""
        for file in (self._file, self.topics):
            file.discard()
            asyncio.get_running_loop().run_in_executor(None, file.close)


def _simple(write: Write) -> bool:
    """Whether an admitted put depends on no record, and has nothing that comes with it."""
    return not (
        write.depends or write.follows or write.versioned or write.changes or write.conclude
    ) and (write.logged and write.shape is not None and not write.shape.ends)


def _twice(topics: Sequence[str]) -> Error:
    ((topic, _),) = Counter(topics).most_common(1)
    return Error(
        Code.CONFLICT,
        f"two rows of the result are for {topic}; a result has one row for each key",
    )
