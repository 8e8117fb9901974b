"""Delivery formats: the encoding of messages for one kind of client, and cached frames.

A frame is encoded at most once for each event and format and shared by all clients of that format;
with QoS 1 and 2 only the packet identifier differs, so its frame is cached as head and tail (D64).
Rare variants (subscription identifiers, remaining expiry) are cached for the last one.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from time import time
from typing import Any, Final

from rowcast.codecs import CBOR, JSON, MSGPACK, RAW, encode, negotiate
from rowcast.core.bounded import ClearedCache
from rowcast.core.clock import WallClock, milliseconds_of
from rowcast.core.events import DELETE, EXPIRY, EXPIRY_SECONDS_MAX, MESSAGE, PUT, SNAPSHOT, Event
from rowcast.core.limits import MATCH_CACHE_TOPICS_MAX, TOPIC_CACHED_BYTES_MAX
from rowcast.core.meta import meta_of
from rowcast.core.tables import Table
from rowcast.doors.mqtt.packets.messages import DOOR, KEPT, deletion_seconds
from rowcast.mqtt.aliases import alias_frame, alias_parts
from rowcast.mqtt.encode import publish_head_tail
from rowcast.mqtt.packets import MQTT_5
from rowcast.mqtt.wire import text, varint
from rowcast.rows.topic_rows import Row
from rowcast.rows.transcoder import Transcoder
from rowcast.subscriptions.live_query import PARTS, STEP, step_of

log = logging.getLogger("rowcast.mqtt")

Parts = tuple[bytes, bytes]
"""A PUBLISH before and after its packet identifier."""

Frame = bytes | Parts
"""A complete PUBLISH with QoS 0, its parts with QoS 1 and 2."""

UNSENDABLE: Final[Parts] = (b"", b"")
"""Marks an event that cannot be encoded or is not for MQTT, and is not sent."""

_FIRST_BYTES: Final = tuple(
    tuple(bytes((0x30 | flags, size)) for size in range(128)) for flags in range(6)
)
"""The first byte of a PUBLISH and its length, when that has one byte, by flags and length."""

_LAST: Final = 6
"""The cache index of the last variant: after three QoS, retained or not."""
_ALIASED: Final = 7
"""The cache index of the last frame with a Topic Alias."""

SIZE: Final = 8
"""The cache index of the payload's size."""

_SAID_BY_KIND: Final = frozenset({PUT, MESSAGE, SNAPSHOT})
"""Kinds without ``op``, because the packet determines them."""


_AS_IT_IS: Final = frozenset({None, JSON})
"""Media types of formats that get JSON, and bytes that are no value, as they are."""

_TYPES: Final = {name: b"\x03" + text(name) for name in (JSON, RAW)}
"""The property Content Type (MQTT 5, 3.3.2.3.9) of each."""

_SEQ: Final = b"\x26" + text("seq")
"""The user property with a position, up to its value (MQTT 5, 3.3.2.3.7)."""


@dataclass(frozen=True, slots=True, eq=False)
class DeliveryFormat:
    """A protocol version, a media type (None: original), and additional user properties.

    Compared by identity: ``DeliveryFormats`` creates one of each. ``keys`` are the cache keys of
    its frames on an event: at ``qos * 2 + retain``, one for the last variant, one for the last with
    a Topic Alias, and one for the size of the payload.
    """

    version: int
    media_type: str | None
    tells_seq: bool
    tells_meta: bool
    """Whether messages have metadata as user properties (A17)."""
    keys: tuple[object, ...]
    plain: bool
    """Whether the original bytes are sent, without additional properties."""
    no_properties: bytes
    """The bytes before the payload when there are no properties."""


class DeliveryFormats:
    """The formats in use, and the encoder of frames."""

    def __init__(
        self,
        transcoder: Transcoder,
        epoch: str,
        clears_silently: bool = False,
        topics_max: int = MATCH_CACHE_TOPICS_MAX,
        now: WallClock = time,
    ) -> None:
        self._transcoder = transcoder
        self._epoch, self._epoch_bytes = epoch, epoch.encode()
        self._clears_silently = clears_silently
        self._now = now
        self._forms: dict[tuple[int, str | None, bool, bool], DeliveryFormat] = {}
        self._topics: ClearedCache[str, bytes] = ClearedCache(topics_max)
        self._topic, self._tail_bytes, self._flags, self._head = "", 0, 0, b""
        """Of the last frame, what makes its head, and the head: often the next has the same."""
        self._shown: dict[str, tuple[Table, bool]] = {}
        """By name, whether a declared table is shown here with all its attributes."""

    def form(
        self, version: int, media_type: str | None, *, tells_seq: bool, tells_meta: bool = False
    ) -> DeliveryFormat:
        """Return the unique format of this kind."""
        name = (version, media_type, tells_seq, tells_meta)
        form = self._forms.get(name)
        if form is None:
            keys = tuple(object() for _ in range(SIZE + 1))
            plain = media_type is None and not tells_seq and not tells_meta
            no_properties = b"\0" if version == MQTT_5 else b""
            form = DeliveryFormat(
                version, media_type, tells_seq, tells_meta, keys, plain, no_properties
            )
            self._forms[name] = form
        return form

    def restored(self, version: int, facts: Mapping[str, Any]) -> DeliveryFormat:
        """Restore a format from ``facts_of``, for a protocol version."""
        meta = bool(facts.get("meta"))
        return self.form(version, facts["media"], tells_seq=facts["tells"], tells_meta=meta)

    def frame(self, event: Event, form: DeliveryFormat, qos: int, retain: bool) -> Frame:
        """Encode the shared frame of an event, and cache it on the event."""
        plain = (
            event.table is None
            and event.content_type is None
            and event.properties is None
            and form.plain
            and not self._clears_silently
        )
        if plain:
            tail = form.no_properties + event.payload
        elif event.kind == DELETE and (own := self._expiring(event, form, qos, retain)):
            return own
        else:
            tail = self._record_tail(event, form)
        flags, size, head = qos << 1 | retain, len(tail), b""
        if event.topic is self._topic and size == self._tail_bytes and flags == self._flags:
            head = self._head  # as of the frame before
        elif plain or tail:
            head = self._known_head(event, size, flags)
        if not head or not (plain or tail):
            head, tail = self._make(event, form, qos, retain, {})
        frame: Frame = head + tail if head and not qos else (head, tail) if head else UNSENDABLE
        key = form.keys[qos * 2 + retain]
        if event.first_key is None:
            event.first_key, event.first_frame = key, frame
        elif event.encodings is None:
            event.encodings = {key: frame}
        else:
            event.encodings[key] = frame
        return frame

    def _known_head(self, event: Event, tail_bytes: int, flags: int) -> bytes:
        """Return the bytes before the packet identifier, for the next frame too; none: unknown."""
        topic = self._topics.get(event.topic)
        if topic is None and event.kind is SNAPSHOT:
            topic = text(event.topic)  # records read once are not cached (E9)
        if topic is None:
            return b""
        self._topic, self._tail_bytes, self._flags = event.topic, tail_bytes, flags
        self._head = _head(topic, tail_bytes, flags)
        return self._head

    def _expiring(self, event: Event, form: DeliveryFormat, qos: int, retain: bool) -> Frame | None:
        """Return the frame of a deletion with an expiry, which counts down and so is not shared."""
        if deletion_seconds(event, self._now()) < 0:
            return None
        parts = self.own_parts(event, form, qos, retain=retain, identifiers=(), left_seconds=-1)
        return parts if qos or not parts[0] else parts[0] + parts[1]

    def _record_tail(self, event: Event, form: DeliveryFormat) -> bytes:
        """Return the end of the frame of most records; empty for others.

        They have a declared table, and their JSON or plain bytes go out as they are, with the
        position in MQTT 5. ``_make`` would return the same with five times as many calls.
        """
        table, given = event.table, event.properties
        content_type = _TYPES.get(event.content_type or "")
        if (
            type(event) is not Event
            or table is None
            or content_type is None
            or form.media_type not in _AS_IT_IS
            or form.tells_meta
            or event.kind not in _SAID_BY_KIND
            or (given is not None and not KEPT.isdisjoint(given))
            or (event.encodings is not None and STEP in event.encodings)  # a step, inlined
        ):
            return b""
        known = self._shown.get(table.name)
        if known is None or known[0] is not table:
            shown = not table.reshapes and DOOR not in table.hidden_from
            known = self._shown[table.name] = table, shown
        if not known[1]:
            return b""
        if form.version != MQTT_5:
            return event.payload
        if not event.seq:
            return bytes((len(content_type),)) + content_type + event.payload
        cursor = b"%s:%d" % (self._epoch_bytes, event.seq)
        size = len(cursor)  # at most 29: the epoch, a colon and 64 bits
        start = bytes((len(content_type) + len(_SEQ) + 2 + size,)) + content_type + _SEQ
        return start + size.to_bytes(2, "big") + cursor + event.payload

    def own_parts(
        self,
        event: Event,
        form: DeliveryFormat,
        qos: int,
        *,
        retain: bool,
        identifiers: tuple[int, ...],
        left_seconds: int,
    ) -> Parts:
        """Return a frame with subscription identifiers and the remaining expiry, -1 for none."""
        added: dict[str, object] = {}
        if left_seconds < 0 and event.kind == DELETE:
            left_seconds = deletion_seconds(event, self._now())
        if form.version == MQTT_5 and identifiers:
            added["subscription_identifier"] = identifiers  # MQTT-3.3.4-3
        if form.version == MQTT_5 and left_seconds >= 0:
            added[EXPIRY] = min(left_seconds, EXPIRY_SECONDS_MAX)  # MQTT-3.3.2-6
        wanted = (qos, retain, identifiers, left_seconds)
        if event.encodings is None:
            event.encodings = {}
        known = event.encodings.get(form.keys[_LAST])
        if isinstance(known, tuple) and known[0] == wanted:
            return known[1]  # type: ignore[no-any-return]
        parts = self._make(event, form, qos, retain, added)
        event.encodings[form.keys[_LAST]] = (wanted, parts)
        return parts

    def replayed(
        self, event: Event, at: str, form: DeliveryFormat, identifiers: tuple[int, ...]
    ) -> bytes:
        """Return the PUBLISH of an event of the past at another topic; empty for none (M6)."""
        if event.topic and self.withholds(event):
            return b""
        if event.topic:
            payload, properties = self._content(event, form)
        else:  # a mark of the replay
            facts = event.decoded if isinstance(event.decoded, dict) else {}
            payload, properties = encode(facts, form.media_type or JSON), {}
        if form.version == MQTT_5:
            users = properties.get("user_property", ())
            named = dict(users)  # type: ignore[call-overload]
            cursor = () if "seq" in named else (("seq", f"{self._epoch}:{event.seq}"),)
            time = (("time", str(milliseconds_of(event.version))),) if event.version else ()
            own = (*cursor, *time, ("replay", "true"))
            properties["user_property"] = (*users, *own)  # type: ignore[misc]
            if identifiers:
                properties["subscription_identifier"] = identifiers
        retain = event.kind == SNAPSHOT
        head, tail = publish_head_tail(form.version, at, payload, 0, retain, False, properties)
        return head + tail

    @staticmethod
    def aliased(
        event: Event, form: DeliveryFormat, frame: Frame, number: int, *, known: bool
    ) -> Frame:
        """Return a frame with a Topic Alias; shared by clients with the same alias."""
        if event.encodings is None:
            event.encodings = {}
        wanted = (number, known)
        last = event.encodings.get(form.keys[_ALIASED])
        if isinstance(last, tuple) and last[0] is frame and last[1] == wanted:
            return last[2]  # type: ignore[no-any-return]
        made: Frame
        if isinstance(frame, bytes):
            made = alias_frame(frame, number, known=known)
        else:
            made = alias_parts(frame, number, known=known)
        event.encodings[form.keys[_ALIASED]] = (frame, wanted, made)
        return made

    def withholds(self, event: Event) -> bool:
        """Whether an event is not for MQTT, so that it does not count as missed."""
        if event.table is not None:
            return DOOR in event.table.hidden_from
        return self._clears_silently and event.kind == DELETE and event.topic[0] != "$"  # E20

    def _make(
        self, event: Event, form: DeliveryFormat, qos: int, retain: bool, added: dict[str, object]
    ) -> Parts:
        """Encode any frame; a failure affects only this event (D8)."""
        if self.withholds(event):
            return UNSENDABLE
        try:
            topic = self._topics.get(event.topic) or self._remembered(event.topic)
            payload, properties = self._content(event, form)
            if event.encodings is None:
                event.encodings = {}
            event.encodings[form.keys[SIZE]] = len(payload)
            properties |= added
            if not properties:
                tail = form.no_properties + payload
                return _head(topic, len(tail), qos << 1 | retain), tail
            return publish_head_tail(
                form.version, event.topic, payload, qos, retain, False, properties
            )
        except Exception:
            log.exception("no MQTT packet can be made of %r; it is not sent", event)
            return UNSENDABLE

    def _remembered(self, topic: str) -> bytes:
        """Return a topic's bytes, cached."""
        raw = text(topic)
        if len(raw) <= TOPIC_CACHED_BYTES_MAX:
            self._topics.put(topic, raw)
        return raw

    def _content(self, event: Event, form: DeliveryFormat) -> tuple[bytes, dict[str, object]]:
        """Return payload and properties in a format; before MQTT 5 there are no properties."""
        payload, media_type = self._payload(event, form)
        if form.version != MQTT_5:
            return payload, {}
        properties: dict[str, object] = {}
        if event.properties:  # MQTT's, and the server's own
            given = event.properties
            properties = {name: given[name] for name in given if name in KEPT}
            properties.pop("message_expiry_interval", None)  # sent as the remaining expiry
        if media_type is not None:
            properties["content_type"] = media_type
            if media_type != event.content_type:
                properties.pop("payload_format_indicator", None)  # it described other bytes
        pairs = self._user_properties(event, form)
        if pairs:
            users = properties.get("user_property", ())
            properties["user_property"] = (*users, *pairs)  # type: ignore[misc]
        return payload, properties

    def _payload(self, event: Event, form: DeliveryFormat) -> tuple[bytes, str | None]:
        """Return the payload: as requested, else JSON for a declared table, else unchanged."""
        if event.kind == DELETE:  # of a retained message: with the type it came with (3.3.2.3.9)
            return b"", event.content_type if event.table is None else None
        wanted = form.media_type or (JSON if event.table is not None else None)
        if wanted is None:
            return event.payload, event.content_type
        if wanted != event.content_type and not self._transcoder.structured(event):
            return event.payload, event.content_type  # plain bytes have no other format
        return self._transcoder.payload(event, wanted), wanted

    @staticmethod
    def size(event: Event, form: DeliveryFormat) -> int:
        """Return the payload size of an event in a format."""
        known = event.encodings.get(form.keys[SIZE]) if event.encodings is not None else None
        return known if isinstance(known, int) else len(event.payload)

    def _user_properties(self, event: Event, form: DeliveryFormat) -> tuple[tuple[str, str], ...]:
        """Return Rowcast's user properties: always for a declared table, and in live queries of it.

        For others on request: an undeclared topic returns exactly the original properties, unless
        the client requests more.
        """
        pairs: list[tuple[str, str]] = []
        made = event.encodings or ()
        if event.table is not None or form.tells_seq or STEP in made or PARTS in made:
            if event.seq and not (isinstance(event, Row) and event.leads):
                pairs.append(("seq", f"{self._epoch}:{event.seq}"))
            step = step_of(event)
            if step is not None or event.kind not in _SAID_BY_KIND:
                pairs.append(("op", step or event.kind))  # X16, M3
        if form.tells_meta:
            meta = meta_of(event, self._epoch).items()
            pairs += [(name, str(item)) for name, item in meta if item is not None]
        return tuple(pairs)


def _head(topic: bytes, tail_bytes: int, flags: int) -> bytes:
    """Return the bytes before the packet identifier; starts of short packets are precomputed."""
    size = len(topic) + tail_bytes + (2 if flags > 1 else 0)
    if size < 128:
        return _FIRST_BYTES[flags][size] + topic
    return bytes((0x30 | flags,)) + varint(size) + topic


def facts_of(form: DeliveryFormat) -> dict[str, object]:
    """Return a format without the version, as plain values."""
    facts: dict[str, object] = {"media": form.media_type, "tells": form.tells_seq}
    return facts | {"meta": True} if form.tells_meta else facts


def media_type_wanted(accept: str) -> str | None:
    """Return the media type in ``accept`` (X19, D47); None: unchanged.

    Raises NOT_ACCEPTABLE for an unsupported one.
    """
    return None if accept in {"", "*/*"} else negotiate(accept, (JSON, CBOR, MSGPACK))
