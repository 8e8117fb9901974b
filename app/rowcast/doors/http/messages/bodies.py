"""Request bodies: size limit, timeout and content type.

A body is counted while it arrives, so an oversized one is never buffered, and a slow one times out.
It is slow when it takes longer than its time and has arrived at less than the least pace: a large
one that makes progress may take as long as it takes.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from rowcast.codecs import CBOR, CBOR_SEQ, JSON, MSGPACK, NDJSON, codec_for, is_structured
from rowcast.core.errors import Code, Error
from rowcast.core.limits import HTTP_BODY_BYTES_PER_SECOND_MIN
from rowcast.doors.http.messages.asgi import Headers, Receive, text_of
from rowcast.rows.compiled_table import CompiledTable

FORM: Final = "application/x-www-form-urlencoded"
JSON_PATCH: Final = "application/json-patch+json"
_JSON: Final = JSON.encode()
_CHUNKED: Final = b"chunked"
_ARRAYS: Final = {
    CBOR: frozenset(range(0x80, 0xA0)),  # RFC 8949, 3.1: major type 4
    MSGPACK: frozenset({*range(0x90, 0xA0), 0xDC, 0xDD}),
}
"""First bytes of an array."""


async def read_body(
    headers: Headers,
    receive: Receive,
    bytes_max: int,
    seconds_max: float,
    check: Callable[[int], None] = lambda _bytes: None,
    bytes_per_second_min: int = HTTP_BODY_BYTES_PER_SECOND_MIN,
) -> bytes:
    """Return the complete body; raises TOO_LARGE, UNSUPPORTED, INVALID, and errors of ``check``.

    It has ``seconds_max`` seconds, and one more for each ``bytes_per_second_min`` bytes that
    arrived. ``check`` is called for each chunk with the number of buffered bytes.
    """
    _check_codings(headers)
    length = headers.get(b"content-length")
    if length is not None and length.isdigit() and int(length) > bytes_max:
        raise too_large(bytes_max)
    try:
        async with asyncio.timeout(seconds_max) as limit:
            begun = asyncio.get_running_loop().time()

            def note(received: int) -> None:
                check(received)
                limit.reschedule(begun + seconds_max + received / bytes_per_second_min)

            return await _gather(receive, bytes_max, note)
    except TimeoutError:
        raise too_slow(seconds_max, bytes_per_second_min) from None


def _check_codings(headers: Headers) -> None:
    """Refuse a coded body, whose bytes would be taken for the value."""
    encoding = headers.get(b"content-encoding")
    if encoding is not None and encoding.lower() != b"identity":
        raise Error(
            Code.UNSUPPORTED,
            f"the Content-Encoding {encoding.decode('latin-1')[:60]!r} is not read; send it plain",
            close=True,
        )
    coding = headers.get(b"transfer-encoding", _CHUNKED)
    if coding.lower() != _CHUNKED:  # the parser has looked at the last coding only
        raise Error(
            Code.UNSUPPORTED,
            f"the Transfer-Encoding {coding.decode('latin-1')[:60]!r} is not read; send it plain, "
            "in chunks or with its Content-Length",
            close=True,
        )


async def _gather(receive: Receive, bytes_max: int, check: Callable[[int], None]) -> bytes:
    message = await receive()
    if not message.get("more_body") and message["type"] == "http.request":
        body: bytes = message.get("body", b"")
        if len(body) > bytes_max:
            raise too_large(bytes_max)
        return body
    parts = bytearray()
    try:
        while True:
            if message["type"] == "http.disconnect":
                raise Error(Code.INVALID, "the connection ended within the body", close=True)
            parts += message.get("body", b"")
            if len(parts) > bytes_max:
                raise too_large(bytes_max)
            if not message.get("more_body"):
                return bytes(parts)
            check(len(parts))
            message = await receive()
    finally:  # an Error references this frame until a garbage collection
        parts.clear()


def too_slow(seconds_max: float, bytes_per_second_min: int) -> Error:
    """Return the Error for a body that does not arrive (408; RFC 9110, 15.5.9)."""
    return Error(
        Code.INVALID,
        f"the body did not arrive within {seconds_max:g} seconds, with one more for each "
        f"{bytes_per_second_min} bytes that came; send it again, faster",
        close=True,
        slow=True,
    )


def too_large(bytes_max: int) -> Error:
    """Return the Error for a body that is too large."""
    return Error(Code.TOO_LARGE, f"the body has more than {bytes_max} bytes; send it in parts")


def content_type_of(headers: Headers, body: bytes, shape: CompiledTable | None) -> str | None:
    """Return the media type of a body; None: not given, so JSON if it parses as JSON.

    ``curl -d`` labels everything as a form. A body that begins like JSON, or has no ``=``, is no
    form, and a declared table accepts none, so in these cases the header is ignored. A table with
    attributes stores values, so parameters and aliases of a structured type are dropped; elsewhere
    the text is stored unchanged.
    """
    if headers.get(b"content-type") == _JSON:
        return JSON
    said = text_of(headers, b"content-type")
    if not said:
        return None
    typed = shape is not None and not shape.open
    if said.lower().startswith(FORM) and (
        typed or b"=" not in body or body.lstrip()[:1] in {b"{", b"["}
    ):
        return None
    if typed and is_structured(said):
        return codec_for(said).media_type
    return said


def patch_type_of(headers: Headers, body: bytes, shape: CompiledTable | None) -> str:
    """Return the media type of a PATCH: a merge patch (RFC 7396) in a structured format."""
    said = content_type_of(headers, body, shape)
    asked = (text_of(headers, b"content-type") or "").lower()
    if asked.startswith(JSON_PATCH) or not is_structured(said):
        raise Error(
            Code.UNSUPPORTED,
            f"a patch is a merge patch (RFC 7396), not {(asked or said or '')[:60]!r}; send "
            "application/merge-patch+json, CBOR or MessagePack",
        )
    return codec_for(said).media_type


def is_batch(body: bytes, content_type: str | None) -> bool:
    """Whether a body has several records: lines, a sequence, or a list."""
    if content_type is not None and not is_structured(content_type):
        return False
    codec = codec_for(content_type)
    if codec.media_type in {NDJSON, CBOR_SEQ}:
        return True
    if codec.media_type == JSON:
        return body.lstrip()[:1] == b"["
    return body[:1] != b"" and body[0] in _ARRAYS.get(codec.media_type, ())
