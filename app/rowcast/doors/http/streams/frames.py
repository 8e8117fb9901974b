"""Envelopes and frames of events, for SSE and WebSocket.

The envelope is one for both and for every format, with its keys in this order: ``cursor``,
``topic``, ``kind``, ``version``, ``value``, then the metadata if requested. It is encoded at most
once for each event and format, and so is the frame around it; all subscribers share the bytes
(D64).
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from rowcast.codecs import JSON, encode, encode_answer, json_text
from rowcast.core.events import COMMIT, CURRENT, DELETE, END, GAP, RESET, SNAPSHOT, Event
from rowcast.core.freshness import FRESH, SILENT, STALE_PREFIX
from rowcast.core.meta import meta_of
from rowcast.kernel.kernel import Kernel
from rowcast.rows.topic_rows import Row
from rowcast.subscriptions.addressed import Replayed
from rowcast.subscriptions.gaps import Gap
from rowcast.subscriptions.live_query import Step, step_of

MARKS: Final = frozenset({COMMIT, CURRENT, RESET, GAP, END})
NAMED: Final = frozenset({DELETE, *MARKS, SILENT, FRESH, *Step})
"""Kinds with an ``event:`` line of their own; the rest is a plain message (``onmessage``)."""
_POSITIONS: Final = frozenset({COMMIT, CURRENT})
"""Marks that say nothing but a position."""
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")
_JSON_END: Final = b"}"


class Once:
    """Computes a value of an event once, and caches it on the event."""

    __slots__ = ("_key", "_make", "_snapshot_key")

    def __init__(self, name: str, make: Callable[[Event], Any]) -> None:
        self._key = name
        self._snapshot_key = f"{name} snapshot"  # a record and its event share the cache
        self._make = make

    def __call__(self, event: Event) -> Any:
        """Return the cached result of ``make`` for the event."""
        kept = event.encodings
        if kept is None:
            kept = event.encodings = {}
        key = self._snapshot_key if event.kind == SNAPSHOT else self._key
        made = kept.get(key)
        if made is None:
            made = kept[key] = self._make(event)
        return made


def _said(event: Event) -> tuple[str, str]:
    """Return kind and topic for readers.

    Staleness is reported with the record's topic; of a live query an event is a step.
    """
    topic = event.topic
    if topic.startswith(STALE_PREFIX):
        return (FRESH if event.kind == DELETE else SILENT), topic.removeprefix(STALE_PREFIX)
    step = step_of(event)
    return (event.kind if step is None else step.value), topic


class Frames:
    """Encodes events in one media type."""

    def __init__(
        self, kernel: Kernel, media_type: str, *, meta: bool = False, delta: bool = False
    ) -> None:
        self.media_type = media_type
        self.name = f"{media_type} meta" if meta else media_type
        """The key of cached encodings, shared by all readers."""
        self.delta = delta
        """Whether values are sent as what has changed of them (C16)."""
        self._kernel = kernel
        self._transcoder = kernel.transcoder
        self._meta = meta
        self._shared = Once(f"envelope {self.name}", self.envelope)

    def envelope(self, event: Event) -> bytes:
        """Return the envelope."""
        if isinstance(event, Replayed):
            return self._added(self.envelope(event.original), "replay", value=True)
        if self.media_type == JSON:
            return self._json(event)
        members = self._members(event)
        if isinstance(event, Gap):
            members["gap"] = event.facts(self._kernel.cursor)
        elif event.kind in MARKS:
            if event.kind not in _POSITIONS:
                members["value"] = event.decoded
        elif event.kind != DELETE:
            members["value"] = self._value(event)
        return encode_answer(members | self._metadata(event), self.media_type)

    def _members(self, event: Event) -> dict[str, object]:
        kind, topic = _said(event)
        return {
            "cursor": self.cursor(event),
            "topic": topic or None,
            "kind": kind,
            "version": event.version or None,
        }

    def with_delta(self, event: Event, patch: Mapping[str, object]) -> bytes:
        """Return the envelope with a merge patch as ``delta`` in place of the value (C16)."""
        if self.media_type == JSON:
            head, end = self._ends(event)
            return b'%b,"delta":%b%b' % (head, json_text.text(patch), end)
        members = {**self._members(event), "delta": patch}
        return encode_answer(members | self._metadata(event), self.media_type)

    def spelled(self, event: Event) -> object:
        """Return the value of an event as readers of this format decode it; nothing keeps it.

        In JSON that is what is written: a reader merges ``{"$decimal": "1"}`` like any object.
        """
        if self.media_type == JSON:
            return json_text.written(self._json_value(event))
        return self._value(event)

    def _metadata(self, event: Event) -> dict[str, object]:
        """Return the metadata of an event, if requested (A17)."""
        if not self._meta or event.kind in MARKS:
            return {}
        return meta_of(event, self._kernel.reader.epoch)

    def _json(self, event: Event) -> bytes:
        """Wrap the original payload in the envelope, if it is JSON.

        A line end in JSON is white space between tokens, so it may become a space.
        """
        head, end = self._ends(event)
        if event.kind == DELETE or event.kind in _POSITIONS:
            return head + end
        if isinstance(event, Gap):
            return head + b',"gap":' + encode(event.facts(self._kernel.cursor), JSON) + end
        return head + b',"value":' + self._json_value(event).translate(_LINE_ENDS) + end

    def _ends(self, event: Event) -> tuple[bytes, bytes]:
        """Return what is before and after the value in a JSON envelope."""
        cursor = self.cursor(event)
        kind, topic = _said(event)
        head = b'{"cursor":%b,"topic":%b,"kind":"%b","version":%b' % (
            b'"%b"' % cursor.encode() if cursor else b"null",
            encode(topic, JSON) if topic else b"null",
            kind.encode(),
            str(event.version).encode() if event.version else b"null",
        )
        described = self._metadata(event)
        return head, b"," + encode(described, JSON)[1:] if described else _JSON_END

    def _json_value(self, event: Event) -> bytes:
        if event.kind in MARKS:
            return encode(event.decoded, JSON)
        if self._transcoder.structured(event):
            return self._transcoder.payload(event, JSON)
        return encode(self._transcoder.value(event), JSON)

    def _value(self, event: Event) -> object:
        return self._transcoder.spelled(event, self.media_type)

    def cursor(self, event: Event) -> str | None:
        """Return the position to continue from after an event; None for one that is not logged.

        Also None for a row that precedes its event.
        """
        if isinstance(event, Gap):
            return self._kernel.cursor(event.last) if event.last else None
        if isinstance(event, Row) and event.leads:
            return None
        if event.seq or event.kind in MARKS:
            return self._kernel.cursor(event.seq)
        return None

    def block(self, event: Event, envelope: bytes = b"") -> bytes:
        """Return an envelope as a block of lines of an event stream (HTML, 9.2.6).

        It is the event's own, unless another one is given.
        """
        lines = []
        cover, event = event, event.original if isinstance(event, Replayed) else event
        kind, _ = _said(event)
        if kind in NAMED:
            lines.append(b"event: %b\n" % kind.encode())
        if event.kind not in {SNAPSHOT, RESET}:  # a stream cut among these must start over
            cursor = self.cursor(event)
            if cursor:
                lines.append(b"id: %b\n" % cursor.encode())
        data = envelope or self.envelope(cover)
        if self.media_type != JSON:
            data = b64encode(data)
        lines.append(b"data: %b\n\n" % data)
        return b"".join(lines)

    def for_subscription(self, event: Event, number: int) -> bytes:
        """Return the envelope with ``subscription`` as its last key."""
        return self.numbered(self._shared(event), number)

    def numbered(self, envelope: bytes, number: int) -> bytes:
        """Return an envelope with ``subscription`` as its last key."""
        return self._added(envelope, "subscription", value=number)

    def _added(self, envelope: bytes, name: str, *, value: object) -> bytes:
        """Return an envelope with one more member.

        Small maps of CBOR and MessagePack begin with one byte of kind and size: adding a member
        increments it and appends the member's bytes.
        """
        if self.media_type == JSON:
            return b"%b,%b" % (envelope[:-1], encode({name: value}, JSON)[1:])
        member = encode({name: value}, self.media_type)
        return bytes((envelope[0] + 1,)) + envelope[1:] + member[1:]
