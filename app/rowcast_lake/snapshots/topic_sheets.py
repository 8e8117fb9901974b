"""Table writers of what no table declares: topic tables, and retained messages.

A topic table has a row for each message; ``payload_text`` is its payload if that is text.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from rowcast.core.partitions import Partition
from rowcast.core.topic_tables import message_id
from rowcast.store.read_transaction import ReadTransaction, RootInTransaction
from rowcast_lake.columns.payloads import texts_of
from rowcast_lake.snapshots.shapes import MOMENT, Batch, plain_column
from rowcast_lake.snapshots.table_writer import PAYLOAD_TEXT, CellRow
from rowcast_lake.snapshots.written import FIELDS, client_column, required, written


class MessageSheet:
    """A topic table: a part of the log, with a row for each message."""

    key = "_seq"
    partition: Partition | None = None

    def __init__(self, branch: RootInTransaction, epoch: str) -> None:
        self._branch = branch
        self._epoch = epoch
        self.name = branch.table.name
        self.rows = branch.events
        columns = [
            plain_column("id", pa.string()),
            plain_column("topic", pa.string()),
            plain_column("payload", pa.binary()),
            plain_column("qos", pa.int32()),
            plain_column("retain", pa.bool_()),
            plain_column("timestamp", MOMENT),
            plain_column("client_id", pa.string()),
            plain_column("_seq", pa.int64()),
            plain_column("_content_type", pa.string()),
        ]
        self.content = tuple(column.name for column in columns)
        fields = [
            pa.field(column.name, column.type, nullable=column.name not in _OF_MESSAGES)
            for column in columns
        ]
        fields.append(pa.field(PAYLOAD_TEXT, pa.string()))
        self.schema = pa.schema([*fields, required("_ts", MOMENT), *FIELDS])

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, in the order of the log."""
        return map(self.of_rows, cut.messages(self._branch))

    def of_rows(self, rows: Sequence[CellRow]) -> Batch:
        """Return a batch of rows of ``store/read_transaction.py:MESSAGE_COLUMNS``."""
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        seqs, versions, topics, payloads, qos, retain, clients, types, kinds, properties = columns
        times = pa.array(versions, pa.int64()).cast(MOMENT)
        ids = list(map(message_id, versions, seqs))
        arrays = [
            pa.array(ids, pa.string()),
            pa.array(topics, pa.string()),
            pa.array(payloads, pa.binary()),
            pa.array(qos, pa.int32()),
            pa.array(retain, pa.int8()).cast(pa.bool_()),
            times,
            client_column(clients),
            pa.array(seqs, pa.int64()),
            pa.array(types, pa.string()),
            texts_of(payloads, types),
            times,
            *written(self._epoch, clients, properties, kinds).values(),
        ]
        return pa.record_batch(arrays, self.schema)


_OF_MESSAGES: Final = frozenset({"id", "topic", "timestamp", "_seq"})
"""The columns that each message has."""


class RetainedSheet:
    """The retained messages of undeclared topics."""

    name = "_retained"
    key = "topic"
    partition: Partition | None = None
    rows = 0
    schema = pa.schema([
        required("topic", pa.string()),
        ("payload", pa.binary()),
        ("qos", pa.int32()),
        ("client_id", pa.string()),
        ("properties", pa.string()),
        ("expires", MOMENT),
        ("_content_type", pa.string()),
        required("_seq", pa.int64()),
        required("_ts", MOMENT),
        (PAYLOAD_TEXT, pa.string()),
        *FIELDS,
    ])  # fmt: skip
    content = tuple(schema.names[:7])

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, sorted by topic."""
        return map(self.of_rows, cut.retained())

    def of_rows(self, rows: Sequence[CellRow]) -> Batch:
        """Return a batch of rows of ``store/read_transaction.py:RETAINED_COLUMNS``."""
        columns: list[Any] = list(zip(*rows, strict=True))
        topics, payloads, types, qos, clients, properties, expires, seqs, versions = columns
        ends = [None if end is None else round(end * 1_000_000) for end in expires]
        arrays = [
            pa.array(topics, pa.string()),
            pa.array(payloads, pa.binary()),
            pa.array(qos, pa.int32()),
            client_column(clients),
            pa.array(properties, pa.string()),
            pa.array(ends, pa.int64()).cast(MOMENT),
            pa.array(types, pa.string()),
            pa.array(seqs, pa.int64()),
            pa.array(versions, pa.int64()).cast(MOMENT),
            texts_of(payloads, types),
            *written(self._epoch, clients, properties).values(),
        ]
        return pa.record_batch(arrays, self.schema)
