"""Transcoding: an event's value is decoded once, and encoded once for each media type.

This is the only place that turns payloads into values and values into other media types for
readers, and the only place that leaves hidden attributes out. The results are kept on the event and
shared by all readers. It knows nothing of frames or of who reads.
"""

import logging
from collections.abc import Callable
from typing import Final

from rowcast.codecs import JSON, RAW, codec_for, decode, encode, is_structured
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, MISSING, Event
from rowcast.rows.compiled_table import CompiledTable

log = logging.getLogger("rowcast.rows")

IS_VALUE: Final = object()
"""The key, among an event's encodings, of whether its payload is a value."""
TEXT: Final = "text/plain; charset=utf-8"


class Plain:
    """The type of PLAIN: the payload is not a value, only bytes."""

    __slots__ = ()


PLAIN: Final = Plain()


def structured_type(content_type: str | None) -> str:
    """Return the canonical structured media type to write in: JSON unless another was used."""
    return codec_for(content_type).media_type if is_structured(content_type) else JSON


class Transcoder:
    """Reads events, with the shapes of their tables."""

    def __init__(
        self,
        shapes: dict[str, CompiledTable],
        decode: Callable[[bytes, str | None], object] = decode,
    ) -> None:
        self._shapes = shapes
        self._read = decode

    def _shape(self, event: Event) -> CompiledTable | None:
        if event.table is None:
            return None
        shape = self._shapes.get(event.table.name)
        if shape is None:  # a topic table that is gone, while somebody still has a row of it
            shape = CompiledTable(event.table)
        return shape

    def structured(self, event: Event) -> bool:
        """Whether the event carries a value rather than plain bytes; decodes it if need be.

        A payload without a content type counts as a value when it is JSON.
        """
        if event.decoded is MISSING:
            self._decode(event)
        return not isinstance(event.decoded, Plain)

    def is_value(self, event: Event) -> bool:
        """Whether the event carries a value; decodes it only if that is not known yet."""
        known = event.encodings.get(IS_VALUE) if event.encodings is not None else None
        return known if isinstance(known, bool) else self.structured(event)

    def _decode(self, event: Event) -> None:
        said = event.content_type
        if said is not None and said != JSON and not is_structured(said):
            event.decoded = PLAIN
            return
        try:
            value = self._read(event.payload, said)
        except Error:
            shape = self._shape(event)
            guarded = shape is not None and (shape.hides or shape.guarded)
            if guarded and event.kind != DELETE:  # a deletion has no bytes that could be damaged
                _empty(event)
            else:
                event.decoded = PLAIN  # an open topic's bytes need not be what they claim
            return
        event.decoded = self._restored(event, value)

    def _restored(self, event: Event, value: object) -> object:
        """Return a value of the types its table declares; as it is if they have changed since."""
        shape = self._shape(event)
        try:
            return shape.restore(value) if shape is not None else value
        except Error:
            return value

    def value(self, event: Event) -> object:
        """Return the value that readers may see: decoded, of the declared types, nothing hidden.

        For plain bytes it is the text when they are text, else the bytes; for a deletion it is
        None.
        """
        if event.kind == DELETE:
            return None
        if not self.structured(event):
            return text_or_bytes(event)
        shape = self._shape(event)
        if shape is None or not shape.reshapes:
            return event.decoded
        whole = event.kind != MESSAGE  # a message is no record, of which something is computed
        return shape.read(event.decoded) if whole else shape.visible(event.decoded)

    def sent(self, event: Event) -> object:
        """Return the value of a write as its writer sent it: without what is computed."""
        shape = self._shape(event)
        if shape is None or not self.structured(event):
            return self.value(event)
        return shape.visible(event.decoded)

    def rewritten(self, event: Event, value: object) -> Event:
        """Return a copy of an event that has another value."""
        media_type, shape = structured_type(event.content_type), self._shape(event)
        spelled = shape.spell(value, media_type) if shape is not None else value
        copy = event.changed(payload=encode(spelled, media_type), content_type=media_type)
        copy.decoded = value
        return copy

    def spelled(self, event: Event, media_type: str) -> object:
        """Return the value as it is written in this media type: JSON has its own spellings."""
        value = self.value(event)
        shape = self._shape(event)
        if shape is None or isinstance(event.decoded, Plain):
            return value
        return shape.spell(value, media_type)

    def media_type(self, event: Event) -> str:
        """Return the media type of the payload as it was written."""
        if event.content_type is not None:
            return event.content_type
        if self.is_value(event):
            return JSON
        return TEXT if isinstance(text_or_bytes(event), str) else RAW

    def payload(self, event: Event, media_type: str | None) -> bytes:
        """Return the payload in a structured media type; None means as it came.

        Raises NOT_ACCEPTABLE when plain bytes are asked for in a form they do not have.
        """
        if event.kind == DELETE:
            return b""
        shape = self._shape(event)
        same = media_type is None or media_type == event.content_type
        if same and (shape is None or not shape.reshapes or self._stays(event, shape)):
            return event.payload
        wanted = media_type or structured_type(event.content_type)
        if event.encodings is None:
            event.encodings = {}
        encoded = event.encodings.get(wanted)
        if not isinstance(encoded, bytes):
            encoded = event.encodings[wanted] = self._encode(event, wanted)
        return encoded

    def _stays(self, event: Event, shape: CompiledTable) -> bool:
        """Whether readers get a value as it is stored although the table's records are reshaped."""
        return not shape.hides and (event.kind == MESSAGE or not self.structured(event))

    def _encode(self, event: Event, wanted: str) -> bytes:
        if self.structured(event):
            return encode(self.spelled(event, wanted), wanted)
        held = event.content_type or RAW
        raise Error(
            Code.NOT_ACCEPTABLE,
            f"{event.topic!r} holds {held}, not a value that could be written as {wanted}; "
            "accept */*",
            available=[held],
        )


def _empty(event: Event) -> None:
    """Leave nothing in a damaged event of a table that does not show everybody everything.

    What admitted it could decode it. Whatever its bytes are now, nobody can say what of them is for
    whom, so they are no value for any reader.
    """
    log.error("event %d at %s is damaged: it cannot be decoded; restore it", event.seq, event.topic)
    event.payload, event.content_type, event.decoded = b"null", JSON, None


def text_or_bytes(event: Event) -> str | bytes:
    """Return text when the bytes can be text and do not say that they are something else."""
    said = event.content_type
    if said is None or said.startswith("text/"):
        try:
            return event.payload.decode()
        except UnicodeDecodeError:
            return event.payload
    return event.payload
