"""Events of the log, as history tells them, as rows with the columns of a snapshot.

The same event gives the same cells here and in a snapshot or in a file of changes, but for two
things that history does not tell: the content type of what is no value of its table, and the exact
bytes of a JSON payload at an undeclared topic.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import httpx
import pyarrow as pa

from app.codecs import json_text
from app.core.errors import Code, Error
from app.core.events import local_id
from app.core.pipeline_limits import ARROW_ROWS, REMOTE_TRIES
from app.core.scalars import CONVERT, Mismatch
from app.core.tables import Attribute, Table, Type
from app.core.values import parse_id
from app.pipeline.remote import Remote, path_of, pause

OP: Final = "_op"
"""What happened: ``put``, ``patch``, ``delete``, ``message``; ``snapshot``: the row was there."""
REST: Final = "_extra"
META: Final = frozenset({"_topic", "_seq", "_ts", "_version", OP})
_BYTES: Final = "$bytes"

Row = Mapping[str, object]
Cell = Callable[[Row], object]
Convert = Callable[[object], object]


def events(remote: Remote, path: str, epoch: str, after: int, until: int) -> Iterator[Row]:
    """Give what happened at a path after one position and up to another, each event once.

    A lost connection is taken up again behind the last event that came.
    """
    lost = 0
    while after < until:
        asked = f"{path}?_from={epoch}:{after}&_to={epoch}:{until}"
        try:
            for line in remote.lines(asked):
                row = cast("dict[str, object]", json_text.decode(line))
                after, lost = int(cast("int", row["_seq"])), 0
                yield row
        except httpx.TransportError as error:
            lost += 1
            if lost == REMOTE_TRIES:
                raise remote.nobody(error) from error
            pause(lost)
        except Error as error:
            raise explained(error) from error
        else:
            return


def explained(error: Error) -> Error:
    """Return a refusal of the log with what to do about it."""
    if error.code is not Code.GONE:
        return error
    return Error(
        Code.GONE,
        f"the log no longer has what this stream would go on from ({error.message}). Start it anew "
        "from a snapshot, with a new checkpointLocation, or read the change files of the snapshots "
        "directory; to let slower readers catch up, keep more: log.keep_seconds, or "
        "@table(history: ...)",
    )


def history_path(table: Table | None, name: str) -> str:
    """Return where a table's history is read."""
    if table is not None and table.path is None:
        raise Error(Code.NOT_ALLOWED, f"{name} is not exported: it has no path to be read at")
    path = table.path if table is not None else name
    return f"{path_of(path)}/" if path else "/"


class LogRows:
    """Makes batches of rows from events of one table."""

    def __init__(self, table: Table | None, schema: pa.Schema) -> None:
        self.schema = schema
        makers = _declared(table) if table is not None else _message_cells()
        self._cells = [makers.get(name) or _nothing for name in schema.names]

    def batches(self, rows: Iterator[Row]) -> Iterator[Any]:
        """Give events as record batches, in their order."""
        columns: list[list[object]] = [[] for _ in self._cells]
        count = 0
        for row in rows:
            for cell, column in zip(self._cells, columns, strict=True):
                column.append(cell(row))
            count += 1
            if count == ARROW_ROWS:
                yield self._batch(columns)
                columns, count = [[] for _ in self._cells], 0
        if count:
            yield self._batch(columns)

    def _batch(self, columns: Sequence[Sequence[object]]) -> Any:
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _nothing(_row: Row) -> object:
    return None


_OF_EVENT: Final[Mapping[str, Cell]] = {
    "_topic": lambda row: row["topic"],
    "_seq": lambda row: row["_seq"],
    "_ts": lambda row: row["_version"],
    "_version": lambda row: row["_version"],
    OP: lambda row: row["_op"],
}


def _declared(table: Table) -> dict[str, Cell]:
    """Return how each column of a declared table comes out of an event."""
    key = table.primary_key
    cells = dict(_OF_EVENT)
    for attribute in table.attributes:
        if attribute.stored and not attribute.hidden:
            cells[attribute.name] = _attribute(attribute)
    name = "_id" if key is None else key.name
    cells[name] = lambda row: parse_id(table, local_id(table, str(row["topic"])))
    cells[REST] = _whole if table.open else _rest(table)
    cells["_payload"] = _payload
    return cells


def _attribute(attribute: Attribute) -> Cell:
    name, convert = attribute.name, _converting(attribute)

    def cell(row: Row) -> object:
        value = row["value"]
        item = value.get(name) if isinstance(value, dict) else None
        return None if item is None else convert(item)

    return cell


def _rest(table: Table) -> Cell:
    declared = frozenset(item.name for item in table.attributes)

    def cell(row: Row) -> object:
        value = row["value"]
        if not isinstance(value, dict) or declared.issuperset(value):
            return None
        return _dumps({name: item for name, item in value.items() if name not in declared})

    return cell


def _whole(row: Row) -> object:
    value = row["value"]
    return None if value is None or isinstance(value, str | bytes) else _dumps(value)


def _payload(row: Row) -> object:
    value = row["value"]
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None


def _dumps(value: object) -> str:
    return json_text.encode(value).decode()


def _converting(attribute: Attribute) -> Convert:
    """Return how a plain value becomes what Arrow takes for the declared type."""
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
    convert = CONVERT[kind]

    def scalar(value: object) -> object:
        try:
            made = convert(value)
        except Mismatch:  # written before the schema was changed
            return None
        return str(made) if kind is Type.DECIMAL else made

    return scalar


def _object(attribute: Attribute) -> Convert:
    fields = [
        (item.name, _converting(item))
        for item in attribute.fields
        if item.stored and not item.hidden
    ]
    declared = frozenset(item.name for item in attribute.fields)

    def convert(value: object) -> object:
        given = cast("dict[str, object]", value)
        out: dict[str, object] = {}
        for name, each in fields:
            item = given.get(name)
            out[name] = None if item is None else each(item)
        if not attribute.sealed:
            rest = {name: item for name, item in given.items() if name not in declared}
            out[REST] = _dumps(rest) if rest else None
        return out

    return convert


def _message_cells() -> dict[str, Cell]:
    """Return how each column of a topic table comes out of a row of it."""
    cells = dict(_OF_EVENT)
    for name in ("id", "topic", "qos", "retain", "client_id"):
        cells[name] = _member(name)
    cells["payload"] = _bytes_of_member
    cells["timestamp"] = lambda row: row["_version"]
    return cells


def _member(name: str) -> Cell:
    return lambda row: cast("dict[str, object]", row["value"]).get(name)


def _bytes_of_member(row: Row) -> object:
    value = cast("dict[str, object]", row["value"]).get("payload")
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict) and set(value) == {_BYTES}:
        return b64decode(str(value[_BYTES]))
    return (value if isinstance(value, str) else _dumps(value)).encode()
