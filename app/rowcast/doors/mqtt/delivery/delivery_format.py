"""Forms: how one kind of client wants its messages, and the frames that are made for it.

A frame is made at most once for each event and form and shared by all clients of that form; with
QoS 1 and 2 only the packet identifier differs, so its frame is kept as head and tail
(D64). What few clients share (subscription identifiers, remaining expiry) is remembered for the
last of them.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rowcast.codecs import CBOR, JSON, MSGPACK, negotiate
from rowcast.core.bounded import ClearedCache
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT, SNAPSHOT, Event
from rowcast.core.limits import MATCH_CACHE_TOPICS_MAX, TOPIC_CACHED_BYTES_MAX
from rowcast.core.meta import meta_of
from rowcast.doors.mqtt.packets.messages import DOOR, KEPT
from rowcast.mqtt.aliases import alias_frame, alias_parts
from rowcast.mqtt.encode import publish_head_tail
from rowcast.mqtt.packets import MQTT_5
from rowcast.mqtt.wire import text, varint
from rowcast.rows.topic_rows import Row
from rowcast.rows.transcoder import Transcoder

log = logging.getLogger("rowcast.mqtt")

Parts = tuple[bytes, bytes]
"""A PUBLISH before and after its packet identifier."""

Frame = bytes | Parts
"""A whole PUBLISH with QoS 0, its parts with QoS 1 and 2."""

UNSENDABLE: Parts = (b"", b"")
"""In the place of a frame that cannot be made or is not for MQTT: nobody is sent the event."""

_FIRST_BYTES = tuple(
    tuple(bytes((0x30 | flags, size)) for size in range(128)) for flags in range(6)
)
"""The first byte of a PUBLISH and its length, when that has one byte, by flags and length."""

_LAST = 6
"""Where the last frame that few clients share is kept: after three QoS, retained or not."""
_ALIASED = 7
"""Where the last frame with a Topic Alias is kept."""

_SIZE = 8
"""Where the size of the payload is kept."""

_SAID_BY_KIND = frozenset({PUT, MESSAGE, SNAPSHOT})
"""Kinds that need no ``op``: the packet itself says what they are."""


@dataclass(frozen=True, slots=True, eq=False)
class DeliveryFormat:
    """A version of the protocol, a media type (None: as it came), and what is told besides.

    Compared by identity: ``DeliveryFormats`` makes one of each. ``keys`` are where its frames are
    kept on an event: at ``qos * 2 + retain``, one more for the last frame that few clients share,
    one for the last with a Topic Alias, and one for the size of the payload.
    """

    version: int
    media_type: str | None
    tells_seq: bool
    tells_meta: bool
    """Whether where a message is from is told as user properties (A17)."""
    keys: tuple[object, ...]
    plain: bool
    """Whether bytes are written as they came, and nothing is told but them."""
    no_properties: bytes
    """What stands before the payload when there are no properties."""


class DeliveryFormats:
    """The forms in use, and the making of frames."""

    def __init__(
        self,
        transcoder: Transcoder,
        cursor: Callable[[int], str],
        clears_silently: bool = False,
        topics_max: int = MATCH_CACHE_TOPICS_MAX,
    ) -> None:
        self._transcoder = transcoder
        self._cursor = cursor
        self._clears_silently = clears_silently
        self._forms: dict[tuple[int, str | None, bool, bool], DeliveryFormat] = {}
        self._topics: ClearedCache[str, bytes] = ClearedCache(topics_max)

    def form(
        self, version: int, media_type: str | None, *, tells_seq: bool, tells_meta: bool = False
    ) -> DeliveryFormat:
        """Return the one form of this kind."""
        name = (version, media_type, tells_seq, tells_meta)
        form = self._forms.get(name)
        if form is None:
            keys = tuple(object() for _ in range(_SIZE + 1))
            plain = media_type is None and not tells_seq and not tells_meta
            no_properties = b"\0" if version == MQTT_5 else b""
            form = DeliveryFormat(
                version, media_type, tells_seq, tells_meta, keys, plain, no_properties
            )
            self._forms[name] = form
        return form

    def restored(self, version: int, facts: Mapping[str, Any]) -> DeliveryFormat:
        """Return the form that ``facts_of`` was told of, in a version."""
        meta = bool(facts.get("meta"))
        return self.form(version, facts["media"], tells_seq=facts["tells"], tells_meta=meta)

    def frame(self, event: Event, form: DeliveryFormat, qos: int, retain: bool) -> Frame:
        """Make the shared frame of an event, and keep it on the event.

        The most frequent one of all, bytes as they came, is made without a detour.
        """
        topic = self._topics.get(event.topic)
        if topic is None and event.kind is SNAPSHOT:
            topic = text(event.topic)  # of a million that are read once, none is remembered (E9)
        if (
            topic is None
            or event.table is not None
            or event.content_type is not None
            or event.properties is not None
            or not form.plain
            or self._clears_silently
        ):
            head, tail = self._make(event, form, qos, retain, {})
        else:
            tail = form.no_properties + event.payload
            size = len(topic) + len(tail) + (2 if qos else 0)
            if size < 128:  # as ``_head``, which would be one more call for each message
                head = _FIRST_BYTES[qos << 1 | retain][size] + topic
            else:
                head = _head(topic, len(tail), qos, retain)
        frame: Frame = head + tail if head and not qos else (head, tail) if head else UNSENDABLE
        if event.encodings is None:
            event.encodings = {form.keys[qos * 2 + retain]: frame}
        else:
            event.encodings[form.keys[qos * 2 + retain]] = frame
        return frame

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
        """Return a frame with subscription identifiers and the expiry that remains, -1 for none."""
        added: dict[str, object] = {}
        if form.version == MQTT_5 and identifiers:
            added["subscription_identifier"] = identifiers  # MQTT-3.3.4-3
        if form.version == MQTT_5 and left_seconds >= 0:
            added["message_expiry_interval"] = left_seconds  # MQTT-3.3.2-6
        wanted = (qos, retain, identifiers, left_seconds)
        if event.encodings is None:
            event.encodings = {}
        known = event.encodings.get(form.keys[_LAST])
        if isinstance(known, tuple) and known[0] == wanted:
            return known[1]  # type: ignore[no-any-return]
        parts = self._make(event, form, qos, retain, added)
        event.encodings[form.keys[_LAST]] = (wanted, parts)
        return parts

    @staticmethod
    def aliased(
        event: Event, form: DeliveryFormat, frame: Frame, number: int, *, known: bool
    ) -> Frame:
        """Return a frame with a Topic Alias; clients that know a topic by one number share it."""
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
        """Tell whether an event is not for MQTT at all: then nobody here misses it."""
        if event.table is not None:
            return DOOR in event.table.hidden_from
        return self._clears_silently and event.kind == DELETE and event.topic[0] != "$"  # E20

    def _make(
        self, event: Event, form: DeliveryFormat, qos: int, retain: bool, added: dict[str, object]
    ) -> Parts:
        """Make any frame; what cannot be written concerns this event alone (D8)."""
        if self.withholds(event):
            return UNSENDABLE
        try:
            topic = self._topics.get(event.topic) or self._remembered(event.topic)
            payload, properties = self._content(event, form)
            if event.encodings is None:
                event.encodings = {}
            event.encodings[form.keys[_SIZE]] = len(payload)
            properties |= added
            if not properties:
                tail = form.no_properties + payload
                return _head(topic, len(tail), qos, retain), tail
            return publish_head_tail(
                form.version, event.topic, payload, qos, retain, False, properties
            )
        except Exception:
            log.exception("no MQTT packet can be made of %r; it is not sent", event)
            return UNSENDABLE

    def _remembered(self, topic: str) -> bytes:
        """Return a topic's bytes, kept for the next message there."""
        raw = text(topic)
        if len(raw) <= TOPIC_CACHED_BYTES_MAX:
            self._topics.put(topic, raw)
        return raw

    def _content(self, event: Event, form: DeliveryFormat) -> tuple[bytes, dict[str, object]]:
        """Return payload and properties in a form; before MQTT 5 there are no properties."""
        payload, media_type = self._payload(event, form)
        if form.version != MQTT_5:
            return payload, {}
        properties: dict[str, object] = {}
        if event.properties:  # MQTT's, and what the server notes there for itself
            given = event.properties
            properties = {name: given[name] for name in given if name in KEPT}
            properties.pop("message_expiry_interval", None)  # it is told as what remains
        if media_type is not None:
            properties["content_type"] = media_type
            if media_type != event.content_type:
                properties.pop("payload_format_indicator", None)  # it was of other bytes
        told = self._told(event, form)
        if told:
            users = properties.get("user_property", ())
            properties["user_property"] = (*users, *told)  # type: ignore[misc]
        return payload, properties

    def _payload(self, event: Event, form: DeliveryFormat) -> tuple[bytes, str | None]:
        """Return the payload: as asked, else JSON for a declared table, else as it came."""
        if event.kind == DELETE:
            return b"", None
        wanted = form.media_type or (JSON if event.table is not None else None)
        if wanted is None:
            return event.payload, event.content_type
        if wanted != event.content_type and not self._transcoder.structured(event):
            return event.payload, event.content_type  # plain bytes have no other form
        return self._transcoder.payload(event, wanted), wanted

    @staticmethod
    def size(event: Event, form: DeliveryFormat) -> int:
        """Return how many bytes of payload were sent of an event in a form."""
        known = event.encodings.get(form.keys[_SIZE]) if event.encodings is not None else None
        return known if isinstance(known, int) else len(event.payload)

    def _told(self, event: Event, form: DeliveryFormat) -> tuple[tuple[str, str], ...]:
        """Return what Rowcast adds as user properties: always on a declared table, else if asked.

        An open topic gives back exactly the properties that came, unless the client asked for more.
        """
        told: list[tuple[str, str]] = []
        if event.table is not None or form.tells_seq:
            if event.seq and not (isinstance(event, Row) and event.leads):
                told.append(("seq", self._cursor(event.seq)))
            if event.kind not in _SAID_BY_KIND:
                told.append(("op", event.kind))  # X16
        if form.tells_meta:
            origin = self._cursor(event.seq).partition(":")[0]
            meta = meta_of(event, origin).items()
            told += [(name, str(item)) for name, item in meta if item is not None]
        return tuple(told)


def _head(topic: bytes, tail_bytes: int, qos: int, retain: bool) -> bytes:
    """Return what comes before the packet identifier; of short packets the start is ready made."""
    size = len(topic) + tail_bytes + (2 if qos else 0)
    flags = qos << 1 | retain
    if size < 128:
        return _FIRST_BYTES[flags][size] + topic
    return bytes((0x30 | flags,)) + varint(size) + topic


def facts_of(form: DeliveryFormat) -> dict[str, object]:
    """Return what a form is, but for the version, in plain values."""
    facts: dict[str, object] = {"media": form.media_type, "tells": form.tells_seq}
    return facts | {"meta": True} if form.tells_meta else facts


def meta_wanted(users: Mapping[str, str]) -> bool:
    """Return whether user properties ask for metadata (A17); raises INVALID."""
    said = users.get("meta", "false")
    if said not in {"true", "false"}:
        raise Error(Code.INVALID, f"the user property meta is true or false, not {said[:40]!r}")
    return said == "true"


def media_type_wanted(accept: str) -> str | None:
    """Return the media type that ``accept`` asks for (X19, D47); None is as it came.

    Raises NOT_ACCEPTABLE for one that is not written here.
    """
    return None if accept in {"", "*/*"} else negotiate(accept, (JSON, CBOR, MSGPACK))
