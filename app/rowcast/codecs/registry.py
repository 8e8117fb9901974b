"""The media types: which codec speaks each, and how a header or a suffix selects one.

This is the one table of formats; an edge asks here and never compares media types itself. A type
that is not in it is not an error of the sender's alone: the refusal names what is spoken. The
structured suffixes of RFC 6839 and RFC 8742 count, so ``application/problem+json`` is JSON. This
module must not know HTTP, MQTT or WebSocket, only what they have in common: a header's text and
bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from rowcast.codecs import cbor, csv_text, json_text, media_range, messagepack, ndjson
from rowcast.core import limits
from rowcast.core.errors import Code, Error

JSON: Final = "application/json"
CBOR: Final = "application/cbor"
MSGPACK: Final = "application/x-msgpack"
RAW: Final = "application/octet-stream"
CSV: Final = "text/csv"
NDJSON: Final = "application/x-ndjson"
CBOR_SEQ: Final = "application/cbor-seq"


@dataclass(frozen=True, slots=True)
class Codec:
    """A media type's two functions: value to bytes, bytes to value."""

    media_type: str
    suffix: str
    """The name after the dot in a path; empty if a path cannot ask for this format."""
    encode: Callable[[object, int], bytes]
    """Of a value that may be nested so deep."""
    decode: Callable[[bytes, int, int], object]
    """The value of a payload, which may have so many parts and be nested so deep."""
    structured: bool = True
    """Whether it carries values; the raw one carries bytes."""
    binary: bool = True
    """Whether a WebSocket frame of it is binary rather than text."""


def _raw_encode(value: object, _depth_max: int) -> bytes:
    if not isinstance(value, bytes):
        raise Error(
            Code.INVALID, f"{RAW} carries bytes alone; ask for {JSON}, {CBOR} or {MSGPACK}."
        )
    return value


def _raw_decode(payload: bytes, _parts_max: int, _depth_max: int) -> object:
    return payload


def _sequence_encode(value: object, depth_max: int) -> bytes:
    items = value if isinstance(value, list) else [value]
    return b"".join(cbor.encode(item, depth_max) for item in items)


def _sequence_decode(payload: bytes, parts_max: int, depth_max: int) -> object:
    return list(cbor.decode_sequence(payload, parts_max, depth_max))


_ALL: Final = (
    Codec(JSON, "json", json_text.encode, json_text.decode, binary=False),
    Codec(CBOR, "cbor", cbor.encode, cbor.decode),
    Codec(MSGPACK, "msgpack", messagepack.encode, messagepack.decode),
    Codec(CSV, "csv", csv_text.encode, csv_text.decode, binary=False),
    Codec(NDJSON, "ndjson", ndjson.encode, ndjson.decode, binary=False),
    Codec(CBOR_SEQ, "", _sequence_encode, _sequence_decode),
    Codec(RAW, "", _raw_encode, _raw_decode, structured=False),
)
_ALIASES: Final = (
    ("application/msgpack", MSGPACK),
    ("application/vnd.msgpack", MSGPACK),
    ("application/ndjson", NDJSON),
    ("application/jsonl", NDJSON),
)


def _named(codecs: tuple[Codec, ...]) -> Mapping[str, Codec]:
    named = {codec.media_type: codec for codec in codecs}
    return MappingProxyType(named | {alias: named[name] for alias, name in _ALIASES})


CODECS: Final[Mapping[str, Codec]] = _named(_ALL)
"""Every codec, by its media type and by the other names of it."""
_JSON: Final[Codec] = CODECS[JSON]
_MSGPACK: Final[Codec] = CODECS[MSGPACK]
_BY_STRUCTURE: Final[Mapping[str, Codec]] = MappingProxyType(
    {name: CODECS[f"application/{name}"] for name in ("json", "cbor", "cbor-seq", "msgpack")}
)
_BY_SUFFIX: Final[Mapping[str, Codec]] = MappingProxyType(
    {each.suffix: each for each in _ALL if each.suffix}
)
_UTF_8: Final = frozenset(("utf-8", "utf8", "us-ascii"))


def find(media_type: str) -> Codec | None:
    """The codec of a media type in lower case without parameters, by name or by ``+suffix``."""
    return CODECS.get(media_type) or _BY_STRUCTURE.get(media_type.rpartition("+")[2])


@lru_cache(maxsize=limits.MEDIA_HEADER_CACHE_ENTRIES_MAX)
def codec_for(content_type: str | None) -> Codec:
    """The codec that a Content-Type names; JSON where there is none."""
    if content_type is None or not content_type.strip():
        return CODECS[JSON]
    try:
        members = media_range.parse(content_type, "Content-Type")
    except Error as refusal:
        raise _unsupported(content_type, f" {refusal.message}") from None
    codec = find(members[0].type) if len(members) == 1 else None
    if codec is None:
        raise _unsupported(content_type)
    for name, value in members[0].parameters:
        if name == "charset" and codec.structured and value not in _UTF_8:
            raise Error(Code.UNSUPPORTED, f"charset={value} is not read; send UTF-8.")
    return codec


def _unsupported(content_type: str, why: str = "") -> Error:
    known = ", ".join(codec.media_type for codec in _ALL)
    return Error(
        Code.UNSUPPORTED,
        f"The media type {content_type[:100]!r} is not spoken here; use {known}.{why}",
    )


def is_structured(content_type: str | None) -> bool:
    """Whether a Content-Type names a format of values; False for one that is not known."""
    try:
        return codec_for(content_type).structured
    except Error:
        return False


def by_suffix(name: str) -> Codec | None:
    """The codec of a path's suffix, written without the dot."""
    return _BY_SUFFIX.get(name)


def encode(value: object, media_type: str) -> bytes:
    """A value in a media type."""
    return codec_for(media_type).encode(value, limits.VALUE_DEPTH_MAX)


def encode_answer(value: object, media_type: str) -> bytes:
    """What wraps values, such as an event or a list of rows, in a media type.

    It may be nested deeper than a value, and is never stored.
    """
    return codec_for(media_type).encode(value, limits.ANSWER_DEPTH_MAX)


def decode(
    payload: bytes, content_type: str | None, bytes_max: int = limits.DECODE_BYTES_MAX
) -> object:
    """The value in a payload of a Content-Type; without one it is JSON."""
    if len(payload) > bytes_max:
        check_size(payload, bytes_max)
    return codec_for(content_type).decode(payload, limits.VALUE_PARTS_MAX, limits.VALUE_DEPTH_MAX)


def decode_answer(payload: bytes, content_type: str | None) -> object:
    """What ``encode_answer`` has written, or rows; a list has as many as the server sends."""
    return codec_for(content_type).decode(payload, len(payload), limits.ANSWER_DEPTH_MAX)


def decode_again(payload: bytes, content_type: str | None) -> object:
    """The value in a payload that ``decode`` has taken before, such as one of the log."""
    if content_type is None or content_type == JSON:
        return json_text.decode_again(payload)
    codec = codec_for(content_type)
    if codec is _JSON:
        return json_text.decode_again(payload)
    if codec is _MSGPACK:
        return messagepack.decode_again(payload)
    return decode(payload, content_type)


def check_size(payload: bytes, bytes_max: int = limits.DECODE_BYTES_MAX) -> None:
    """Refuse a payload that no setting can allow."""
    if len(payload) > bytes_max:
        raise Error(
            Code.TOO_LARGE,
            f"The payload has {len(payload)} bytes; at most {bytes_max} are"
            " decoded at once, so send it in parts.",
        )


def content_type_header(media_type: str) -> str:
    """The Content-Type to send: the charset where its default would not be UTF-8 (text/*)."""
    return f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type
