"""Table writers: a table's Parquet columns, and its rows at a cut as record batches.

A declared table has its visible attributes, in the order of the schema, then

    _extra         JSON: undeclared attributes, and values that do not fit the declared type; of an
                   open table the whole value. A sealed table has it only where rows have or may
                   have such values: lists, nested types, @decimal
    _content_type, _payload   content that is no value of the table: an open table's bytes.
                   Without ``_payload`` the content is the JSON in ``_extra``
    _payload_text   the same content as text, if it is text
    _topic, _seq, _ts   of the write that made the record; ``_ts`` is its version, as a time: the
                   microseconds since 1970 are the version's number
    _op, _origin, _client   of the same write (``written``)

and ``_id`` as the first column if it declares no key. Rows are sorted by key: integers by value,
text by its UTF-8 bytes.

Conversions work on columns; only rows with undeclared attributes are handled one by one.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from rowcast.core.events import DELETE, Event
from rowcast.core.partitions import Partition
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.values import Checker
from rowcast.store.read_transaction import (
    CONTENT_COLUMNS,
    SYSTEM_COLUMNS,
    Key,
    ReadTransaction,
    TableInTransaction,
)
from rowcast.store.records import Layout
from rowcast.store.sql_rows import TYPED, Cell, TableRows
from rowcast.store.sql_tables import FORM, quoted, value_attributes
from rowcast_lake.columns.payloads import texts_of
from rowcast_lake.snapshots.shapes import (
    ID,
    MOMENT,
    REST,
    Batch,
    Column,
    column_of,
    visible,
)
from rowcast_lake.snapshots.written import FIELDS, has_origins, required, written

PAYLOAD_TEXT: Final = "payload_text"
"""The column of a payload as text, if it is text; declared tables prefix an underscore."""
_NAN: Final = {"$float": "NaN"}

CellRow = tuple[Cell, ...]


class TableWriter(Protocol):
    """One table of a snapshot."""

    name: str
    key: str
    """The column by which rows are sorted."""
    content: tuple[str, ...]
    """The columns of the table's content, which its digest covers."""
    partition: Partition | None
    """By what its files are divided."""
    rows: int
    """The expected number of rows, for progress reports."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, sorted by key."""


class TableSheet:
    """A declared table."""

    def __init__(
        self,
        table: Table,
        epoch: str,
        *,
        mixed: bool = False,
        rest: bool = True,
        keyed: bool = True,
    ) -> None:
        """Compile a table; ``keyed``: every row has a key, which messages below a record lack."""
        self.table = table
        self._epoch = epoch
        self.name = table.name
        self.partition = table.partition
        self.rows = 0
        self._key = table.primary_key
        self.key = ID if self._key is None else self._key.name
        self._prefix = Layout(table).prefix
        shown = visible(table.attributes)
        self._shown = [item for item in shown if not item.primary_key]
        self._columns = [column_of(item) for item in self._shown]
        self._rest = _Rest(table, self._shown)
        kept = self._kept = mixed or table.open
        key_field = pa.field(self.key, self._key_type(), nullable=not keyed)
        fields = [] if self._key is not None else [key_field]
        key_at = {self.key: key_field}
        types = {column.name: pa.field(column.name, column.type) for column in self._columns}
        declared = [item.name for item in table.attributes if item.name in key_at | types]
        fields += [(types | key_at)[name] for name in declared]
        self._narrow = tuple(
            place
            for place, item in enumerate(self._shown)
            if item.digits is not None or item.type in _NESTED
        )
        if rest or kept or self._narrow:
            fields.append(pa.field(REST, pa.string()))
        if kept:
            fields += [pa.field("_content_type", pa.string()), pa.field("_payload", pa.binary())]
        self.content = tuple(field.name for field in fields)
        self.schema = pa.schema([
            *fields,
            *([pa.field(f"_{PAYLOAD_TEXT}", pa.string())] if kept else ()),
            required("_topic", pa.string()),
            required("_seq", pa.int64()),
            required("_ts", MOMENT),
            *FIELDS,
        ])  # fmt: skip

    @classmethod
    def of(cls, found: TableInTransaction, epoch: str) -> "TableSheet":
        """Return the writer of a table in a cut."""
        sheet = cls(found.table, epoch, mixed=found.mixed, rest=found.rest)
        sheet.rows = found.records
        return sheet

    def _key_type(self) -> pa.DataType:
        kind = None if self._key is None else self._key.type
        return {Type.INT: pa.int32(), Type.LONG: pa.int64()}.get(cast("Type", kind), pa.string())

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, sorted by key."""
        return self.between(cut, None, None)

    def between(self, cut: ReadTransaction, after: Key, upto: Key) -> Iterator[Batch]:
        """Return the rows with keys beyond ``after`` and not beyond ``upto``; None limits none."""
        for rows in cut.rows(self.table, self.names, after, upto):
            yield self.of_cells(rows)

    @property
    def names(self) -> list[str]:
        """The columns of SQL that are read, after the key."""
        return [*(item.name for item in self._shown), *self._system]

    @property
    def plain(self) -> bool:
        """Whether a driver of Arrow may read its columns: no JSON becomes a list or a struct."""
        return not self._kept and not any(item.type in _NESTED for item in self._shown)

    def of_columns(self, columns: Sequence[pa.Array]) -> Batch | None:
        """Return a batch of columns as a driver of Arrow read them, which guesses their types.

        None if one has another type than its values are stored with, or if rows have undeclared
        attributes or another origin than this log: then they are for ``of_cells``.
        """
        kinds = [self._key_type(), *(column.type for column in self._columns)]
        *values, extra, seqs, versions, clients, properties = columns
        if _filled(extra) or has_origins(properties):
            return None
        if not all(map(_stored_as, values, kinds)):
            return None
        count = len(seqs)
        try:
            keys, *cells = map(_cast, values, kinds)
        except _MISFITS:
            return None
        writers = clients.cast(pa.string())
        names = (column.name for column in self._columns)
        arrays = dict(zip(names, cells, strict=True)) | {
            self.key: keys,
            REST: pa.nulls(count, pa.string()),
            "_topic": pc.binary_join_element_wise(self._prefix, keys.cast(pa.string()), ""),
            "_seq": seqs,
            "_ts": versions.cast(MOMENT),
            **written(self._epoch, (None,) * count, (None,) * count),
            "_client": pc.if_else(pc.equal(writers, ""), None, writers),
        }
        return pa.record_batch([arrays[name] for name in self.schema.names], self.schema)

    def of_events(self, events: Sequence[Event]) -> Batch:
        """Return events of the table as rows; their values are decoded and checked."""
        return self.of_cells([self._cells(event) for event in events])

    def _cells(self, event: Event) -> CellRow:
        """Return an event as a row of SQL; without attributes for a deletion or without a key."""
        key = self._sql_rows.layout.key_or_none(event.topic)
        if event.kind == DELETE:
            cells = self._nothing(event)
        else:
            cells = self._sql_rows.row("" if key is None else key, event)
            cells += self._tail[len(cells) :]
        found = [cells[at] for at in self._places[1:]]
        return (key, *(int(cell) if isinstance(cell, bool) else cell for cell in found))

    def _nothing(self, event: Event) -> CellRow:
        """Return a row without content."""
        names, columns = self._sql_rows.names, self._sql_rows.columns
        facts = {names.seq: event.seq, names.version: event.version, FORM: TYPED}
        known = {quoted(name): fact for name, fact in facts.items()}
        return tuple(known.get(column) for column in columns)

    @property
    def _system(self) -> tuple[str, ...]:
        """The columns that follow the attributes in a read."""
        return (*SYSTEM_COLUMNS, *(CONTENT_COLUMNS if self._kept else ()))

    @cached_property
    def _sql_rows(self) -> TableRows:
        return TableRows(Layout(self.table))

    @cached_property
    def _tail(self) -> CellRow:
        width = len(self._sql_rows.columns)
        return (*(None,) * (width - 4), TYPED, None, None, None)

    @cached_property
    def _places(self) -> list[int]:
        columns = self._sql_rows.columns
        names = (*(item.name for item in self._shown), *self._system)
        return [0, *(columns.index(quoted(name)) for name in names)]

    def of_cells(self, rows: Sequence[CellRow]) -> Batch:
        """Return a batch of rows of SQL: key, attributes, and the columns that follow these."""
        columns: list[Sequence[Cell]] = list(zip(*rows, strict=True))
        end = 1 + len(self._columns)
        attributes: Sequence[Sequence[Cell]] = columns[1:end]
        extra, seqs, versions, clients, properties, *content = columns[end:]
        if extra.count(None) != len(rows):
            forms = content[0] if content else (TYPED,) * len(rows)
            attributes, extra = self._rest.parted(attributes, forms, extra)
        keys = pa.array(columns[0], self._key_type())
        try:
            arrays = self._arrays(attributes)
        except _MISFITS:
            attributes, extra = self._without_misfits(attributes, extra)
            arrays = self._arrays(attributes)
        arrays |= {
            self.key: keys,
            REST: pa.array(extra, pa.string()),
            "_topic": pc.binary_join_element_wise(self._prefix, keys.cast(pa.string()), ""),
            "_seq": pa.array(seqs, pa.int64()),
            "_ts": pa.array(versions, pa.int64()).cast(MOMENT),
            **written(self._epoch, clients, properties),
        }
        if content:
            arrays[f"_{PAYLOAD_TEXT}"] = texts_of(content[1], content[2])
            arrays["_payload"] = pa.array(content[1], pa.binary())
            arrays["_content_type"] = pa.array(content[2], pa.string())
        return pa.record_batch([arrays[name] for name in self.schema.names], self.schema)

    def _arrays(self, attributes: Sequence[Sequence[Cell]]) -> dict[str, pa.Array]:
        """Return the columns of the attributes."""
        return {
            column.name: column.of_cells(cells)
            for column, cells in zip(self._columns, attributes, strict=True)
        }

    def _without_misfits(
        self, attributes: Sequence[Sequence[Cell]], extra: Sequence[Cell]
    ) -> tuple[list[list[Cell]], list[Cell]]:
        """Move values of an older declaration that do not fit the current types to ``_extra``."""
        cells, rest = [list(column) for column in attributes], list(extra)
        for place in self._narrow:
            column, kind = self._columns[place], self._shown[place].type
            for row, text in enumerate(cells[place]):
                if isinstance(text, str) and not _holds(column, text):
                    cells[place][row] = None
                    left = orjson.loads(cast("str", rest[row] or "{}"))
                    value = {"$decimal": text} if kind is Type.DECIMAL else orjson.loads(text)
                    left |= self._rest.shown({column.name: value})
                    rest[row] = orjson.dumps(left).decode()
        return cells, rest


def _cast(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in the type of their column; nulls alone are of no type."""
    return cells.cast(kind) if _filled(cells) else pa.nulls(len(cells), kind)


def _filled(array: pa.Array) -> bool:
    """Whether some value is not null."""
    return bool(array.null_count < len(array))


def _stored_as(array: pa.Array, kind: pa.DataType) -> bool:
    """Whether values, as SQLite has them, are those of a column of this type."""
    if not _filled(array):
        return True
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return bool(pa.types.is_int64(array.type))
    if pa.types.is_floating(kind) or pa.types.is_binary(kind):
        return bool(array.type == kind)
    return bool(pa.types.is_string(array.type))


def _holds(column: Column, cell: str) -> bool:
    """Whether a cell's value fits the column's type."""
    try:
        column.of_cells([cell])
    except _MISFITS:
        return False
    return True


_MISFITS: Final = (pa.ArrowInvalid, pa.ArrowTypeError, AttributeError, TypeError)
"""Errors for a value that was written under another declaration of its attribute."""
_NESTED: Final = frozenset({Type.OBJECT, Type.LIST})


class _Rest:
    """The content of ``_extra``, split into values for columns and the remainder."""

    def __init__(self, table: Table, shown: Sequence[Attribute]) -> None:
        stored = value_attributes(table)
        self.shown: Callable[[dict[str, object]], dict[str, object]] = _visible_of(table)
        """Returns values without what is hidden, also within nested types whose values misfit."""
        self._at = {item.name: (place, item.type) for place, item in enumerate(shown)}
        self._hidden = frozenset(item.name for item in stored if item.hidden)
        names = "|".join(re.escape(item.name) for item in stored)
        self._suspect = re.compile(f'"(?:{names})":' if names else "(?!)").search

    def parted(
        self,
        attributes: Sequence[Sequence[Cell]],
        forms: Sequence[Cell],
        extra: Sequence[Cell],
    ) -> tuple[list[list[Cell]], list[Cell]]:
        """Return the cells of the attributes and of ``_extra``."""
        cells, rest = [list(column) for column in attributes], list(extra)
        for row, text in enumerate(extra):
            if text is None or forms[row] != TYPED or not self._suspect(cast("str", text)):
                continue
            left = self._left(cells, row, orjson.loads(cast("str", text)))
            rest[row] = orjson.dumps(left).decode() if left else None
        return cells, rest

    def _left(
        self, cells: list[list[Cell]], row: int, value: Mapping[str, object]
    ) -> dict[str, object]:
        """Move values that belong to columns there, and return the remainder.

        An explicit null looks like absence in its column, so it stays here, too; NaN is NULL in
        SQL, but a value in Parquet. Undeclared attributes come first in their given order, then
        those of columns in column order, because values of SQL and of the log are ordered
        differently.
        """
        left: dict[str, object] = {}
        own: dict[str, object] = {}
        for name, item in value.items():
            if name in self._hidden:
                continue
            place, kind = self._at.get(name, (0, None))
            if kind is None:
                left[name] = item
            elif item == _NAN and kind is Type.FLOAT:
                cells[place][row] = float("nan")
            elif item == _NAN and kind is Type.ANY:
                cells[place][row] = orjson.dumps(item).decode()
            else:
                own[name] = item
        return left | self.shown({name: own[name] for name in self._at if name in own})


def _visible_of(table: Table) -> Callable[[dict[str, object]], dict[str, object]]:
    return cast("Callable[[dict[str, object]], dict[str, object]]", Checker(table).visible)
