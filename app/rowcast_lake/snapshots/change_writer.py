"""Change writers: a table's events between two cuts, as batches of rows.

The columns are those of the table's snapshot, always with ``_extra``, ``_content_type`` and
``_payload``; ``_op`` is the operation (``written``).

A row is one event of the log, in the log's order; a deletion has nulls but its key. A topic table's
changes are its new messages. The changes of ``_retained`` are the events of records at undeclared
topics, and messages at undeclared topics without a topic table.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from rowcast.codecs import decode, is_structured
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, MISSING, Event
from rowcast.core.tables import Table
from rowcast.core.topic_tables import TopicRoot
from rowcast.core.write_marks import ORIGIN
from rowcast.rows.compiled_table import CompiledTable
from rowcast.store.read_transaction import RootInTransaction
from rowcast.store.read_transaction_log import LogInTransaction, LogRow
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.table_writer import CellRow, TableSheet
from rowcast_lake.snapshots.topic_sheets import MessageSheet, RetainedSheet
from rowcast_lake.snapshots.written import written


class ChangeSheet(Protocol):
    """The events of one table."""

    name: str
    schema: pa.Schema

    def batches(self, log: LogInTransaction, after: int, upto: int) -> Iterator[Batch]:
        """Return its events after a position, up to another."""


class TableChanges:
    """A declared table's events."""

    def __init__(self, table: Table, epoch: str) -> None:
        self.name = table.name
        self.table = self._table = table
        self._sheet = TableSheet(table, epoch, mixed=True, rest=True, keyed=False)
        self._restore = CompiledTable(table).restore
        self._epoch = epoch
        self.schema = self._sheet.schema

    def batches(self, log: LogInTransaction, after: int, upto: int) -> Iterator[Batch]:
        """Return its events after a position, up to another."""
        for events in log.of_table(self._table, after, upto):
            yield self.batch(events)

    def batch(self, events: Sequence[Event]) -> Batch:
        """Return some events as rows."""
        for event in events:
            self.read(event)
        return self.rows(events)

    def read(self, event: Event) -> bool:
        """Decode an event; return whether its value is valid in the current declaration."""
        event.decoded = self._decoded(event)
        if event.decoded is MISSING and self._table.hides:
            event.payload = b""  # it could contain hidden attributes
        return event.decoded is not MISSING

    def rows(self, events: Sequence[Event]) -> Batch:
        """Return decoded events as rows."""
        arrays = dict(
            zip(self._sheet.schema.names, self._sheet.of_events(events).columns, strict=True)
        )
        arrays["_topic"] = pa.array([event.topic for event in events], pa.string())
        arrays["_op"] = pa.array([event.kind for event in events], pa.string())
        arrays["_origin"] = pa.array([self._origin(event.properties) for event in events])
        arrays["_client"] = pa.array([event.client or None for event in events], pa.string())
        return pa.record_batch([arrays[name] for name in self.schema.names], self.schema)

    def _decoded(self, event: Event) -> object:
        """Return the event's value if it is valid in the current declaration; else MISSING."""
        said = event.content_type
        if event.kind == DELETE or (said is not None and not is_structured(said)):
            return MISSING
        try:
            return self._restore(decode(event.payload, said))
        except Error:
            return MISSING

    def _origin(self, properties: dict[str, object] | None) -> str:
        return str((properties or {}).get(ORIGIN) or self._epoch)


class MessageChanges:
    """A topic table's new messages."""

    def __init__(self, branch: RootInTransaction, epoch: str) -> None:
        self._branch = branch
        self._sheet = MessageSheet(branch, epoch)
        self.name = self._sheet.name
        self.schema = self._sheet.schema

    def batches(self, log: LogInTransaction, after: int, upto: int) -> Iterator[Batch]:
        """Return its events after a position, up to another."""
        found = self._branch
        for rows in log.branch(found.table.branch, found.number, found.since, after, upto):
            cells = [
                (row.seq, row.version, row.topic, row.payload, row.qos, row.retain, row.client,
                 row.content_type, row.kind, row.properties)
                for row in rows
            ]  # fmt: skip
            yield self._sheet.of_rows(cells)


class RetainedChanges:
    """The events of records at undeclared topics."""

    name = RetainedSheet.name

    def __init__(self, branches: Sequence[TopicRoot], epoch: str) -> None:
        self._with_table = frozenset(branches)
        self._sheet = RetainedSheet(epoch)
        self._epoch = epoch
        self.schema = self._sheet.schema

    def batches(self, log: LogInTransaction, after: int, upto: int) -> Iterator[Batch]:
        """Return events after a position, up to another."""
        for found in log.undeclared(after, upto):
            rows = [row for row in found if row.kind != MESSAGE or not self._elsewhere(row)]
            if not rows:
                continue
            batch = self._sheet.of_rows([_cells(row) for row in rows])
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
            clients, properties = [row.client for row in rows], [row.properties for row in rows]
            arrays |= written(self._epoch, clients, properties, [row.kind for row in rows])
            yield pa.record_batch(list(arrays.values()), self.schema)

    def _elsewhere(self, row: LogRow) -> bool:
        """Whether a message is a row of a topic table."""
        first, slash, _ = row.topic.partition("/")
        return TopicRoot(first if slash else None) in self._with_table


def _cells(row: LogRow) -> CellRow:
    """Return a row as ``store/read_transaction.py:RETAINED_COLUMNS``."""
    if row.kind == DELETE:
        return (row.topic, None, None, None, None, None, None, row.seq, row.version)
    return (
        row.topic, row.payload, row.content_type, row.qos, row.client, row.properties, row.expires,
        row.seq, row.version,
    )  # fmt: skip
