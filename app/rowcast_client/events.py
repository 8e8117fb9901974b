"""Events of a stream: a parser of Server-Sent Events (WHATWG HTML, 9.2.6)."""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rowcast.codecs import JSON, decode_answer
from rowcast.core.errors import Code, Error
from rowcast.core.limits import CLIENT_EVENT_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the server; ``fields`` has all its fields, including those of ``meta``."""

    fields: Mapping[str, object]

    @property
    def kind(self) -> str:
        """The kind: put, patch, delete, message, snapshot, current, commit, gap, reset ..."""
        return str(self.fields.get("kind") or "")

    @property
    def topic(self) -> str:
        """The topic; empty for events of the stream itself, such as ``current``."""
        return str(self.fields.get("topic") or "")

    @property
    def value(self) -> object:
        """The record's value after the event, or the message's value."""
        return self.fields.get("value")

    @property
    def cursor(self) -> str:
        """The cursor of the record, for conditional writes; empty if the event is not logged."""
        return str(self.fields.get("cursor") or "")

    @property
    def gap(self) -> dict[str, object] | None:
        """The events skipped here: ``count``, ``reason``, ``from`` and ``to``."""
        gap = self.fields.get("gap")
        return gap if isinstance(gap, dict) else None


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of SSE."""

    name: str
    id: str
    data: str


class Frames:
    """Parses frames from chunks of any size."""

    def __init__(self, line_bytes_max: int = CLIENT_EVENT_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self.retry_seconds = 0.0
        """The server's ``retry``: the delay before a reconnect; 0 if not sent."""
        self._parts: list[bytes] = []
        self._size = 0
        self._name = self._id = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Yield the frames that a chunk completes."""
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
        """Yield complete lines; splits only at CR and LF: JSON may contain other separators."""
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
        if self._size > self._line_bytes_max:
            raise Error(Code.TOO_LARGE, f"an event of over {self._line_bytes_max} bytes came")


def read_fields(data: str, media_type: str = "") -> dict[str, object]:
    """Return the map in a frame: JSON, or base64 of the stream's binary format."""
    payload = b64decode(data) if media_type else data.encode()
    fields = decode_answer(payload, media_type or JSON)
    if not isinstance(fields, dict):
        raise Error(Code.INVALID, f"the server sent {data[:80]!r}, which is no event")
    return fields
