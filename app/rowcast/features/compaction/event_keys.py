"""The key of an event by which its table keeps the newest, and an event as it is kept.

A key is a digest: names of facts have a bounded length then, however long an attribute is. An event
without a value for a part of the key has none, and is not kept.
"""

from hashlib import blake2b
from typing import Final, cast

from rowcast.codecs import CBOR, decode, encode
from rowcast.core.events import DELETE, Event
from rowcast.core.tables import Table
from rowcast.rows.transcoder import Transcoder
from rowcast.store.sql_rows import Row, properties_of

_DIGEST_BYTES: Final = 16
"""No two keys of any table have the same digest of this length."""

_Kept = tuple[int, str, str, int, int, int, str, str | None, bytes, float, str | None, float]
"""Number, record id, kind, version, QoS, retain, client, content type, payload, expiry, properties;
and since when it is kept, in seconds since 1970."""


class EventKeys:
    """The keys of the events of one table; also on other threads."""

    def __init__(self, table: Table, transcoder: Transcoder) -> None:
        self._table = table
        self._transcoder = transcoder
        key = table.primary_key
        own = {"id" if key is None else key.name}
        self._by_id = own if table.attribute("topic") is not None else own | {"topic"}
        self._by_client = set() if table.attribute("clientId") is not None else {"clientId"}

    @property
    def spelling(self) -> list[str]:
        """What the keys are made of; keys of another spelling mean something else."""
        found = [(word, self._table.attribute(word)) for word in self._table.kept_by]
        return [word if item is None else f"{word}:{item.type.value}" for word, item in found]

    def key(self, event: Event, record_id: str) -> str | None:
        """Return the key of an event, or None if it has none."""
        values: list[object] = []
        for word in self._table.kept_by:
            if word in self._by_id:
                value: object = record_id
            elif word in self._by_client:
                value = event.client or None
            else:
                value = self._value(event, word)
            if value is None:
                return None
            values.append(value)
        return blake2b(encode(values, CBOR), digest_size=_DIGEST_BYTES).hexdigest()

    def _value(self, event: Event, name: str) -> object:
        if event.kind == DELETE or not self._transcoder.structured(event):
            return None
        content = event.decoded
        return content.get(name) if isinstance(content, dict) else None


def event_of(table: Table, row: Row) -> Event:
    """Return the event of a row of the log, of a declared table."""
    cells = cast("list[object]", [*row])
    del cells[1]  # the number of the part
    return _event(table, cast("_Kept", (*cells, 0.0)))


def kept_value(row: Row, now_seconds: float) -> bytes:
    """Return a row of the log as the value of a fact."""
    seq, _, record_id, kind, version, qos, retain, client, content_type, payload, *rest = row
    content = payload.encode() if isinstance(payload, str) else payload
    cells = [seq, record_id, kind, version, qos, retain, client, content_type, content]
    return encode([*cells, *rest, now_seconds], CBOR)


def kept_event(table: Table, value: bytes) -> Event:
    """Return the event of such a value."""
    return _event(table, cast("_Kept", tuple(cast("list[object]", decode(value, CBOR)))))


def noted_at(value: bytes) -> float:
    """Return since when it is kept."""
    return cast("_Kept", decode(value, CBOR))[-1]


def _event(table: Table, kept: _Kept) -> Event:
    seq, record_id, kind, version, qos, retain, client, content_type, payload = kept[:9]
    expires, properties, _ = kept[9:]
    return Event(
        table.topic(record_id),
        kind,
        payload.encode() if isinstance(payload, str) else payload,
        content_type,
        qos,
        retain == 1,
        table,
        client,
        properties_of(properties),
        expires or 0.0,
        seq,
        version,
    )
