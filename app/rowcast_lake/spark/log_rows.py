"""Events from the history endpoint, as rows with the columns of a snapshot.

An event has the same cells here as in a snapshot or a page of changes, except for two values that
history does not return: the content type of content that is no value of its table, and the exact
bytes of a JSON payload at an undeclared topic. To history no payload, as of a retained message that
is removed, and a JSON null are the same: both are no bytes here.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

import pyarrow as pa

from rowcast.codecs import json_text
from rowcast.core.errors import Code, Error
from rowcast.core.events import local_id
from rowcast.core.limits import ANSWER_DEPTH_MAX
from rowcast.core.partitions import Partition, Unit
from rowcast.core.pipeline_limits import ARROW_ROWS
from rowcast.core.scalars import CONVERT, Mismatch, decimal_of
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.values import parse_id
from rowcast_lake.columns.directories import columns_of
from rowcast_lake.columns.joining import MOMENT, converted
from rowcast_lake.columns.payloads import texts_of
from rowcast_lake.spark.remote import Pauses, Remote, is_passing, path_of

OP: Final = "_op"
"""The operation: ``put``, ``patch``, ``delete``, ``message``; ``snapshot``: a row of a snapshot."""
REST: Final = "_extra"
PAYLOAD_TEXT: Final = "payload_text"
_BYTES: Final = "$bytes"

Row = Mapping[str, object]
Convert = Callable[[object], object]


def events(remote: Remote, path: str, epoch: str, after: int, until: int) -> Iterator[Row]:
    """Yield the events of a path after one position and up to another, each once.

    After a lost connection, or when the server is busy, continues after the last event received.
    """
    from httpx import TransportError  # noqa: PLC0415 - workers that read files need none

    pauses = Pauses(remote.patience_seconds)
    while after < until:
        asked = f"{path}?_from={epoch}:{after}&_to={epoch}:{until}"
        try:
            for line in remote.lines(asked):
                row = cast("dict[str, object]", json_text.decode(line, depth_max=ANSWER_DEPTH_MAX))
                after = int(cast("int", row["_seq"]))
                pauses.begin()
                yield row
        except TransportError as error:
            if not pauses.wait():
                raise remote.nobody(error) from error
        except Error as error:
            if not (is_passing(error) and pauses.wait()):
                raise explained(error) from error
        else:
            return


def explained(error: Error) -> Error:
    """Return an error of the history endpoint with advice added."""
    if error.code is not Code.GONE:
        return error
    return Error(
        Code.GONE,
        f"the log no longer has what this stream would go on from ({error.message}). Start it anew "
        "from a snapshot, with a new checkpointLocation, or read the change files of the snapshots "
        "directory; to let slower readers catch up, keep more: history.keep_seconds, or "
        "@table(history: ...)",
    )


def history_path(table: Table | None, name: str) -> str:
    """Return the path of a table's history."""
    if table is not None and table.path is None:
        raise Error(Code.NOT_ALLOWED, f"{name} is not exported: it has no path to be read at")
    path = table.path if table is not None else name
    return f"{path_of(path)}/" if path else "/"


class LogRows:
    """Converts events of one table to batches of rows."""

    def __init__(
        self, table: Table | None, schema: pa.Schema, partition: Partition | None = None
    ) -> None:
        """``partition``: by what the snapshots of the table are divided, whose columns are set."""
        self.schema = schema
        self._partition = partition
        self._cells = _DeclaredCells(table) if table is not None else _message_cells

    def batches(self, rows: Iterator[Row]) -> Iterator[Any]:
        """Yield events as record batches, in their order."""
        while some := list(islice(rows, ARROW_ROWS)):
            yield self._batch([self._cells(row) for row in some])

    def _batch(self, cells: Sequence[Row]) -> Any:
        made = self._of_directories(cells)
        arrays = [
            converted(made[field.name], field.type)
            if field.name in made
            else _array([each.get(field.name) for each in cells], field)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _of_directories(self, cells: Sequence[Row]) -> Mapping[str, pa.Array]:
        by = self._partition
        if by is None or not set(by.columns) & set(self.schema.names):
            return {}
        kind = None if by.unit is Unit.VALUE else MOMENT
        return columns_of(by, pa.array([each.get(by.column) for each in cells], kind))


def _array(values: Sequence[object], field: pa.Field) -> pa.Array:
    """Return values in the reader's type, which may differ from the declared one."""
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        pass
    try:
        return converted(pa.array(values), field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise Error(
            Code.UNPROCESSABLE,
            f"the column {field.name} is read as {field.type}, and an event has another value "
            f"({error}); leave out .schema(...), or begin anew with a newer snapshot and a new "
            "checkpointLocation",
        ) from error


def _of_event(row: Row) -> dict[str, object]:
    """Return the columns that every event has."""
    return {
        "_topic": row["topic"],
        "_seq": row["_seq"],
        "_ts": row.get("_version"),
        "_version": row.get("_version"),
        "_origin": row.get("_origin"),
        "_client": row.get("_client") or None,
        OP: row["_op"],
    }


class _DeclaredCells:
    """The cells of an event in the columns of a declared table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        key = table.primary_key
        self._key = "_id" if key is None else key.name
        shown = [item for item in table.attributes if item.stored and not item.hidden]
        self._shown = {item.name: (item, _converting(item)) for item in shown}
        self._declared = frozenset(item.name for item in table.attributes)

    def __call__(self, row: Row) -> dict[str, object]:
        cells = _of_event(row)
        value = row["value"]
        if isinstance(value, str | bytes):
            cells["_payload"] = value.encode() if isinstance(value, str) else value
            cells[f"_{PAYLOAD_TEXT}"] = value if isinstance(value, str) else None
        elif self._table.open:
            cells[REST] = None if value is None else _dumps(value)
        elif isinstance(value, dict):
            self._attributes(cells, value)
        cells[self._key] = parse_id(self._table, local_id(self._table, str(row["topic"])))
        return cells

    def _attributes(self, cells: dict[str, object], value: Row) -> None:
        """Set the attributes' columns; undeclared attributes and misfits go to ``_extra``."""
        rest = {name: item for name, item in value.items() if name not in self._declared}
        for name, (attribute, convert) in self._shown.items():
            if name not in value or name == self._key:
                continue
            item = value[name]
            if item is None:
                rest[name] = None
                continue
            try:
                cells[name] = convert(item)
            except (Mismatch, TypeError, AttributeError):  # written before the type changed
                rest[name] = _as_decimal(item) if attribute.type is Type.DECIMAL else item
        if rest:
            cells[REST] = _dumps(rest)


def _as_decimal(item: object) -> object:
    """Return a decimal from text of another precision, formatted as in an export."""
    try:
        return CONVERT[Type.DECIMAL](item)
    except Mismatch:
        return item


def _dumps(value: object) -> str:
    return json_text.encode(value).decode()


def _converting(attribute: Attribute) -> Convert:
    """Return the conversion from a plain value to Arrow's form of the declared type."""
    kind = attribute.type
    if kind is Type.ANY:
        return _dumps
    if kind is Type.LIST:
        each = _converting(attribute.items or Attribute("", Type.ANY))
        return lambda value: [
            None if item is None else each(item) for item in cast("list[object]", value)
        ]
    if kind is Type.OBJECT:
        return _object(attribute)
    if attribute.digits is not None:
        return decimal_of(*attribute.digits)
    convert = CONVERT[kind]
    return convert if kind is not Type.DECIMAL else lambda value: str(convert(value))


def _object(attribute: Attribute) -> Convert:
    fields = [
        (item.name, _converting(item))
        for item in attribute.fields
        if item.stored and not item.hidden
    ]
    declared = frozenset(item.name for item in attribute.fields)

    def convert(value: object) -> object:
        if not isinstance(value, dict):
            raise Mismatch
        given = cast("dict[str, object]", value)
        out: dict[str, object] = {}
        for name, each in fields:
            item = given.get(name)
            out[name] = None if item is None else each(item)
        rest = {name: item for name, item in given.items() if name not in declared}
        rest |= {name: None for name, _ in fields if given.get(name, name) is None}
        out[REST] = _dumps(rest) if rest else None
        return out

    return convert


def _message_cells(row: Row) -> dict[str, object]:
    """Return the cells of an event in the columns of a topic table."""
    value = cast("Row", row["value"])
    payload = _bytes_of(value.get("payload"))
    return {
        **{name: value.get(name) for name in ("id", "topic", "qos", "retain", "client_id")},
        **_of_event(row),
        "payload": payload,
        PAYLOAD_TEXT: texts_of([payload], [None])[0].as_py(),
        "timestamp": row.get("_version"),
    }


def _bytes_of(value: object) -> bytes:
    if value is None or isinstance(value, bytes):
        return value or b""
    if isinstance(value, dict) and set(value) == {_BYTES}:
        return b64decode(str(value[_BYTES]))
    return (value if isinstance(value, str) else _dumps(value)).encode()
