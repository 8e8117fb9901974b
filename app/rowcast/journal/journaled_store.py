"""The store of a server: the log first, the tables as its reader.

``append`` is the only way in: it seals a batch, appends it to the log, which is one synced write,
and has it applied. From then on the tail has what the tables lack. So a write costs no page of the
tables before it is answered, and a kill costs nothing: the log is applied again from the batch that
the tables name.

Reads never go back in time: a record comes from the tail or else from the tables; every other read
waits until the tables have what was in the log when it was asked.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from operator import attrgetter
from typing import Final, TypeVar

from rowcast.core.clock import PER_SECOND, WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, Record
from rowcast.core.facts import Change
from rowcast.core.grouping import Grouping, GroupRow
from rowcast.core.number_gaps import NumberGaps
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.journal import operations
from rowcast.journal.applying import Applied, Applying, catch_up
from rowcast.journal.packed import Packed
from rowcast.journal.tail import Nothing, Tail
from rowcast.journal.unapplied import check_unapplied
from rowcast.log.batch import Batch, Body
from rowcast.log.batch_content import Content, Operation, Origin
from rowcast.log.log import Log, fenced
from rowcast.store.older_rows import OlderRows, Oldest, OldestRoom
from rowcast.store.read_limit import ReadLimit
from rowcast.store.records import Layout
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Figures, Keep, Lag, Page, Scan, StagedCount, StagedPage

T = TypeVar("T")
_VERSION: Final = attrgetter("version")

ROOM_SECONDS: Final = 10.0
"""How long a write waits for tables that are behind, before it is refused: a disk that has not
written a tenth of a second's events by then does not work."""
READ_SECONDS: Final = 30.0
"""The same for a read, the default of ``store.query_timeout``; and for a change of the tables, such
as those of a start, where the applier may take seconds on a busy machine."""

GAPS: Final = ("log", "gaps")
"""The owner and the name of the fact with the gaps in the numbers of the log."""


class JournaledStore:
    """Log, tail and tables of one server; ``open`` opens the tables."""

    sweeps = True
    """Whether staged pages that are found at the start are deleted: only this process appends."""

    def __init__(
        self,
        tables: SqlStore,
        log: Log,
        applying: Applying,
        now: WallClock,
        tail: Tail | None = None,
        room_seconds: float = ROOM_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._tables = tables
        self._log = log
        self.applying = applying
        self._now = now
        self.tail = tail or Tail()
        self._room_seconds = room_seconds
        self._read_seconds = read_seconds
        self.epoch = tables.epoch
        """Eight hexadecimal digits that name this log."""
        self._layouts: dict[str | None, Layout] = {None: Layout(None)}
        self._numbered: dict[str, Layout] = {}
        """Of tables whose ids are numbers."""
        self._head = self._reserved = self._last_version = 0
        self._gaps = NumberGaps()
        self.on_applied: Callable[[Applied], None] | None = None
        """Called with each report of the applier, on its thread; must not raise."""
        self.on_appended: Callable[[Batch], None] | None = None
        """Called on the writer thread with each batch that is durable, in order; must not raise."""

    @property
    def log(self) -> Log:
        """The log, for readers that follow it."""
        return self._log

    def open(self, tables: Sequence[Table]) -> None:
        """Open the tables, apply what they lack of the log, and begin to follow it.

        Files of the log that the tables have are removed.
        Raises INVALID when the tables cannot be migrated to these, BUSY when the disk refuses.
        """
        if self.sweeps:
            check_unapplied(self._tables, self._log, tables)
        layouts = {table.name: Layout(table) for table in tables}
        self._layouts.update(layouts)
        self._numbered = {name: layout for name, layout in layouts.items() if layout.integer}
        self._tables.open(tables)
        catch_up(self._tables, self._log, tables)
        if self.sweeps:
            self._tables.finish_staged()
        self._tables.sync()
        self._log.trim(self._tables.applied())
        self.tail.applied = self._log.head.number
        self._head = max(self._tables.head(), self._log.head.last)
        self._reserved = self._tables.reserved()
        self._gaps = NumberGaps.read(self._tables.facts([GAPS]).get(GAPS, b""), self._head)
        self._last_version = self._tables.last_version()
        self.applying.start(tables, self._log.head.number, self._take_applied)

    def _take_applied(self, applied: Applied) -> None:
        if applied.report is not None:
            self._tables.note(applied.report)
        self.tail.take_applied(applied.number, applied.results, applied.problem)
        if self.on_applied is not None:
            self.on_applied(applied)

    def close(self) -> None:
        """Apply the rest, and close log and tables."""
        self.applying.stop()
        self._log.close()
        self._tables.close()

    # -- the writer thread -------------------------------------------------------------------------

    def pack(
        self,
        events: Sequence[Event],
        changes: Sequence[Change] = (),
        operations: Sequence[Operation] = (),
        origins: Sequence[Origin] = (),
    ) -> Packed:
        """Encode a batch, on any thread.

        Raises TOO_LARGE when it must be divided, INVALID for a topic that can have no record.
        """
        if self._numbered:
            for event in events:
                if event.table is not None and event.table.name in self._numbered:
                    self._numbered[event.table.name].key(event.topic)
        return Packed(Body.of(Content(events, changes, operations, origins)), events, changes)

    @property
    def is_behind(self) -> bool:
        """Whether the tables are so far behind the log that writers wait."""
        return self.tail.is_behind

    def append(self, packed: object, *, may_outrun_tables: bool = False) -> int:
        """Append a batch of ``pack``; return its number. On return it is durable.

        It waits for tables that lag; ``may_outrun_tables``: only where they lag much more.
        Raises BUSY when the disk refuses, when the tables are too far behind, and when another
        node has appended: then this one must not number writes any more.
        """
        if not isinstance(packed, Packed):
            raise TypeError(packed)
        tail, log, body = self.tail, self._log, packed.body
        newest = log.head.number
        large = tail.large_events > 0 and tail.is_large(len(packed.events))
        if large or (tail.applied < newest and tail.is_behind):
            self.applying.hurry(newest)
            if not tail.wait_for_room(self._room_seconds, outrun=may_outrun_tables, large=large):
                raise self._not_followed()
        number = newest + 1
        # The newest version is the time of its writer, without asking the clock again.
        made_at = (
            max(map(_VERSION, packed.events)) if body.events else int(self._now() * PER_SECOND)
        )
        batch = Batch.seal(number, log.term, self._head, body, made_at)
        try:
            log.append(batch)
        except Error as error:
            if error.code is not Code.CONFLICT:
                raise
            raise fenced(error.message.partition("; ")[0]) from error
        if body.events:
            self._head = body.last
            self._last_version = max(self._last_version, made_at)
        tail.add(batch, packed.events, packed.changes)
        self.applying.push(number)
        if self.on_appended is not None:
            self.on_appended(batch)
        return number

    def commit(self, events: Sequence[Event], changes: Sequence[Change] = ()) -> None:
        """Write events and changes: all or none; on return they are durable."""
        if events or changes:
            self.append(self.pack(events, changes))

    def begin_term(self, changes: Sequence[Change] = ()) -> None:
        """Append facts, and that nobody will see what an earlier writer has staged; raises BUSY.

        From then on no earlier writer can append any more.
        """
        self.append(self.pack((), changes, (operations.abandon(),)))

    def _operate(self, operation: Operation, *, hasty: bool = False) -> "Future[list[int]]":
        """Append an operation; return what will have its result once it is applied."""
        packed = self.pack((), (), (operation,))
        result = self.tail.result(self._log.head.number + 1, hasty=hasty)
        self.append(packed)
        return result

    def _operate_now(self, operation: Operation) -> int:
        """Carry out an operation, and wait until it is applied; raises BUSY."""
        result = self._operate(operation)
        self._caught_up()
        return _result(result.result())  # it is set right after the batch is noted as applied

    def reserve(self, seq: int, first: int = 0) -> None:
        """Reserve numbers up to ``seq`` durably, so that none is reused after a restart.

        ``first`` is the number of the next event, 0 if it is not known: those before are a gap.
        """
        if seq > self._reserved:
            gaps, changes = self._with_gap(first - 1)
            self.append(self.pack((), changes, (operations.reserve(seq),)))
            self._reserved, self._gaps = seq, gaps

    def _with_gap(self, last: int) -> tuple[NumberGaps, Sequence[Change]]:
        """Return the gaps with one after the head, if there is one, and how they are stored."""
        if last <= self._head:
            return self._gaps, ()
        gaps = self._gaps.with_gap(self._head, last)
        return gaps, (Change(*GAPS, gaps.encoded()),)

    def return_versions(self, version: int) -> None:
        """Reset the last version durably, because a clock was ahead."""
        if version < self._last_version:
            self.append(self.pack((), (), (operations.return_versions(version),)))
            self._last_version = version

    def stage(
        self, table: Table, after: int, page: StagedPage, *, yields: bool = False
    ) -> "Future[list[int]]":
        """Log an invisible page of a large result for a table; done once the tables have it.

        ``page``: its events, and changes of facts. ``yields``: newer writes win over its rows.
        It is BUSY as soon as the tables cannot be written, as on a full disk.
        """
        return self._operate(operations.stage(table, after, page, yields=yields), hasty=True)

    def superseded(self) -> tuple[int, int, int]:
        """Return how many puts and deletions of what is staged have given way, and their bytes."""
        return self._caught_up().superseded()

    def switch(self, last: int, counts: Sequence[StagedCount], changes: Sequence[Change]) -> None:
        """Let all see what was staged: so much of each table, up to a number.

        It is one batch with changes of facts: all or none.
        """
        before, operation = self._head, operations.switch(last, counts)
        gaps, more = self._with_gap(last - sum(count for _, count, _ in counts))
        packed = self.pack((), (*changes, *more), (operation,))
        self._head = last  # the batch says so
        try:
            self.append(packed)
        except BaseException:
            self._head = before
            raise
        self._gaps = gaps

    def abandon(self) -> None:
        """Forget what was staged."""
        self._operate(operations.abandon())

    def lookup(self, wanted: Sequence[tuple[Table | None, str]]) -> dict[str, Record]:
        """Return the current records of these topics, by topic; absent ones are left out."""
        found: dict[str, Record] = {}
        rest: list[tuple[Table | None, str]] = []
        for table, topic in wanted:
            known = self.recall(table, topic)
            if isinstance(known, Nothing):
                rest.append((table, topic))
            elif known is not None:
                found[topic] = known
        return found | self._tables.lookup(rest) if rest else found

    def recall(self, table: Table | None, topic: str) -> Record | Nothing | None:
        """Return the record at a topic if the tail has it, in the form of the tables."""
        known = self._newest(topic)
        if known is None or isinstance(known, Nothing):
            return known
        layout = self._layouts[None if table is None else table.name]
        return layout.record(known)

    def _newest(self, topic: str) -> Record | Nothing | None:
        """Return what the tail has of a topic."""
        return self.tail.find(topic)

    def facts(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the values of these facts, by owner and name; absent ones are left out."""
        known = {place: self.tail.fact(*place) for place in places}
        rest = [place for place, value in known.items() if isinstance(value, Nothing)]
        found = self._tables.facts(rest) if rest else {}
        return found | {p: v for p, v in known.items() if isinstance(v, bytes)}

    def trim(self, source: LogSource, keep: Keep, now_seconds: float, limit: int) -> "Future[int]":
        """Have a part's oldest events beyond ``keep`` deleted; the result is how many.

        What the tables do not have yet is left to the next trim.
        """
        done: Future[int] = Future()
        limited = keep.seconds or keep.events or keep.bytes
        if not (limited and self._tables.is_beyond(source, keep, now_seconds)):
            done.set_result(0)  # nothing goes into the log for it
            return done
        work = self._operate(operations.trim(source, keep, now_seconds, limit))

        def told(found: "Future[list[int]]") -> None:
            if done.set_running_or_notify_cancel():
                done.set_result(_result(found.result()))

        work.add_done_callback(told)
        return done

    def define(self, *tables: TopicTable) -> None:
        """Create tables of branches, all or none: their new events form separate parts."""
        if self._caught_up().missing(tables):
            self._operate_now(operations.define(tables))

    def drop(self, table: TopicTable) -> None:
        """Drop a branch's table with its events; no effect if it does not exist."""
        if not self._caught_up().missing([table]):
            self._operate_now(operations.drop(table))

    def tidy(self, limit: int) -> "bool | Future[bool]":
        """Do a step of deferred work of the tables; return whether more is left."""
        return self.applying.tidy(limit)

    # -- any thread --------------------------------------------------------------------------------

    def caught_up(self) -> None:
        """Wait until the tables have all that is in the log now; raises BUSY."""
        self._caught_up()

    def _caught_up(self) -> SqlStore:
        number = self._log.head.number
        if self.tail.applied < number:
            self.applying.hurry(number)
            if not self.tail.wait(number, self._read_seconds):
                raise self._not_followed()
        return self._tables

    def _not_followed(self) -> Error:
        why = self.tail.problem or (
            "the tables do not follow the log; look for messages of the applier in the "
            "server's output"
        )
        return Error(Code.BUSY, why, retry_after_seconds=1)

    def limited(self, limit: ReadLimit, call: Callable[[], T]) -> T:
        """Run reads on this thread under a limit; raises its Error."""
        return self._tables.limited(limit, call)

    def head(self) -> int:
        """Return the greatest number in the log; 0 for a new one."""
        return self._head

    def reserved(self) -> int:
        """Return the number up to which numbers are reserved."""
        return self._reserved

    def missing_numbers(self, after: int, until: int) -> int:
        """Return how many numbers after one, up to another, no event has."""
        return self._gaps.missing(after, until)

    def last_version(self) -> int:
        """Return the greatest version since the last ``return_versions``, or 0."""
        return self._last_version

    def trimmed(self, source: LogSource) -> int:
        """Return the greatest number of a source that may be trimmed, and is in no archive."""
        return self._tables.trimmed(source)

    def trimmed_here(self, source: LogSource) -> int:
        """Return the greatest number of a source that may be no longer in the tables."""
        return self._tables.trimmed_here(source)

    def read_older(self, older: OlderRows) -> None:
        """Read what was trimmed from an archive, from now on; after ``open``."""
        self._tables.read_older(older)

    def log_parts(self) -> dict[int, tuple[str, int]]:
        """Return the entry of each part by its number, and the number up to which it is trimmed."""
        return self._tables.log_parts()

    def oldest_beyond(
        self, source: LogSource, keep: Keep, now_seconds: float, room: OldestRoom
    ) -> Oldest | None:
        """Return a part's oldest rows beyond ``keep``, those that ``trim`` would delete first."""
        return self._caught_up().oldest_beyond(source, keep, now_seconds, room)

    def topic_tables(self) -> list[TopicTable]:
        """Return the topic tables, in the order of their creation."""
        return self._tables.topic_tables()

    def figures(self, source: LogSource) -> Figures:
        """Return the counts of a source in the tables, which may be a moment behind."""
        return self._tables.figures(source)

    def lag(self) -> Lag:
        """Return how far the tables are behind the log."""
        return Lag(self.tail.lag_events, self.tail.lag_seconds)

    def count(self, source: LogSource) -> int:
        """Return the number of a source's records."""
        return self._caught_up().count(source)

    def place(self, after: int, sources: Sequence[LogSource] | None) -> str:
        """Return a text for the parts that ``read`` would read; equal for equal parts."""
        return self._tables.place(after, sources)

    def get(self, table: Table | None, topic: str) -> Record | None:
        """Return the current record at a topic."""
        known = self.recall(table, topic)
        return self._tables.get(table, topic) if isinstance(known, Nothing) else known

    def read(
        self, after: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return up to ``limit`` events with ``seq > after`` of these sources, in order."""
        return self._caught_up().read(after, limit, sources)

    def read_back(
        self, before: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return up to ``limit`` events with ``seq < before`` of these sources, newest first."""
        return self._caught_up().read_back(before, limit, sources)

    def scan(self, table: Table | None, topics: TopicFilter, after: str, limit: int) -> Page:
        """Return up to ``limit`` records that match the filter, sorted by key."""
        return self._caught_up().scan(table, topics, after, limit)

    def scan_all(self, scans: Sequence[Scan], limit: int, size: int) -> list[Page]:
        """Return the first pages of several scans, within a bound of records and of bytes."""
        return self._caught_up().scan_all(scans, limit, size)

    def search(self, table: Table, query: Query) -> Page:
        """Return one page of the query's result: at most ``query.limit`` complete records."""
        return self._caught_up().search(table, query)

    def matching(self, table: Table, query: Query) -> int:
        """Return the number of records that match the query's conditions."""
        return self._caught_up().matching(table, query)

    def grouped(self, table: Table, query: Query, grouping: Grouping, most: int) -> list[GroupRow]:
        """Return the groups of the records that match the query's conditions."""
        return self._caught_up().grouped(table, query, grouping, most)

    def history(
        self, source: LogSource, topic: str, limit: int, before: int | None = None
    ) -> list[Event]:
        """Return the last ``limit`` events at one topic that the log still has, oldest first."""
        return self._caught_up().history(source, topic, limit, before)

    def follow(self, source: LogSource, topic: str, after: int, limit: int) -> list[Event]:
        """Return up to ``limit`` events at one topic after a position, in order."""
        return self._caught_up().follow(source, topic, after, limit)

    def change(self, source: LogSource, topic: str, until: int) -> Event | None:
        """Return the last put, patch or delete at a topic up to a position."""
        return self._caught_up().change(source, topic, until)

    def since(self, source: LogSource, version: int) -> int:
        """Return the position just before the source's first event of at least this version."""
        return self._caught_up().since(source, version)

    def states(self, prefix: str) -> list[tuple[str, str, bytes]]:
        """Return the facts of owners that begin with ``prefix``, by owner and name."""
        return self._caught_up().states(prefix)

    def expired(
        self, now_seconds: float, limit: int, behind: tuple[float, int] = (0.0, 0)
    ) -> list[Record]:
        """Return up to ``limit`` expired records, earliest expiry first."""
        return self._caught_up().expired(now_seconds, limit, behind)

    def next_expiry(self) -> float | None:
        """Return the time of the next expiry; None if no record expires."""
        return self._caught_up().next_expiry()


def _result(results: list[int]) -> int:
    return results[0] if results else 0
