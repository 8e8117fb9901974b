"""Rows at a position: a declared table as it was there, read of a database that may have moved on.

A row that was written no later is the one of then. A record that changed since is what the log has
as its last change before. So the result is exact, or an error: GONE if the log was trimmed too far.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, Event
from rowcast.core.tables import Table
from rowcast.store.read_transaction import ReadTransaction
from rowcast_lake.columns.joining import shaped
from rowcast_lake.snapshots.change_writer import TableChanges
from rowcast_lake.snapshots.table_writer import TableSheet

Rows = Any
"""A ``pyarrow.Table``."""


def rows_at(cut: ReadTransaction, table: Table, seq: int) -> Rows:
    """Return the rows of a table at a position, sorted by key; raises GONE, NOT_FOUND.

    The table is held in memory.
    """
    if cut.seq < seq:
        raise Error(Code.NOT_FOUND, f"{cut.path} is at position {cut.seq}, and not yet at {seq}")
    sheet = TableSheet.of(cut.declared(table), cut.epoch)
    parts = [pa.Table.from_batches([batch]) for batch in sheet.batches(cut)]
    kept = [part.filter(pc.less_equal(part["_seq"], seq)) for part in parts]
    if before := _before(cut, table, seq):
        changes = pa.Table.from_batches([TableChanges(table, cut.epoch).batch(before)])
        kept.append(shaped(changes, sheet.schema))
    return pa.concat_tables([sheet.schema.empty_table(), *kept]).sort_by(sheet.key)


def _before(cut: ReadTransaction, table: Table, seq: int) -> list[Event]:
    """Return the writes at a position of the records that have changed since."""
    log = cut.log([table])
    trimmed = log.trimmed(table)
    changed = {
        event.topic
        for events in log.of_table(table, seq, cut.seq)
        for event in events
        if event.kind != MESSAGE
    }
    found = {topic: log.change(table, topic, seq) for topic in sorted(changed)}
    if trimmed > seq or (trimmed and None in found.values()):
        raise Error(
            Code.GONE,
            f"the log no longer has what {table.name} was at {seq}: its events up to {trimmed} "
            "were deleted; take a newer snapshot",
        )
    return [event for event in found.values() if event is not None and event.kind != DELETE]
