"""The process that reads large tables for an export (``second_reader.py``).

It reads columns of Arrow from SQLite by ADBC, without objects of Python, several times as fast. It
is a process of its own because the driver has a SQLite of its own: two in one process would take
each other's locks away (SQLite, "How To Corrupt", 2.2.1).

It gets commands as lines of JSON, and is over when they are:

    ["open", uri, schema]     the first one: the database, and the text of its schema
    ["cut"]                   a new read transaction; its answer is a line with what identifies the
                              state that it reads (``ReadTransaction.state``)
    ["table", name, epoch, mixed, rest]
                              a stream of Arrow follows, with the rows of the ranges of this table
    ["range", after, upto]    these rows, in one batch if it can be made, then one without rows
    ["end"]                   the stream ends
"""

import json
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, BinaryIO, Final

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa

from rowcast.core.snapshot_limits import SNAPSHOT_RANGE_ROWS
from rowcast.schema import parse_schema
from rowcast.store.read_transaction import STATE, Key, TableInTransaction, rows_statement
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.table_writer import TableSheet

_OPTIONS: Final = {"adbc.sqlite.query.batch_rows": str(SNAPSHOT_RANGE_ROWS)}
"""From so many rows the driver guesses the types of columns: from all of a range."""
Commands = Iterator[list[Any]]


def main() -> None:
    """Serve the export that started this process, and end with it."""
    with suppress(BrokenPipeError, StopIteration):
        _serve((json.loads(line) for line in sys.stdin), sys.stdout.buffer)


def _serve(commands: Commands, out: BinaryIO) -> None:
    _, uri, schema = next(commands)
    tables = {table.name: table for table in parse_schema(schema).tables}
    with closing(adbc.connect(uri)) as connection:
        for name, *arguments in commands:
            if name == "cut":
                connection.rollback()
                out.write(f"{json.dumps(_state(connection))}\n".encode())
                out.flush()
            else:
                table, epoch, mixed, rest = arguments
                found = TableInTransaction(tables[table], 0, mixed, rest)
                _send(out, connection, TableSheet.of(found, epoch), commands)


def _state(connection: adbc.Connection) -> str:
    found = []
    for text in STATE:
        with closing(connection.cursor()) as cursor:
            cursor.execute(text)
            found.append(cursor.fetchall())
    return repr(found)


def _send(
    out: BinaryIO, connection: adbc.Connection, sheet: TableSheet, commands: Commands
) -> None:
    """Send the ranges that are asked for."""
    between = pa.RecordBatch.from_pylist([], sheet.schema)
    with pa.ipc.new_stream(out, sheet.schema) as stream:
        for name, *bounds in commands:
            if name == "end":
                break
            batch = _read(connection, sheet, *bounds)
            if batch is not None:
                stream.write_batch(batch)
            stream.write_batch(between)
            out.flush()
    out.flush()


def _read(connection: adbc.Connection, sheet: TableSheet, after: Key, upto: Key) -> Batch | None:
    """Return the rows of a range; None for the other process to read."""
    text, given = rows_statement(sheet.table, sheet.names, after, upto)
    with closing(connection.cursor()) as cursor:
        cursor.adbc_statement.set_options(**_OPTIONS)
        try:
            cursor.execute(text, given or None)
            found = cursor.fetch_arrow_table().combine_chunks()
        except adbc.Error:  # such as a value that fits no type of its column
            return None
    return sheet.of_columns([column.combine_chunks() for column in found.columns])
