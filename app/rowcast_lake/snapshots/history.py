"""History: the values of a table's records, each with its interval of validity (S8).

``Dog_history`` has a row for each value that a record of ``Dog`` had, as far back as the log goes:
the table's columns, and

    valid_from, valid_to   the interval of validity; null end: still valid at the cut
    _op, _client           put or patch, and the writer
    _seq                   of the event that wrote the value

A deletion closes an interval and begins none, so at any time a record has one row or none:
``valid_from <= t AND (valid_to IS NULL OR t < valid_to)``. The rows are in the order of the log.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from rowcast.core.events import DELETE, Event
from rowcast.core.partitions import Partition
from rowcast.core.tables import Table
from rowcast.store.read_transaction import ReadTransaction
from rowcast_lake.snapshots.change_writer import TableChanges
from rowcast_lake.snapshots.manifest import TableFacts
from rowcast_lake.snapshots.shapes import MOMENT, Batch

SUFFIX: Final = "_history"
Interval = tuple[Event, int | None]
"""The event that wrote a value, and the version of the next change; None: there is none."""
_INTERVAL: Final = frozenset({"valid_from", "valid_to"})
_LEFT_OUT: Final = frozenset({"_ts", "_origin"})
_OF_WRITES: Final = frozenset({"_topic", "_seq"})


class HistorySheet:
    """The history of one declared table, as intervals."""

    key = "_seq"
    partition: Partition | None = None
    rows = 0

    def __init__(self, table: Table, epoch: str) -> None:
        self.name = f"{table.name}{SUFFIX}"
        self.table = table
        self.changes = TableChanges(table, epoch)
        kept = [item for item in self.changes.schema if item.name not in _LEFT_OUT]
        ends = [pa.field("valid_from", MOMENT), pa.field("valid_to", MOMENT)]
        self.schema = pa.schema([*kept, *ends])
        self.content = tuple(name for name in self.schema.names if name not in _OF_WRITES)

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, in the order of the log."""
        for made in self.intervals(cut):
            yield self.with_ends(self.changes.batch([event for event, _ in made]), made)

    def intervals(self, cut: ReadTransaction) -> Iterator[list[Interval]]:
        """Return the values of a cut, each with the time of the next one."""
        for found in cut.log([self.table]).intervals(self.table):
            made = [(event, ended) for event, ended in found if event.kind != DELETE]
            if made:
                yield made

    def with_ends(self, batch: Batch, made: Sequence[Interval]) -> Batch:
        """Return changes as rows with their intervals."""
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays["valid_from"] = arrays["_ts"]
        arrays["valid_to"] = pa.array([ended for _, ended in made], pa.int64()).cast(MOMENT)
        return pa.record_batch([arrays[name] for name in self.schema.names], self.schema)


def is_history(name: str, facts: TableFacts) -> bool:
    """Whether a table of a snapshot is a history; increments have the events, not the intervals."""
    key = facts.key == HistorySheet.key
    return key and name.endswith(SUFFIX) and frozenset(facts.content) >= _INTERVAL
