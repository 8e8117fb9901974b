"""Representations: a record as a response in a media type, cached on the record.

A hot GET is then a lookup in the record cache and two prebuilt messages.
"""

from dataclasses import dataclass
from hashlib import blake2b

from rowcast.codecs import (
    CSV,
    JSON,
    NDJSON,
    RAW,
    codec_for,
    content_type_header,
    encode_answer,
    negotiate,
)
from rowcast.codecs.media_range import parse
from rowcast.core.errors import Code, Error
from rowcast.core.events import Record
from rowcast.core.limits import HTTP_DIRECT_BYTES_MAX, HTTP_REPRESENTATIONS_MAX
from rowcast.doors.http.messages.asgi import (
    HeaderList,
    Headers,
    Message,
    Send,
    whole_answer,
)
from rowcast.doors.http.messages.replies import EMPTY, HARMLESS, SELECTED
from rowcast.doors.http.rest.conditions import check_read_condition, http_date, not_modified
from rowcast.doors.http.rest.request import RECORD_TYPES
from rowcast.doors.http.uvicorn_fastpath import write_whole
from rowcast.features.large_values.large_values import LargeValues
from rowcast.kernel.kernel import Kernel
from rowcast.rows.transcoder import Transcoder, structured_type


@dataclass(frozen=True, slots=True)
class Representation:
    """A record in one media type, as messages to send."""

    start: Message
    body: Message
    whole: bytes
    """Both as bytes on the wire; empty when the body is large."""
    unchanged: Message
    etag: bytes
    version: int


def representation(
    kernel: Kernel, record: Record, accept: bytes | None, wanted: str | None = None
) -> Representation:
    """Return a record in an acceptable media type, or in ``wanted``, that of the path."""
    key = ("http", accept if wanted is None else wanted)
    kept = record.encodings.get(key) if record.encodings is not None else None
    if isinstance(kept, Representation):
        return kept
    media_type = wanted or _choose(kernel.transcoder, record, accept)
    made = _make(kernel, record, media_type)
    if record.encodings is None:
        record.encodings = {}
    if len(record.encodings) < HTTP_REPRESENTATIONS_MAX:
        record.encodings[key] = made
    return made


async def prepare(kernel: Kernel, record: Record, accept: bytes | None, wanted: str | None) -> None:
    """Encode a large record elsewhere, so that ``representation`` finds it done."""
    large = kernel.service(LargeValues)
    if large is None or len(record.payload) < large.bytes_min:
        return
    await large.encode(record, None)
    await large.encode(record, wanted or _choose(kernel.transcoder, record, accept))


def kept_representation(record: Record, accept: bytes | None) -> Representation | None:
    """Return the cached representation for the same Accept."""
    if record.encodings is None:
        return None
    kept = record.encodings.get(("http", accept))
    return kept if isinstance(kept, Representation) else None


def send_kept(record: Record, accept: bytes | None, send: Send) -> bool:
    """Send the cached representation for the same Accept, if any; return whether it was sent."""
    kept = record.encodings.get(("http", accept)) if record.encodings is not None else None
    return isinstance(kept, Representation) and kept.whole != b"" and write_whole(send, kept.whole)


def _choose(transcoder: Transcoder, record: Record, accept: bytes | None) -> str | None:
    """Return the response's media type; None: the original."""
    text = None if accept is None else accept.decode("latin-1")
    if record.table is not None and not record.table.open:
        return negotiate(text, RECORD_TYPES)
    own = safe_media_type(transcoder.media_type(record))
    if not transcoder.is_value(record):
        negotiate(text, (own,))
        return None
    # By default a declared table is JSON, whatever its writer sent; a topic is unchanged.
    declared = record.table is not None and structured_type(own) != JSON
    chosen = negotiate(text, (*RECORD_TYPES, own) if declared else (own, *RECORD_TYPES))
    return None if chosen == own else chosen


def safe_media_type(said: str) -> str:
    """Return a writer's content type if it is a valid header value."""
    try:
        members = parse(said, "Content-Type")
    except Error:
        return RAW
    sound = len(members) == 1 and "*" not in members[0].type and said.isascii()
    return said if sound and said.isprintable() else RAW


def _make(kernel: Kernel, record: Record, media_type: str | None) -> Representation:
    transcoder = kernel.transcoder
    body = _body(transcoder, record, media_type)
    if media_type is None:
        content_type = safe_media_type(transcoder.media_type(record))
    else:
        content_type = content_type_header(media_type)
    usual = _choose(transcoder, record, None)
    other = None if media_type == usual else media_type or transcoder.media_type(record)
    validators = [*validators_of(kernel, record, other), *SELECTED]
    headers = [
        (b"content-type", content_type.encode("ascii")),
        (b"content-length", str(len(body)).encode()),
        *validators,
        *(HARMLESS if media_type is None and not transcoder.is_value(record) else ()),
    ]
    return Representation(
        {"type": "http.response.start", "status": 200, "headers": headers},
        {"type": "http.response.body", "body": body},
        whole_answer(200, headers, body) if len(body) <= HTTP_DIRECT_BYTES_MAX else b"",
        {"type": "http.response.start", "status": 304, "headers": validators},
        validators[0][1],
        record.version,
    )


def validators_of(kernel: Kernel, record: Record, other: str | None) -> HeaderList:
    """Return the validators of a record; the ETag is the first.

    ``other`` is the media type, if it is not the record's usual one. Its ETag has a suffix: a cache
    that has the record as JSON, and is asked for CBOR, asks here with the ETag that it has (RFC
    9111, 4.1), and would give out JSON after a 304.
    """
    cursor = kernel.cursor(record.seq).encode()
    suffix = b"" if other is None else b"." + (codec_for(other).suffix or "own").encode()
    if not record.seq:  # from a hook: no record of this log
        said = f"{record.content_type}:".encode() + record.payload
        cursor = blake2b(said, digest_size=16).hexdigest().encode()
        return [
            (b"etag", b'"' + cursor + suffix + b'"'),
            (b"last-modified", http_date(record.version)),
        ]
    return [
        (b"etag", b'"' + cursor + suffix + b'"'),
        (b"last-modified", http_date(record.version)),
        (b"rowcast-position", cursor),
        (b"rowcast-version", str(record.version).encode()),
    ]


def _body(transcoder: Transcoder, record: Record, media_type: str | None) -> bytes:
    if media_type == NDJSON:  # one line of JSON
        return _line(transcoder, record)
    if media_type == CSV:
        if not transcoder.structured(record):
            raise not_a_value(record, CSV)
        return encode_answer(transcoder.spelled(record, JSON), CSV)
    return transcoder.payload(record, media_type)


def _line(transcoder: Transcoder, record: Record) -> bytes:
    if not transcoder.structured(record):
        raise not_a_value(record, NDJSON)
    return encode_answer([transcoder.spelled(record, JSON)], NDJSON)


def not_a_value(record: Record, media_type: str) -> Error:
    """Return the Error for plain bytes in a format of values."""
    held = record.content_type or RAW
    return Error(
        Code.NOT_ACCEPTABLE,
        f"{record.topic!r} holds {held}, not a value that could be written as {media_type}",
        available=[held],
    )


async def send_representation(
    kept: Representation, headers: Headers, send: Send, *, head: bool = False
) -> None:
    """Send a record, or 304; raises PRECONDITION when it is not the one that is asked for."""
    if b"if-match" in headers or b"if-unmodified-since" in headers:
        check_read_condition(headers, kept.etag, kept.version)
    if (b"if-none-match" in headers or b"if-modified-since" in headers) and not_modified(
        headers, kept.etag, kept.version
    ):
        await send(kept.unchanged)
        await send(EMPTY)
        return
    if kept.whole and not head and write_whole(send, kept.whole):
        return
    await send(kept.start)
    await send(EMPTY if head else kept.body)
