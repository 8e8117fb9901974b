"""Forms: how one kind of client wants its messages, and the frames that are made for it.

A frame is made at most once for each event and form and shared by all clients of that form; with
QoS 1 only the packet identifier differs, so its frame is kept as head and tail (FEATURES D64). What
differs for each client (subscription identifiers, remaining expiry) is made for it alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

from app.codecs import JSON
from app.core.errors import Code, Error
from app.core.events import DELETE, SNAPSHOT, Event
from app.core.limits import MATCH_CACHE_TOPICS_MAX
from app.engine.contents import Contents
from app.mqtt.encode import publish_head_tail
from app.mqtt.packets import MQTT_5
from app.mqtt.wire import text, varint

Parts = tuple[bytes, bytes]
"""A PUBLISH before and after its packet identifier."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A version of the protocol, a media type (None: as it came), and whether ``seq`` is always told.

    Compared by identity: ``Forms`` makes one of each. ``keys`` are where its frames are kept on an
    event, one for each QoS and RETAIN flag.
    """

    version: int
    media_type: str | None
    tells_seq: bool
    keys: tuple[object, ...]


class Forms:
    """The forms in use, and the making of frames."""

    def __init__(self, contents: Contents, cursor: Callable[[int], str]) -> None:
        self._contents = contents
        self._cursor = cursor
        self._forms: dict[tuple[int, str | None, bool], Form] = {}
        self._topics: dict[str, bytes] = {}

    def form(self, version: int, media_type: str | None, *, tells_seq: bool) -> Form:
        """Return the one form of this kind."""
        name = (version, media_type, tells_seq)
        form = self._forms.get(name)
        if form is None:
            form = self._forms[name] = Form(*name, keys=tuple(object() for _ in range(6)))
        return form

    def whole(self, event: Event, form: Form, *, retain: bool) -> bytes:
        """Return the shared frame of an event with QoS 0, made on first need."""
        encodings = event.encodings
        if encodings is None:
            encodings = event.encodings = {}
        frame = encodings.get(form.keys[retain])
        if frame is None:
            if form.version != MQTT_5 and form.media_type is None and event.table is None:
                frame = self._as_it_came(event, retain=retain)
            else:
                frame = b"".join(self._make(event, form, 0, retain=retain))
            encodings[form.keys[retain]] = frame
        return frame  # type: ignore[return-value]

    def _as_it_came(self, event: Event, *, retain: bool) -> bytes:
        """Return the most frequent frame of all, without a detour: QoS 0, before MQTT 5, any bytes."""
        topic = self._topics.get(event.topic)
        if topic is None:
            if len(self._topics) >= MATCH_CACHE_TOPICS_MAX:
                self._topics.clear()
            topic = self._topics[event.topic] = text(event.topic)
        size = len(topic) + len(event.payload)
        first = 0x31 if retain else 0x30
        if size < 128:
            return bytes((first, size)) + topic + event.payload
        return bytes((first,)) + varint(size) + topic + event.payload

    def parts(self, event: Event, form: Form, qos: int, *, retain: bool) -> Parts:
        """Return the shared frame of an event with QoS 1 or 2, around its packet identifier."""
        key = form.keys[qos * 2 + retain]
        encodings = event.encodings
        if encodings is None:
            encodings = event.encodings = {}
        parts = encodings.get(key)
        if parts is None:
            parts = encodings[key] = self._make(event, form, qos, retain=retain)
        return parts  # type: ignore[return-value]

    def own_parts(
        self,
        event: Event,
        form: Form,
        qos: int,
        *,
        retain: bool,
        identifiers: tuple[int, ...],
        now_seconds: float,
    ) -> Parts:
        """Return a frame for one client: its subscription identifiers, the expiry that remains."""
        payload, properties = self._content(event, form)
        if form.version == MQTT_5:
            if identifiers:
                properties["subscription_identifier"] = identifiers  # MQTT-3.3.4-3
            if event.expires_at:  # MQTT-3.3.2-6: what it came with less the time it waited
                properties["message_expiry_interval"] = max(0, int(event.expires_at - now_seconds))
        return publish_head_tail(
            form.version, event.topic, payload, qos, retain, False, properties or None
        )

    def _make(self, event: Event, form: Form, qos: int, *, retain: bool) -> Parts:
        payload, properties = self._content(event, form)
        return publish_head_tail(
            form.version, event.topic, payload, qos, retain, False, properties or None
        )

    def _content(self, event: Event, form: Form) -> tuple[bytes, dict[str, object]]:
        """Return payload and properties in a form; before MQTT 5 there are no properties."""
        payload, media_type = self._payload(event, form)
        if form.version != MQTT_5:
            return payload, {}
        properties = {
            name: value
            for name, value in (event.properties or {}).items()
            if name != "message_expiry_interval"
        }
        if media_type is not None:
            properties["content_type"] = media_type
            if media_type != event.content_type:
                properties.pop("payload_format_indicator", None)
        told = self._told(event, form)
        if told:
            given = properties.get("user_property", ())
            properties["user_property"] = (*given, *told)  # type: ignore[misc]
        return payload, properties

    def _payload(self, event: Event, form: Form) -> tuple[bytes, str | None]:
        """Return the payload: as asked, else JSON for a declared table, else as it came (DESIGN 6)."""
        if event.kind == DELETE:
            return b"", None
        wanted = form.media_type or (JSON if event.table is not None else None)
        if wanted is None:
            return event.payload, event.content_type
        try:
            return self._contents.payload(event, wanted), wanted
        except Error as error:
            if error.code is not Code.NOT_ACCEPTABLE:
                raise
            return event.payload, event.content_type

    def _told(self, event: Event, form: Form) -> tuple[tuple[str, str], ...]:
        """Return what Rowcast adds as user properties: always on a declared table, else if asked.

        An open topic gives back exactly the properties that came, unless the client asked for more.
        """
        if event.table is None and not form.tells_seq:
            return ()
        told: list[tuple[str, str]] = []
        if event.seq:
            told.append(("seq", self._cursor(event.seq)))
        if event.kind not in {"put", "message", SNAPSHOT}:
            told.append(("op", event.kind))  # X16
        return tuple(told)
