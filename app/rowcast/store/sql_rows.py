"""Rows: conversion between records and rows of SQL values.

Both directions are compiled once for a table, because they run for each record written or read. A
row's ``_form`` is one of:

    TYPED       a value with its attributes in columns; ``_extra`` has the undeclared ones, and
                those that look absent in SQL: an explicit null, and NaN, which SQL stores as NULL.
                ``_extra`` takes precedence over columns.
    JSON_TEXT   original JSON, in ``_extra``, where SQL can query it
    AS_IT_CAME  any content, in ``_payload``; ``_extra`` has its value if it has one

Most rows end in a ``tail`` of default values. These rows are short, and are written by a shorter
statement: binding a NULL costs as much as binding a value.

This module knows columns, not statements.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final, cast

from rowcast.codecs import json_text
from rowcast.core.authentication_limits import WRITERS_CACHED_MAX
from rowcast.core.event_cache import EventCache
from rowcast.core.events import MISSING, PUT, Event, Record
from rowcast.core.tables import Attribute, Type
from rowcast.core.writers import BY
from rowcast.store.records import JSON, Key, Layout, Value, is_json
from rowcast.store.sql_dates import DateCells, date_cell
from rowcast.store.sql_tables import (
    DECLARED_NAMES,
    EXTRA,
    FORM,
    TOPIC_NAMES,
    TOPICS,
    Names,
    key_name,
    quoted,
    sql_name,
    value_attributes,
)

Cell = str | int | float | bytes | bytearray | None
"""One value in SQL."""
Row = tuple[Cell, ...]
Convert = Callable[[object], object]

TYPED: Final = 0
JSON_TEXT: Final = 1
AS_IT_CAME: Final = 2


# -- cells -----------------------------------------------------------------------------------------


def dumps(value: object) -> str:
    """Return a value as JSON text, without loss."""
    return json_text.encode(value).decode()


def loads(text: object) -> object:
    """Return the value of text from ``dumps``."""
    return json_text.decode(cast("str", text).encode())


def _real(value: object) -> object:
    return value if value == value else None  # noqa: PLR0124 - NaN is kept in _extra


def _any_text(value: object) -> object:
    return None if value != value else dumps(value)  # noqa: PLR0124 - NaN is kept in _extra


def _date(text: object) -> object:
    return datetime.fromisoformat(cast("str", text))


def _decimal(text: object) -> object:
    return Decimal(cast("str", text))


def _float(number: object) -> object:
    return float(cast("float", number))  # an Int column that became Float may have integers


_TO_SQL: Final[dict[Type, Convert]] = {
    Type.FLOAT: _real,
    Type.DECIMAL: str,
    Type.DATE: date_cell,
    Type.ANY: _any_text,
    Type.OBJECT: dumps,
    Type.LIST: dumps,
}
_FROM_SQL: Final[dict[Type, Convert]] = {
    Type.FLOAT: _float,
    Type.DECIMAL: _decimal,
    Type.BOOLEAN: bool,
    Type.DATE: _date,
    Type.ANY: loads,
    Type.OBJECT: loads,
    Type.LIST: loads,
}


def cell_of(type_: Type, value: object) -> object:
    """Return the cell of a value in a column of a type."""
    convert = _TO_SQL.get(type_)
    return value if value is None or convert is None else convert(value)


def cell_value(type_: Type, cell: object) -> object:
    """Return the value of a cell in a column of a type."""
    convert = _FROM_SQL.get(type_)
    return cell if cell is None or convert is None else convert(cell)


def _converts(
    attributes: Sequence[Attribute], by_type: dict[Type, Convert]
) -> tuple[tuple[int, Convert], ...]:
    """Return the positions of the attributes that need conversion, with the conversion."""
    return tuple(
        (index, by_type[item.type]) for index, item in enumerate(attributes) if item.type in by_type
    )


def properties_cell(event: Event) -> str | None:
    """Return the MQTT properties of an event as JSON."""
    properties = event.properties
    if properties is None:
        return None
    by = properties.get(BY) if len(properties) == 1 else None
    if type(by) is str:
        return _by_cell(by)
    if len(properties) == 1:  # such as a place in a batch: made twice in the time of keeping it
        return dumps(properties)
    known = _CELL.of(event, None)  # the record and the log have the same
    if known is None or known[0] is not properties:
        known = _CELL.put(event, (properties, dumps(properties)))
    return known[1]


_CELL: Final[EventCache[tuple[object, str]]] = EventCache("cell of properties")


@lru_cache(WRITERS_CACHED_MAX)
def _by_cell(by: str) -> str:
    """Return the cell of an event whose only property is its writer; cached."""
    return dumps({BY: by})


def properties_of(cell: object) -> dict[str, object] | None:
    """Return the MQTT properties of a row."""
    return None if cell is None else cast("dict[str, object]", loads(cell))


# -- rows ------------------------------------------------------------------------------------------


def _conversion(type_: Type) -> Convert | None:
    """Return what converts a column's values to SQL; None also for floats, of which NaN is."""
    convert = None if type_ is Type.FLOAT else _TO_SQL.get(type_)
    return DateCells().of if convert is date_cell else convert


_TopicRow = tuple[str, int, int, str, int, bytes, str | None, float | None, str | None]
"""A row of ``TopicRows.columns``."""


class TopicRows:
    """Current values of undeclared topics: bytes and their metadata."""

    def __init__(self) -> None:
        self.layout = Layout(None)
        self.name: str = TOPICS
        self.names: Names = TOPIC_NAMES
        self.key: str = quoted("topic")
        self.tail: tuple[tuple[str, str], ...] = (
            (quoted("content_type"), "NULL"),
            (quoted("expires"), "NULL"),
            (quoted("properties"), "NULL"),
        )
        """The last columns and their values in a short row, as SQL."""
        self.columns: tuple[str, ...] = (
            *map(quoted, ("topic", "seq", "version", "client", "qos", "payload")),
            *(column for column, _ in self.tail),
        )
        self.cleared: tuple[str, ...] = ()

    def row(self, key: Key, event: Event) -> Row:
        """Return the row of the event's record."""
        head = (key, event.seq, event.version, event.client, event.qos, event.payload)
        if event.content_type is None and event.properties is None and not event.expires_at:
            return head
        return (*head, event.content_type, event.expires_at or None, properties_cell(event))

    def mixes(self, rows: Sequence[Row]) -> bool:  # noqa: ARG002 - the other rows' method
        """Whether some rows have content that is no value: never."""
        return False

    def value(self, row: Row) -> object:  # noqa: ARG002 - the other rows' method
        """Return the value for queries: None, because nothing is decoded."""
        return None

    def record(self, row: Row) -> Record:
        """Return the record of a row."""
        topic, seq, version, client, qos, payload, content_type, expires, properties = cast(
            "_TopicRow", row
        )
        return Event(
            topic,
            PUT,
            payload,
            content_type,
            qos,
            True,
            None,
            client,
            properties_of(properties),
            expires or 0.0,
            seq,
            version,
        )


class TableRows:
    """Rows of one declared table."""

    def __init__(self, layout: Layout, cleared: Sequence[str] = ()) -> None:
        table = layout.table
        if table is None:
            raise TypeError(layout)
        self.layout = layout
        self.name: str = sql_name(table)
        self.names: Names = DECLARED_NAMES
        self.key: str = quoted(key_name(table))
        self._attributes = value_attributes(table)
        self._columns = tuple(item.name for item in self._attributes)
        self._to_sql = tuple((item.name, _conversion(item.type)) for item in self._attributes)
        """The names of the columns and what converts their values; None where nothing need."""
        self._from_sql = _converts(self._attributes, _FROM_SQL)
        self._empty: tuple[None, ...] = (None,) * len(self._columns)
        self._end = 1 + len(self._columns)
        names = self.names
        self.tail: tuple[tuple[str, str], ...] = (
            (quoted(names.expires), "NULL"),
            (quoted(names.properties), "NULL"),
            (quoted(FORM), str(TYPED)),
            (quoted(names.content_type), "NULL"),
            (quoted(EXTRA), "NULL"),
            (quoted(names.payload), "NULL"),
        )
        """The last columns and their values in a short row, as SQL."""
        system = (names.seq, names.version, names.client, names.qos)
        self.columns: tuple[str, ...] = (
            self.key,
            *map(quoted, (*self._columns, *system)),
            *(column for column, _ in self.tail),
        )
        self.cleared: tuple[str, ...] = tuple(map(quoted, cleared))
        """Columns of dropped attributes: a write clears them, so that no old value reappears."""

    # -- in

    def row(self, key: Key, event: Event) -> Row:
        """Return the row of the event's record."""
        value = event.decoded
        system = (event.seq, event.version, event.client, event.qos)
        content: tuple[Cell, Cell, Cell, Cell]
        if type(value) is dict and self.layout.typed:
            cells, extra = self._typed(value)
            if extra is None and event.properties is None and not event.expires_at:
                return cast("Row", (key, *cells, *system))
            content = (TYPED, None, extra, None)
        else:
            cells, content = self._empty, _as_it_came(event)
        tail = (event.expires_at or None, properties_cell(event), *content)
        return cast("Row", (key, *cells, *system, *tail))

    def row_with(self, key: Key, event: Event, undeclared: Value) -> Row:
        """Return the row of a value, with further undeclared attributes."""
        row = self.row(key, event)
        if len(row) < len(self.columns):
            row = (*row, None, None, TYPED, None, None, None)
        if not undeclared:
            return row
        extra = cast("Value", loads(row[-2])) if row[-2] is not None else {}
        return (*row[:-2], dumps(extra | undeclared), row[-1])

    def _typed(self, value: Value) -> tuple[Sequence[object], str | None]:
        """Return the cells of the attributes, and ``_extra`` as JSON."""
        cells: list[object] = []
        held = 0
        for name, convert in self._to_sql:
            cell = value.get(name)
            if convert is not None and cell is not None:
                cell = convert(cell)
            elif type(cell) is float and cell != cell:  # noqa: PLR0124 - NaN is kept in _extra
                cell = None
            held += cell is not None
            cells.append(cell)
        # A cell is of a member, so if all members have one, nothing is left.
        if len(value) == held + (self.layout.key_name in value):
            return cells, None
        kept = {name for name, cell in zip(self._columns, cells, strict=True) if cell is not None}
        if self.layout.key_name is not None:
            kept.add(self.layout.key_name)
        rest = {name: item for name, item in value.items() if name not in kept}
        return cells, dumps(rest) if rest else None

    def mixes(self, rows: Sequence[Row]) -> bool:
        """Whether any of these rows of a typed table has content that is no value."""
        if self.layout.typed:
            width = len(self.columns)
            for row in rows:
                if len(row) == width and row[-4] != TYPED:
                    return True
        return False

    # -- out

    def value(self, row: Row) -> object:
        """Return the value for queries; None when the row has plain bytes."""
        if row[-4] == TYPED:
            return self._value(row)
        extra = row[-2]
        return None if extra is None else loads(extra)

    def _value(self, row: Row) -> Value:
        cells: list[object] = list(row[1 : self._end])
        for index, convert in self._from_sql:
            if cells[index] is not None:
                cells[index] = convert(cells[index])
        pairs = zip(self._columns, cells, strict=True)
        value = {name: cell for name, cell in pairs if cell is not None}
        if row[-2] is not None:
            value |= cast("Value", loads(row[-2]))
        return self.layout.arranged(value, cast("Key", row[0]))

    def record(self, row: Row) -> Record:
        """Return the record of a row."""
        seq, version, client, qos, expires, properties = row[self._end : self._end + 6]
        payload, content_type, decoded = self._content(row)
        return Event(
            self.layout.topic(cast("Key", row[0])),
            PUT,
            payload,
            content_type,
            cast("int", qos),
            True,
            self.layout.table,
            cast("str", client),
            properties_of(properties),
            cast("float", expires or 0.0),
            cast("int", seq),
            cast("int", version),
            decoded,
        )

    def _content(self, row: Row) -> tuple[bytes, str | None, object]:
        content_type, extra, payload = row[-3:]
        if row[-4] == TYPED:
            value = self._value(row)
            return self.layout.payload(value), JSON, value
        media_type = cast("str | None", content_type)
        decoded = MISSING if extra is None or is_json(media_type) else loads(extra)
        if row[-4] == JSON_TEXT:
            return cast("str", extra).encode(), media_type, decoded
        return cast("bytes", payload), media_type, decoded


Rows = TopicRows | TableRows


def _as_it_came(event: Event) -> tuple[int, str | None, str | None, bytes | None]:
    """Return form, content type, extra and payload of content stored unchanged."""
    value, payload = event.decoded, event.payload
    if value is MISSING:
        return AS_IT_CAME, event.content_type, None, payload
    unnamed = event.content_type is None and isinstance(value, dict | list)
    if is_json(event.content_type) or (unnamed and payload[:1] in {b"{", b"["}):
        try:
            return JSON_TEXT, event.content_type, payload.decode(), None
        except UnicodeDecodeError:  # JSON of a writer that does not use UTF-8 (RFC 8259, 8.1)
            pass
    return AS_IT_CAME, event.content_type, dumps(value), payload
