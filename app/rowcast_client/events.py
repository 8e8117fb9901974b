"""Events as a stream brings them: Server-Sent Events (WHATWG HTML, 9.2.6) to values."""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rowcast.codecs import JSON, codec_for
from rowcast.core.errors import Code, Error
from rowcast.core.limits import CLIENT_EVENT_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Event:
    """One event as the server told it; ``fields`` is all of it, with what ``meta`` adds."""

    fields: Mapping[str, object]

    @property
    def kind(self) -> str:
        """What happened: put, patch, delete, message, snapshot, current, gap, reset ..."""
        return str(self.fields.get("kind") or "")

    @property
    def topic(self) -> str:
        """Where; empty for marks, which are of the stream."""
        return str(self.fields.get("topic") or "")

    @property
    def value(self) -> object:
        """The record's value after it, or what was said."""
        return self.fields.get("value")

    @property
    def cursor(self) -> str:
        """The cursor of the record: a condition of writes; empty for what is not logged."""
        return str(self.fields.get("cursor") or "")

    @property
    def gap(self) -> dict[str, object] | None:
        """What was not passed on here: ``count``, ``reason``, ``from`` and ``to``."""
        told = self.fields.get("gap")
        return told if isinstance(told, dict) else None


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as SSE carries it."""

    name: str
    id: str
    data: str


class Frames:
    """Reads a stream of frames from pieces of any size."""

    def __init__(self) -> None:
        self.retry_seconds = 0.0
        """How long the server asks to wait before a reconnect; 0 while it did not."""
        self._parts: list[bytes] = []
        self._size = 0
        self._name = self._id = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Give the frames that end in a piece."""
        for line in self._lines(chunk):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "event":
                self._name = value
            elif name == "id" and "\0" not in value:
                self._id = value
            elif name == "retry" and value.isascii() and value.isdigit():
                self.retry_seconds = int(value) / 1000
            elif not line:
                if self._data:
                    yield Frame(self._name, self._id, "\n".join(self._data))
                self._name, self._data = "", []

    def _lines(self, chunk: bytes) -> Iterator[str]:
        """Give whole lines; never those of ``str.splitlines``, which JSON may hold."""
        first, *others = chunk.split(b"\n")
        self._keep(first)
        for part in others:
            line = b"".join(self._parts)
            self._parts, self._size = [], 0
            self._keep(part)
            yield line.removesuffix(b"\r").decode("utf-8", "replace")

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > CLIENT_EVENT_BYTES_MAX:
            raise Error(Code.TOO_LARGE, f"an event of over {CLIENT_EVENT_BYTES_MAX} bytes came")


def read_fields(data: str, media_type: str = "") -> dict[str, object]:
    """Return the map in a frame: JSON, or base64 of the stream's other format."""
    payload = b64decode(data) if media_type else data.encode()
    fields = codec_for(media_type or JSON).decode(payload)
    if not isinstance(fields, dict):
        raise Error(Code.INVALID, f"the server sent {data[:80]!r}, which is no event")
    return fields
