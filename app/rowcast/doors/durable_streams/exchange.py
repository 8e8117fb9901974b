"""A request to a stream and its answer, without the server that carries them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from rowcast.core.callers import Caller
from rowcast.core.durable_stream_limits import DURABLE_HEADER_CHARS_MAX
from rowcast.core.errors import Code, Error

ROOT = "$streams/"
"""The beginning of the paths of streams."""


@dataclass(slots=True)
class Request:
    """A request; ``name`` is the stream's, ``url`` the address that was asked."""

    method: str
    name: str
    query: bytes
    headers: Mapping[bytes, bytes]
    caller: Caller
    url: str
    body: Callable[[], Awaitable[bytes]]

    def header(self, name: str) -> str | None:
        """Return a header as text, None when it is absent; raises INVALID for a long one."""
        value = self.headers.get(name.lower().encode())
        if value is None:
            return None
        if len(value) > DURABLE_HEADER_CHARS_MAX * 8:
            raise Error(Code.INVALID, f"{name} has {len(value)} bytes; send a shorter one")
        return value.decode("latin-1").strip()

    def is_true(self, name: str) -> bool:
        """Whether a header says true."""
        return (self.header(name) or "").lower() == "true"

    def parameters(self) -> dict[str, str]:
        """Return the parameters of the query; raises INVALID for one that comes twice."""
        found = parse_qs(self.query.decode("latin-1"), keep_blank_values=True, max_num_fields=20)
        for name, values in found.items():
            if len(values) > 1:
                raise Error(Code.INVALID, f"the parameter {name[:80]!r} comes twice; give it once")
        return {name: values[0] for name, values in found.items()}


@dataclass(slots=True)
class Answer:
    """An answer: its body is whole, or comes in pieces; or it is an error."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] = b""
    error: Error | None = None
