"""Cross-origin rules: allowed are this server's own pages, and configured origins.

A browser sends a page's origin; other programs send none and are not affected. Requests from other
origins are refused: otherwise any page on the web could write to a server that trusts local
callers. Pages of other programs on this machine are other origins, too: ports are not reserved for
programs, and browsers send a cookie to all of them (P3).
"""

from collections.abc import Sequence
from functools import wraps
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from rowcast.core.errors import Code, Error
from rowcast.core.limits import CORS_PREFLIGHT_SECONDS
from rowcast.doors.http.messages.asgi import HeaderList, Headers, Message, Send, text_of
from rowcast.doors.http.messages.unreadable import METHODS

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS: Final = ", ".join(METHODS).encode()
_EXPOSED: Final = (
    b"allow, etag, link, location, retry-after, "
    b"event-format, rowcast-after, rowcast-count, rowcast-late, rowcast-position, "
    b"rowcast-repeat, rowcast-replay, rowcast-resumed, rowcast-trimmed, rowcast-unfit, "
    b"rowcast-version, "
    b"stream-next-offset, stream-up-to-date, stream-cursor, stream-closed, stream-ttl, "
    b"stream-expires-at, stream-sse-data-encoding, producer-epoch, producer-seq, "
    b"producer-expected-seq, producer-received-seq"
)
_DEFAULT_HEADERS: Final = (
    b"accept, content-type, if-match, if-none-match, if-unmodified-since, last-event-id, "
    b"idempotency-key, prefer, rowcast-low, rowcast-origin, rowcast-producer, rowcast-version, "
    b"stream-seq, stream-closed, stream-ttl, stream-expires-at, stream-forked-from, "
    b"stream-fork-offset, stream-fork-sub-offset, producer-id, producer-epoch, producer-seq"
)


class Origins:
    """The rule for one server."""

    def __init__(self, configured: Sequence[str]) -> None:
        self._configured = frozenset(configured)

    def allows(self, origin: str, host: str) -> bool:
        """Whether pages of an origin are allowed.

        A page of this server has the request's host as its origin. It is trusted if the host is an
        address, or a local name: any other name could be rebound to this machine.
        """
        if origin in self._configured:
            return True
        name, place = _place_of(origin)
        return place == host != "" and (is_address(name) or _is_this_machine(name))

    def is_trusted(self, origin: str, host: str) -> bool:
        """Whether a page may use the cookie: only one of the host that set it.

        A rebound name is another host to the browser, which has no cookie for it.
        """
        scheme, _, place = origin.partition("://")
        same = scheme in {"http", "https"} and place == host != ""
        return same or origin in self._configured

    def check(self, headers: Headers) -> None:
        """Raise DENIED for a request from a page of a foreign origin."""
        origin = text_of(headers, b"origin")
        if origin is not None and not self.allows(origin, text_of(headers, b"host") or ""):
            raise Error(
                Code.DENIED,
                f"pages of the origin {origin[:200]!r} may not call here; add it to http.cors",
            )


def is_neighbour(origin: str) -> bool:
    """Whether an origin is of any program on this machine."""
    name, _ = _place_of(origin)
    return _is_this_machine(name)


def _place_of(origin: str) -> tuple[str, str]:
    """Return the host of an origin, without and with its port; both empty for an invalid one."""
    try:
        parts = urlsplit(origin)
        name = parts.hostname or ""
    except ValueError:
        return "", ""
    return (name, parts.netloc) if parts.scheme in {"http", "https"} else ("", "")


def _is_this_machine(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, 6.3
        return True
    return is_address(name) and ip_address(name).is_loopback


def is_address(name: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def with_cors(send: Send, origin: bytes, *, credentials: bool = True) -> Send:
    """Wrap ``send`` to add headers that let pages of ``origin`` read the answer.

    Without ``credentials``, only for requests without credentials.
    """
    headers = _answer(origin, credentials=credentials)

    @wraps(send)  # streams need the underlying server (``uvicorn_fastpath``)
    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return send_with_cors


def _answer(origin: bytes, *, credentials: bool) -> HeaderList:
    return [
        (b"access-control-allow-origin", origin),
        *([(b"access-control-allow-credentials", b"true")] if credentials else ()),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"Origin"),
    ]


def preflight(headers: Headers) -> HeaderList:
    """Return the headers of the answer to a preflight request."""
    return [
        (b"access-control-allow-methods", _METHODS),
        (
            b"access-control-allow-headers",
            headers.get(b"access-control-request-headers", _DEFAULT_HEADERS),
        ),
        (b"access-control-max-age", str(CORS_PREFLIGHT_SECONDS).encode()),
    ]
