"""The mirror: a cursor on the log, whose reader is a database.

It is on no write's path. Where the database is away or slow, it is behind, says so, and goes on
from the position that is stored there. A new one, one of another log, and one that is further
behind than the log reaches, is filled with the records first; meanwhile it has the old rows, and
new ones, of which none is older than what was there. Where retention has removed what it has not
applied yet, it reads the records that have changed since (``changed_records.py``).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, RETAINED, Event, Record
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.mirror.changed_records import ChangedRecords
from rowcast.features.mirror.columns import KEY, Row, key_of, row_of
from rowcast.features.mirror.database import STATEMENT_SECONDS, SWEEP_ROWS, MirrorDatabase, Place
from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.mirror")

T = TypeVar("T")

PAGE_EVENTS: Final = 2_000
"""In one transaction: some hundred kilobytes, and a tenth of a second."""
RETRY_SECONDS: Final = 1.0
"""Before a failed connection is tried again; doubled up to ``RETRY_SECONDS_MAX``."""
RETRY_SECONDS_MAX: Final = 30.0
PAUSE_SECONDS: Final = 0.1
"""Between two looks at the log: what comes meanwhile is one transaction."""
TURN_BYTES: Final = 64 * 1024
"""Of payloads that are decoded in one turn of the loop: about 3 ms."""
EVENT_BYTES: Final = 512
"""What a small event costs beside its payload, in bytes of payload."""
ANSWER_SECONDS: Final = 2.0 * STATEMENT_SECONDS
"""For one transaction; a database that says nothing for so long is cut off, and tried again. Its
own bound on statements does not end the wait for one that hangs."""
STOP_SECONDS: Final = 5.0
"""For what is under way when the server stops; it is applied again, or was."""
IDLE_SECONDS: Final = 60.0
"""After which its position is stored anew, when only others write: what the log then lets go of
before it is nothing that it needs."""


class Mirror:
    """The copies of some tables; ``database`` is used on a thread of its own."""

    def __init__(self, kernel: Kernel, tables: Sequence[Table], database: MirrorDatabase) -> None:
        self._kernel, self._tables, self._database = kernel, list(tables), database
        self._by_name = {table.name: table for table in tables}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rowcast-mirror")
        self._place = Place("", 0, 0)
        self._lacks_after = self._newest = 0
        """It lacks events after the first at most, and none after the second."""
        self.state = "connecting"
        self.problem = ""
        self._left_out = 0
        """Events whose record has a key that no index takes."""
        self.events = 0
        """Events applied since the start of the server."""
        self.changed = ChangedRecords()
        self.woken = asyncio.Event()
        self.woken.set()

    def offer(self, event: Event) -> None:
        """Note an event of its tables that is announced."""
        if event.seq:
            self._lack(event.seq, event.seq)
        self.changed.note(event)
        self.woken.set()

    def fall_behind(self, event: Event) -> None:
        """Note that there are events that are not offered, from this one on: those of a result."""
        announced = self._kernel.reader.announced()
        self._lack(event.seq, announced)
        self.changed.restart(announced)  # which records they are of is not noted
        self.woken.set()

    def _lack(self, first: int, last: int) -> None:
        if not self.lag:
            self._lacks_after = first - 1
        self._newest = last

    @property
    def lag(self) -> int:
        """How many positions it is behind, from the first event that it lacks to the last one.

        Before the database has first told its place it may lack the whole log.
        """
        return max(0, self._newest - max(self._place.position, self._lacks_after))

    def row(self) -> dict[str, object]:
        """Return what is told of it below ``$SYS``."""
        reader = self._kernel.reader
        return {
            "state": self.state,
            "position": f"{reader.epoch}:{self._place.position}",
            "behind": self.lag,
            "tables": sorted(self._by_name),
            "events": self.events,
            "left_out": self._left_out + self._database.refused,
            "stopped": dict(self._database.stopped),
            "error": self.problem or None,
        }

    # -- following ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the log for ever."""
        wait = RETRY_SECONDS
        self._newest = self._kernel.reader.announced()
        self.changed.restart(self._newest)
        while True:
            try:
                self._place = await self._do(self._database.open)
                await self._begin()
                self.problem, wait = "", RETRY_SECONDS
                while True:
                    await self._catch_up()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(IDLE_SECONDS):
                            await self.woken.wait()
                    self.woken.clear()
                    await asyncio.sleep(PAUSE_SECONDS)
            except Error as error:
                self._waits(error.message)
            except Exception:
                log.exception("the mirror in PostgreSQL failed, and tries again")
                self._waits("the server failed; its log has the reason")
            await asyncio.sleep(wait)
            wait = min(RETRY_SECONDS_MAX, wait * 2)

    def _waits(self, why: str) -> None:
        if why != self.problem:
            log.warning("the mirror in PostgreSQL falls behind: %s", why)
        self.state, self.problem = "waiting", why

    async def stop(self) -> None:
        """End the connection, after what is under way."""
        await self._do(self._database.close, STOP_SECONDS)
        self._thread.shutdown(wait=False)

    async def _do(self, work: Callable[[], T], seconds: float = ANSWER_SECONDS) -> T:
        """Return what the thread returns; after some seconds the database is cut off."""
        done = asyncio.get_running_loop().run_in_executor(self._thread, work)
        done.add_done_callback(lambda it: it.cancelled() or it.exception())  # nobody may wait
        await asyncio.wait((done,), timeout=seconds)
        if not done.done():
            self._database.cut()
        return await done

    async def _begin(self) -> None:
        reader, place = self._kernel.reader, self._place
        same = place.epoch == reader.epoch and place.position <= reader.announced()
        if not same:  # its position is one of another log
            self._place = place._replace(position=0)
        if not same or self._is_trimmed():
            await self._fill()
        self.state = "following"

    async def _fill(self) -> None:
        """Write the records as they are now, and those that change meanwhile."""
        self.state = "filling"
        reader, database = self._kernel.reader, self._database
        generation = await self._do(database.begin_filling)
        position, unfilled = reader.announced(), Place("", 0, generation)
        self.changed.restart(position)
        for table in self._tables:
            async for records in self._records(table):
                of_table = [one for one in records if _is_of(table, one)]
                rows = [row for row in (self._row(table, one) for one in of_table) if row[KEY]]
                await self._do(partial(database.fill, table.name, rows, generation))
                if len(self.changed) >= PAGE_EVENTS and self.changed.covers(position):
                    position = await self._apply_changed(unfilled)
        for table in self._tables:
            await self._sweep(table.name, generation)
        place = Place(reader.epoch, position, generation)
        await self._do(partial(database.filled, place))
        self._place = place

    async def _sweep(self, name: str, generation: int) -> None:
        """Remove the rows of a copy that an earlier filling has left, some at a time."""
        last: str | None = ""
        while last is not None:
            sweep = partial(self._database.sweep, name, generation, last or None, SWEEP_ROWS)
            last = await self._do(sweep)

    async def _records(self, table: Table) -> AsyncIterator[Sequence[Record]]:
        """Yield the records of a table as they are when each page is read.

        Not as of one position: what changes meanwhile is in the log after it, which is applied
        next, and a read of the past fails where the log has been trimmed.
        """
        topics, after, reader = TopicFilter.below(table.path or ""), "", self._kernel.reader
        while True:
            page = await reader.scan(table, topics, after, reader.table_scan_records)
            yield page.records
            if not page.more or not page.records:
                return
            after = page.records[-1].topic

    async def _catch_up(self) -> None:
        """Apply the log up to what is announced, a page in each transaction."""
        reader = self._kernel.reader
        while self._place.position < reader.announced():
            before = self._place
            if not self._is_trimmed():
                page = await reader.page(before.position, PAGE_EVENTS, self._tables)
            if self._is_trimmed():  # also while the page was read, which may lack something then
                await self._catch_up_without_log()
                continue
            after = before._replace(position=page.upto)
            changes = await self._changes(page.events)
            await self._do(partial(self._database.apply, changes, before, after))
            self._place = after
            self.events += len(page.events)
        self.changed.restart(self._place.position)

    def _is_trimmed(self) -> bool:
        return self._kernel.reader.trimmed(self._tables) > self._place.position

    async def _catch_up_without_log(self) -> None:
        """Write the records that have changed since, as they are now; all, if it is not known."""
        if not self.changed.covers(self._place.position):
            await self._fill()
            return
        position = await self._apply_changed(self._place)
        after = self._place._replace(position=position)
        await self._do(partial(self._database.apply, {}, self._place, after))
        self._place = after

    async def _apply_changed(self, place: Place) -> int:
        """Write the noted records as they are; return the position that they are of, at least."""
        position = self._kernel.reader.announced()
        topics = list(self.changed.take(position).items())
        for start in range(0, len(topics), PAGE_EVENTS):
            changes: dict[str, dict[str, Row | None]] = {}
            for topic, name in topics[start : start + PAGE_EVENTS]:
                table = self._by_name.get(name)
                key = "" if table is None else key_of(table, topic)
                if table is not None and key:
                    record = await self._kernel.reader.get(table, topic)
                    row = None if record is None else self._row(table, record)
                    changes.setdefault(name, {})[key] = row
            await self._do(partial(self._database.apply, changes, place, place))
        return position

    async def _changes(self, events: Sequence[Event]) -> dict[str, dict[str, Row | None]]:
        """Return the last of each record's events, by table and key."""
        found: dict[str, dict[str, Row | None]] = {}
        spent = 0
        for event in events:
            spent += EVENT_BYTES + len(event.payload)
            if spent > TURN_BYTES:
                spent = 0
                await asyncio.sleep(0)  # writes go first
            table = None if event.table is None else self._by_name.get(event.table.name)
            if table is None or event.kind not in RETAINED:
                continue
            key = key_of(table, event.topic)
            if not key:
                self._left_out += 1
                continue
            row = None if event.kind == DELETE else self._row(table, event)
            found.setdefault(table.name, {})[key] = row
        return found

    def _row(self, table: Table, event: Event) -> Row:
        structured = self._kernel.transcoder.structured(event)
        return row_of(table, event, event.decoded if structured else event.payload)


def _is_of(table: Table, event: Event) -> bool:
    """Whether a record is of a table, and not of one whose path is below its own."""
    return event.table is not None and event.table.name == table.name


def check_tables(tables: Sequence[Table]) -> None:
    """Raise INVALID where two tables would have one copy."""
    names = [table.name[:63] for table in tables]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Error(Code.INVALID, f"mirror.url: two tables would be {min(twice)!r}")
