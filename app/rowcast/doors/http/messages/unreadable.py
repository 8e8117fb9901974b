"""Requests that are no readable HTTP/1.1, or too long: what their senders are told.

Nothing of such a request reaches a door, so it is answered with plain text. The sentence depends on
what the parser missed, since the one who reads it looks at bytes: of a script, a proxy, a device.
"""

import re
from collections.abc import Sequence
from typing import Final

from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS

BAD_REQUEST: Final = "400 Bad Request"
URI_TOO_LONG: Final = "414 URI Too Long"
"""RFC 9110, 15.5.15."""
HEADERS_TOO_LARGE: Final = "431 Request Header Fields Too Large"
"""RFC 6585, 5."""
NOT_IMPLEMENTED: Final = "501 Not Implemented"
"""RFC 9110, 9.1 and 15.6.2."""

METHODS: Final = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS")
"""The methods that are offered somewhere."""
_REQUEST_LINE: Final = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}) [^ \r\n]+ HTTP/1\.[01]\r?\n"
)
"""A line that only lacks a known method (RFC 9112, 3)."""

_BOTH: Final = (
    "the request has both Content-Length and Transfer-Encoding, of which a proxy may read the one "
    "and this server the other; send one of them"
)
_LENGTH: Final = (
    "Content-Length cannot be read: send it once, as the number of the body's bytes in decimal "
    "digits"
)
_CODING: Final = (
    "Transfer-Encoding cannot be read: its last coding must be chunked; for a body in one piece "
    "send Content-Length instead"
)
_CHUNK: Final = (
    "a chunk of the body cannot be read: each is its size in hexadecimal digits, CRLF, that many "
    "bytes, and CRLF; the last has the size 0"
)
_FIELD: Final = (
    "a header field cannot be read: each is a line of its own, as in Accept: text/csv, with no "
    "space before the name or the colon, no control characters, and CRLF at its end"
)
_METHOD: Final = (
    "this is no request of HTTP/1.1: it begins with no method, such as GET or PUT in capitals; "
    "HTTP/2, MQTT and TLS are spoken at other ports, if at all"
)
_VERSION: Final = (
    "the request line cannot be read: it is the method, the URL, HTTP/1.1 and CRLF, with a space "
    "between; in the URL, which begins with /, percent-encode spaces, as %20"
)
_TARGET: Final = (
    "the URL in the request line cannot be read: it begins with /; percent-encode spaces and all "
    "that is not ASCII, such as %C3%A9"
)
_NO_BODY: Final = (
    "a request that opens a WebSocket is a GET without a body; for any other request leave the "
    "header field Upgrade out"
)
_MISSED: Final = (
    ("chunk", _CHUNK),
    ("content-length", _LENGTH),
    ("transfer-encoding", _CODING),
    ("header", _FIELD),
    ("start line", _FIELD),
    ("method", _METHOD),
    ("pri/upgrade", _METHOD),
    ("version", _VERSION),
    ("http/", _VERSION),
)
"""Words of the parser's reasons, and what is told of each; the first that is found decides."""


class RefusedHead(Exception):  # noqa: N818 - it ends a request and is no mistake of the server
    """A request head that is too long, or opens no WebSocket; ``status``: the code and its name."""

    def __init__(self, status: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def sentence_of(reason: str) -> str:
    """Return what is wrong with a request that the parser refuses with a reason."""
    missed = reason.lower()
    if "content-length" in missed and "transfer-encoding" in missed:
        return _BOTH
    return next((sentence for word, sentence in _MISSED if word in missed), _TARGET)


def too_long(url_bytes: int, head_bytes: int, bytes_max: int) -> tuple[str, str]:
    """Return the status and the sentence for a head with too many bytes, by its longer part."""
    together = f"the request line and the header fields may have {bytes_max} bytes together"
    if 2 * url_bytes > head_bytes:
        return URI_TOO_LONG, f"the URL is too long: {together}; ask for less in one request"
    return (
        HEADERS_TOO_LARGE,
        f"the header fields are too large: {together}; send fewer or shorter ones",
    )


def trailers_too_long(bytes_max: int) -> tuple[str, str]:
    """Return the status and the sentence for what follows a body and has too many bytes."""
    return (
        HEADERS_TOO_LARGE,
        f"what follows the body is too large: trailers may have {bytes_max} bytes, and are ignored",
    )


def method_of(data: bytes) -> str:
    """Return the method of a request line at the start of data; empty: there is none."""
    found = _REQUEST_LINE.match(data)
    return found[1].decode() if found else ""


def unknown_method(method: str) -> str:
    """Return what is told of a method that the parser does not know."""
    if method.upper() in METHODS:
        return f"methods are written in capitals: {method.upper()}, not {method}"
    return f"the method {method} is not known here; there are {', '.join(METHODS)}"


def check_size(url: bytes, headers: Sequence[tuple[bytes, bytes]], bytes_max: int) -> None:
    """Raise RefusedHead for a complete head with too many bytes."""
    size = len(url) + sum(len(name) + len(value) + len(": \r\n") for name, value in headers)
    if size > bytes_max:
        raise RefusedHead(*too_long(len(url), size, bytes_max))


def check_upgrade(url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Raise RefusedHead for a head that the library for WebSockets does not read.

    It says nothing then, and the connection would wait without end.
    """
    if len("GET  HTTP/1.1\r\n") + len(url) > MAX_LINE_LENGTH:
        limit = f"the request line of a WebSocket may have {MAX_LINE_LENGTH} bytes"
        sentence = f"the URL is too long: {limit}; ask in its messages instead"
        raise RefusedHead(URI_TOO_LONG, sentence)
    if len(headers) > MAX_NUM_HEADERS:
        raise RefusedHead(
            HEADERS_TOO_LARGE,
            f"there are too many header fields: a WebSocket's request may have {MAX_NUM_HEADERS}",
        )
    for name, value in headers:
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            raise RefusedHead(BAD_REQUEST, _NO_BODY)
        if len(name) + len(value) + len(": \r\n") > MAX_LINE_LENGTH:
            raise RefusedHead(
                HEADERS_TOO_LARGE,
                f"a header field is too large: in the request of a WebSocket each may have "
                f"{MAX_LINE_LENGTH} bytes",
            )
