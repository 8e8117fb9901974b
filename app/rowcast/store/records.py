"""The form of stored records: rules shared by all stores.

A record is the last PUT or PATCH event of its topic, in the form of its table:

- In a table with declared attributes, a value (``decoded`` is a dict) is stored as a value: it is
  returned with its declared attributes in the order of the schema, the undeclared ones after them,
  a Float as a float, its key from the topic, and with plain JSON as its payload, whatever its
  original format. An attribute written as null is null, an unwritten one is absent.
- Everything else (open tables, undeclared topics, unstructured content) is returned as the same
  bytes with the same content type. An open table's value is also stored, for queries, and is
  returned unless the content type is JSON, which any reader can decode.

So folding the events of the log gives the records: the same values, or the same bytes. This module
knows neither SQL nor the storage of records.
"""

from typing import Final, cast

from rowcast.codecs import json_text
from rowcast.core.errors import Error
from rowcast.core.events import MISSING, PUT, Event, Record
from rowcast.core.tables import Table, Type
from rowcast.core.values import parse_id, plain_spelling

JSON: Final = "application/json"

Key = str | int
"""A record's id within its table: an integer for a table whose key is Int or Long."""
Value = dict[str, object]


class Layout:
    """The storage form of one table's records; ``table`` is None for undeclared topics."""

    __slots__ = (
        "_floats",
        "_plain",
        "attributes",
        "integer",
        "key_name",
        "names",
        "prefix",
        "table",
        "typed",
    )

    def __init__(self, table: Table | None) -> None:
        self.table = table
        self.prefix = f"{table.path}/" if table is not None and table.path else ""
        self.attributes = tuple(i for i in (table.attributes if table else ()) if i.stored)
        self.names = tuple(item.name for item in self.attributes)
        self.typed = table is not None and not table.open
        """Whether values are stored as values."""
        key = table.primary_key if table is not None else None
        self.key_name = key.name if key is not None else None
        self.integer = key is not None and key.type in {Type.INT, Type.LONG}
        self._floats = tuple(i.name for i in self.attributes if i.type is Type.FLOAT)
        self._plain = plain_spelling(table) if table is not None else None

    def key(self, topic: str) -> Key:
        """Return the key of a topic; raises INVALID when it is not of the key's type."""
        text = topic[len(self.prefix) :]
        if not self.integer or self.table is None:
            return text
        return cast("Key", parse_id(self.table, text))

    def key_or_none(self, topic: str) -> Key | None:
        """Return the key of a topic, or None when the table can have no such record."""
        if not topic.startswith(self.prefix):
            return None
        try:
            return self.key(topic)
        except Error:
            return None

    def topic(self, key: Key) -> str:
        """Return the topic of a key."""
        return f"{self.prefix}{key}"

    def keeps_value(self, event: Event) -> bool:
        """Whether the event's content is stored as a value rather than as bytes."""
        return self.typed and type(event.decoded) is dict

    def arranged(self, value: Value, key: Key) -> Value:
        """Return the value with the order and number types of a stored one."""
        if self.key_name is not None:
            value = value | {self.key_name: key}
        out = {name: value[name] for name in self.names if name in value}
        if len(out) != len(value):
            out |= {name: item for name, item in value.items() if name not in out}
        for name in self._floats:
            number = out.get(name)
            if isinstance(number, int | float) and not isinstance(number, bool):
                # SQL has one zero, and a REAL column has no integers; what is no number was
                # there before the attribute was, and stays as it is.
                out[name] = float(number) + 0.0
        return out

    def payload(self, value: Value) -> bytes:
        """Return the value as plain JSON."""
        return json_text.encode(value if self._plain is None else self._plain(value))

    def record(self, event: Event) -> Record:
        """Return the record of a PUT or PATCH event."""
        content: tuple[bytes, str | None, object] = (event.payload, event.content_type, MISSING)
        if self.keeps_value(event):
            value = self.arranged(cast("Value", event.decoded), self.key(event.topic))
            content = (self.payload(value), JSON, value)
        elif self.table is not None and not is_json(event.content_type):
            content = (event.payload, event.content_type, event.decoded)
        return Event(
            event.topic,
            PUT,
            content[0],
            content[1],
            event.qos,
            True,
            event.table,
            event.client,
            event.properties,
            event.expires_at,
            event.seq,
            event.version,
            content[2],
        )


def logged(event: Event) -> Event:
    """Return the event in the log's form: the original bytes, not decoded."""
    return Event(
        event.topic,
        event.kind,
        event.payload,
        event.content_type,
        event.qos,
        event.retain,
        event.table,
        event.client,
        event.properties,
        event.expires_at,
        event.seq,
        event.version,
    )


def is_after(key: Key, other: Key) -> bool:
    """Whether a key sorts after another one: integers by value, text by code point."""
    if isinstance(key, int) and isinstance(other, int):
        return key > other
    return str(key) > str(other)


def is_json(content_type: str | None) -> bool:
    """Whether a content type is plain JSON."""
    return content_type is not None and content_type.partition(";")[0].strip().lower() == JSON
