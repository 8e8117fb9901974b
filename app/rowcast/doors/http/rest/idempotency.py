"""Requests with an ``Idempotency-Key``: a repeat has no further effect, and the same answer (B17).

The header is that of draft-ietf-httpapi-idempotency-key-header: a string, with or without quotes.
``features/idempotency/idempotency_keys.py`` stores keys; this module computes a request's digest,
to detect a different request with the same key.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.asgi import path_of, text_of
from rowcast.doors.http.rest.request import Request
from rowcast.features.idempotency.idempotent_writes import IdempotentWrites

HEADER: Final = b"idempotency-key"
_ASKED: Final = (
    b"content-type",
    b"if-match",
    b"if-none-match",
    b"if-unmodified-since",
    b"rowcast-version",
    b"rowcast-origin",
)
"""Headers that affect the write; others only affect the response."""


async def carry_out_once(request: Request, verb: Callable[[Request], Awaitable[None]]) -> None:
    """Run a request with a key once; repeats get the first answer."""
    key = _key(request)
    body = await request.body()
    known = request.kernel.service(IdempotentWrites)
    if known is None:
        raise Error(Code.INVALID, "this server knows no repeats; leave Idempotency-Key out")
    with known.keys.claim(request.caller, key, _digest(request, body)) as request.claim:
        await verb(request)


def _key(request: Request) -> str:
    if b"rowcast-producer" in request.headers:
        raise Error(
            Code.INVALID,
            "Rowcast-Producer and Idempotency-Key say the same in two ways; send one of them",
        )
    if request.method == "POST" and request.route.overrides("post") and request.parameters.retain:
        raise Error(
            Code.INVALID,
            f"the resource at {path_of(request.topic)!r} has a post of its own, of which the "
            "server cannot promise that it is done once; leave Idempotency-Key out",
        )
    text = (text_of(request.headers, HEADER) or "").strip()
    quoted = len(text) >= 2 and text[0] == text[-1] == '"'
    return text[1:-1] if quoted else text


def _digest(request: Request, body: bytes) -> bytes:
    """Return a digest of a request's effect; the parts are delimited unambiguously."""
    asked = [text_of(request.headers, name) for name in _ASKED]
    if request.is_told_as_one:  # it stores one receipt, which cannot answer for each record
        asked.append("return=minimal")
    what = (request.method, request.topic, request.scope["query_string"], asked)
    return sha256(repr(what).encode() + b"\0" + body).digest()
