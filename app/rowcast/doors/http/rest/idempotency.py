"""Requests with an ``Idempotency-Key``: sent again, one has one effect and the same answer (B17).

The header is that of draft-ietf-httpapi-idempotency-key-header: a string, with or without quotes.
What is remembered of a key, and for how long, is for ``features/idempotency/idempotency_keys.py``;
here is only what a request consists of, so that another one with the same key is told from the same
one.
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
"""Headers that say what is to be written, and whether; others say how it is answered."""


async def carry_out_once(request: Request, verb: Callable[[Request], Awaitable[None]]) -> None:
    """Carry out a request that has a key, unless that was done; answer it as the first time."""
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
    """Return a digest of all that a request asks for; the parts cannot be taken for each other."""
    asked = [text_of(request.headers, name) for name in _ASKED]
    what = (request.method, request.topic, request.scope["query_string"], asked)
    return sha256(repr(what).encode() + b"\0" + body).digest()
