"""The applier: writes batches of the log to the tables, many in one transaction.

Of several records of one topic in a transaction only the last is written. The number of the last
batch is written in the same transaction, so a batch that is applied again after a crash has no
effect twice. What cannot be applied must not stop what comes after: such an event is left out,
counted and reported in the server's log.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from rowcast.codecs import decode_again
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, MISSING, Event
from rowcast.core.facts import Change
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicTable
from rowcast.journal.operations import carry_out
from rowcast.log.batch import Batch
from rowcast.log.batch_content import Operation
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder
from rowcast.store.store import Keep, StagedCount, StagedPage

log = logging.getLogger("rowcast.applier")

NEWEST: Final = ("log", "newest")
"""The owner and the name of the fact with the checksum of the last batch that was applied: a log
whose engine was restored to an earlier state, and has grown since, has another one there."""
TRANSACTION_EVENTS: Final = 5_000
"""Events after which a transaction ends, with the batch that brings it there: its fixed costs are
then below a percent, and it takes about 50 ms."""


class Tables(Protocol):
    """What the applier writes."""

    def applied(self) -> int:
        """Return the number of the last batch that was committed."""

    def commit(
        self, events: Sequence[Event], changes: Sequence[Change] = (), applied: int = 0
    ) -> list[bool]:
        """Write events, the records they make, and changes of facts."""

    def reserve(self, seq: int) -> None:
        """Reserve numbers."""

    def return_versions(self, version: int) -> None:
        """Reset the last version."""

    def define(self, *tables: TopicTable) -> None:
        """Create topic tables."""

    def drop(self, table: TopicTable) -> None:
        """Drop a topic table."""

    def trim(self, source: LogSource, keep: Keep, now_seconds: float, limit: int) -> int:
        """Delete old events."""

    def stage(self, table: Table, after: int, page: StagedPage, *, yields: bool = False) -> None:
        """Keep an invisible page of a large result."""

    def switch(self, last: int, counts: Sequence[StagedCount]) -> None:
        """Let all see it, in all its tables."""

    def abandon(self) -> None:
        """Delete the invisible pages."""


class Applier:
    """Applies batches to tables."""

    def __init__(
        self,
        tables: Tables,
        declared: Sequence[Table],
        transaction_events: int = TRANSACTION_EVENTS,
    ) -> None:
        self._tables = tables
        self._declared = {table.name: table for table in declared}
        self._restore = restorer(declared)
        self._transaction_events = transaction_events
        self.skipped = 0
        """Events that could not be applied."""

    def apply(
        self, batches: Sequence[Batch], done: Callable[[], None] | None = None
    ) -> dict[int, list[int]]:
        """Apply batches in order; return the results of operations, by batch.

        ``done`` is called after each transaction. Raises Error(BUSY) when the disk refuses: what
        was applied stays, and the same batches may be passed again.
        """
        waiting, results = _Waiting(), dict[int, list[int]]()
        for batch in batches:
            if batch.number <= self._tables.applied():
                continue
            content = batch.content(self._declared.get)
            if content.operations:
                self._commit(waiting, done)
                waiting = _Waiting()
                results[batch.number] = [self._operate(item) for item in content.operations]
            waiting.events += content.events
            waiting.changes += content.changes
            waiting.take(batch)
            if len(waiting.events) >= self._transaction_events:
                self._commit(waiting, done)
                waiting = _Waiting()
        self._commit(waiting, done)
        return results

    def _operate(self, operation: Operation) -> int:
        try:
            return carry_out(operation, self._tables, self._declared.get, self._restore)
        except Error as error:
            if error.code is Code.BUSY:
                raise
            log.warning("%s of the log had no effect: %s", operation.name, error.full)
        except Exception:
            log.exception("%s of the log had no effect", operation.name)
        return 0

    def _commit(self, waiting: "_Waiting", done: Callable[[], None] | None) -> None:
        if not waiting.number:
            return
        # Of each topic only the last event becomes a record, and needs its value.
        last = {
            event.topic: event
            for event in waiting.events
            if event.table is not None and event.kind != MESSAGE
        }
        for event in last.values():
            if event.kind != DELETE:
                self._restore(event)
        try:
            self._tables.commit(waiting.events, waiting.facts(), waiting.number)
        except Error as error:
            if error.code is Code.BUSY:
                raise
            log.warning("%d events could not be applied: %s", len(waiting.events), error.full)
            self._commit_apart(waiting)
        except Exception:
            log.exception("%d events could not be applied; trying each alone", len(waiting.events))
            self._commit_apart(waiting)
        if done is not None:
            done()

    def _commit_apart(self, waiting: "_Waiting") -> None:
        """Apply events one by one, without those that cannot be applied."""
        for event in waiting.events:
            try:
                self._tables.commit([event])
            except Exception as problem:
                if isinstance(problem, Error) and problem.code is Code.BUSY:
                    raise
                self.skipped += 1
                log.exception("event %d at %r cannot be applied", event.seq, event.topic)
        self._tables.commit((), waiting.facts(), waiting.number)


class _Waiting:
    """What goes into the next transaction."""

    __slots__ = ("changes", "checksum", "events", "number")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.changes: list[Change] = []
        self.number = self.checksum = 0
        """Of the last batch."""

    def take(self, batch: Batch) -> None:
        """Note that it ends with this batch."""
        self.number, self.checksum = batch.number, batch.checksum

    def facts(self) -> list[Change]:
        """Return the changes of facts, with which batch is the last one."""
        return [*self.changes, Change(*NEWEST, checksum_fact(self.number, self.checksum))]


def checksum_fact(number: int, checksum: int) -> bytes:
    """Return the value of the fact ``NEWEST``."""
    return b"%d %d" % (number, checksum)


def checksum_in(fact: bytes, number: int) -> int:
    """Return the checksum that ``checksum_fact`` has noted of a batch; 0 if of none, or another."""
    noted, _, checksum = fact.partition(b" ")
    return int(checksum) if noted == b"%d" % number else 0


def restorer(declared: Sequence[Table]) -> Callable[[Event], None]:
    """Return what decodes an event of the log, as the writer had decoded it."""
    shapes = {table.name: CompiledTable(table) for table in declared}
    transcoder = Transcoder(shapes, decode_again)

    def restore(event: Event) -> None:
        if not transcoder.structured(event):
            event.decoded = MISSING

    return restore
