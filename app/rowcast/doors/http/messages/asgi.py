"""Shared by all of HTTP: the types of ASGI, a request's headers, and paths as topics.

A path is a percent-encoded topic after ``/``, without further changes, so a record has the same
name in a URL and in MQTT (A11).
"""

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from rowcast.core.errors import Code, Error

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = dict[bytes, bytes]
HeaderList = list[tuple[bytes, bytes]]

STATUS_LINES: Final = {
    int(status): f"HTTP/1.1 {status:d} {status.phrase}\r\n".encode() for status in HTTPStatus
}
SIGNED_IN: Final = "rowcast.caller"
"""The key of the authenticated caller in the scope."""
_PATH_SAFE = "/:@!$&'()*,;=~"  # RFC 3986, 3.3: characters allowed in a path


class TrackedSend:
    """An ASGI ``send`` that records the status and the route."""

    __slots__ = ("named", "path", "send", "status")

    def __init__(self, send: Send) -> None:
        self.send = send
        self.status = 0
        """The status of the answer, once it was sent."""
        self.path = ""
        """The path of the answering route; empty until known, and for streams."""
        self.named = False
        """Whether the request names a record of it."""

    async def __call__(self, message: Message) -> None:
        """Send a message."""
        if not self.status:
            self.status = message.get("status", 0)
        await self.send(message)


def headers_of(scope: Scope) -> Headers:
    """Return the headers by lower-case name; repeated ones are one list (RFC 9110, 5.3)."""
    listed: HeaderList = scope["headers"]
    headers = dict(listed)
    if len(headers) != len(listed):
        headers.clear()
        for name, value in listed:
            headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def text_of(headers: Headers, name: bytes) -> str | None:
    """Return a header's value as text, None when it is absent."""
    value = headers.get(name)
    return None if value is None else value.decode("latin-1").strip()


def topic_of(scope: Scope) -> str:
    """Return the topic of a request's path; raises INVALID for a path that is not UTF-8."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    try:
        return (unquote_to_bytes(raw) if b"%" in raw else raw)[1:].decode()
    except UnicodeDecodeError:
        raise Error(
            Code.INVALID, "the path is not UTF-8; percent-encode the bytes of its UTF-8 form"
        ) from None


def peer_of(scope: Scope) -> str:
    """Return the remote address of a request."""
    client = scope.get("client")
    return client[0] if client else ""


def path_of(topic: str) -> str:
    """Return the path of a topic, percent-encoded."""
    return "/" + quote(topic, safe=_PATH_SAFE)


def whole_answer(status: int, headers: HeaderList, body: bytes = b"") -> bytes:
    """Return the bytes of a response; headers must not contain client input."""
    answer = STATUS_LINES[status]
    for name, value in headers:  # a comprehension would be another call
        answer += name + b": " + value + b"\r\n"
    return answer + b"\r\n" + body
