"""Which pages may call: the origins that were configured, and those of this machine.

A browser tells a page's origin; other programs send none and are not concerned. Reading across
origins is the browser's to refuse, by the headers that are missing. Writing and WebSockets are not,
so what comes from a foreign origin is refused here: else any page on the web could write to a
server that trusts this machine's callers.
"""

from collections.abc import Sequence
from functools import wraps
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from app.core.errors import Code, Error
from app.core.limits import CORS_PREFLIGHT_SECONDS
from app.http.messages.asgi import HeaderList, Headers, Message, Send, text_of

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS: Final = b"GET, HEAD, PUT, PATCH, POST, DELETE, OPTIONS"
_EXPOSED: Final = (
    b"allow, etag, link, location, retry-after, "
    b"event-format, rowcast-after, rowcast-count, rowcast-late, rowcast-position, "
    b"rowcast-repeat, rowcast-resumed, rowcast-version"
)
_DEFAULT_HEADERS: Final = (
    b"accept, content-type, if-match, if-none-match, last-event-id, "
    b"idempotency-key, rowcast-low, rowcast-origin, rowcast-producer, rowcast-version"
)


class Origins:
    """The rule for one server."""

    def __init__(self, configured: Sequence[str]) -> None:
        self._configured = frozenset(configured)

    def allows(self, origin: str, host: str) -> bool:
        """Tell whether pages of an origin may call.

        A page that this server itself gave has the request's own host in its origin. That counts
        when the host is an address: a name could be one that somebody points at this machine.
        """
        if origin in self._configured:
            return True
        try:
            parts = urlsplit(origin)
            name = parts.hostname or ""
        except ValueError:
            return False
        if parts.scheme not in {"http", "https"}:
            return False
        return _is_this_machine(name) or (parts.netloc == host and is_address(name))

    def is_trusted(self, origin: str, host: str) -> bool:
        """Tell whether a page may use a browser's cookie: one of the very host that gave it.

        A name that somebody points at this machine is another host to the browser, which has no
        cookie for it.
        """
        scheme, _, place = origin.partition("://")
        same = scheme in {"http", "https"} and place == host != ""
        return same or origin in self._configured

    def check(self, headers: Headers) -> None:
        """Raise DENIED for what comes from a page of a foreign origin."""
        origin = text_of(headers, b"origin")
        if origin is not None and not self.allows(origin, text_of(headers, b"host") or ""):
            raise Error(
                Code.DENIED,
                f"pages of the origin {origin[:200]!r} may not do this; add it to http.cors",
            )


def _is_this_machine(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, 6.3
        return True
    return is_address(name) and ip_address(name).is_loopback


def is_address(name: str) -> bool:
    """Tell whether a host is an IP address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def with_cors(send: Send, origin: bytes) -> Send:
    """Return ``send`` so that the answer may be read by pages of ``origin``."""

    @wraps(send)  # streams look for the server underneath (``wire``)
    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_answer(origin)]}
        await send(message)

    return send_with_cors


def _answer(origin: bytes) -> HeaderList:
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"Origin"),
    ]


def preflight(headers: Headers) -> HeaderList:
    """Return what is answered to a browser that asks before it sends the real request."""
    return [
        (b"access-control-allow-methods", METHODS),
        (
            b"access-control-allow-headers",
            headers.get(b"access-control-request-headers", _DEFAULT_HEADERS),
        ),
        (b"access-control-max-age", str(CORS_PREFLIGHT_SECONDS).encode()),
    ]
