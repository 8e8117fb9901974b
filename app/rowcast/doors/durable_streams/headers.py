"""The headers of the protocol, parsed: options for a stream, appends, producers."""

import json
import re
from datetime import datetime
from typing import Final
from urllib.parse import unquote_to_bytes

import orjson

from rowcast.core.durable_stream_limits import (
    DURABLE_HEADER_CHARS_MAX,
    DURABLE_NUMBER_MAX,
    DURABLE_SECONDS_MAX,
)
from rowcast.core.errors import Code, Error
from rowcast.core.limits import HTTP_BATCH_RECORDS_MAX
from rowcast.doors.durable_streams.exchange import ROOT, Request
from rowcast.features.durable_streams.stream import Options, ProducerNumber

_NUMBER: Final = re.compile("0|[1-9][0-9]{0,15}", re.ASCII)
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_TYPE: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*(;.*)?")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


def options_of(request: Request) -> tuple[Options, float | None]:
    """Return the options of a PUT, and the time of Stream-Expires-At. Raises INVALID."""
    ttl, expires_at = request.header("Stream-TTL"), request.header("Stream-Expires-At")
    if ttl is not None and expires_at is not None:
        raise Error(Code.INVALID, "Stream-TTL and Stream-Expires-At exclude each other; send one")
    seconds = None if ttl is None else number_of("Stream-TTL", ttl, DURABLE_SECONDS_MAX)
    ends = None if expires_at is None else _time(expires_at)
    source = request.header("Stream-Forked-From")
    offset, sub = request.header("Stream-Fork-Offset"), request.header("Stream-Fork-Sub-Offset")
    if source is None and (offset is not None or sub is not None):
        raise Error(Code.INVALID, "a fork is made with Stream-Forked-From; add it")
    within = 0 if sub is None else number_of("Stream-Fork-Sub-Offset", sub, DURABLE_NUMBER_MAX)
    if within and offset is None:
        raise Error(Code.INVALID, "Stream-Fork-Sub-Offset is within Stream-Fork-Offset; add that")
    options = Options(
        content_type=type_of(request),
        ttl=seconds,
        expires_at=expires_at or "",
        closed=request.is_true("Stream-Closed"),
        source=_source(source) if source is not None else "",
        fork_offset=offset or "",
        fork_sub=within,
    )
    return options, ends


def type_of(request: Request) -> str:
    """Return the content type; empty where none is given. Raises INVALID."""
    said = request.header("Content-Type") or ""
    if said and (len(said) > DURABLE_HEADER_CHARS_MAX or _TYPE.fullmatch(said) is None):
        raise Error(
            Code.INVALID,
            f"{said[:80]!r} is no media type of up to {DURABLE_HEADER_CHARS_MAX} characters",
        )
    return said


def _source(path: str) -> str:
    """Return the topic of a stream's path, which is percent-encoded as in a URL."""
    try:
        name = unquote_to_bytes(path.encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise Error(
            Code.INVALID, "Stream-Forked-From is not UTF-8; percent-encode its UTF-8 form"
        ) from None
    return name.lstrip("/").removeprefix(ROOT)


def mark_of(request: Request) -> ProducerNumber | None:
    """Return the number of an append; None where it has none. Raises INVALID."""
    names = ("Producer-Id", "Producer-Epoch", "Producer-Seq")
    given = [request.header(name) for name in names]
    if given == [None, None, None]:
        return None
    if None in given or not given[0]:
        raise Error(Code.INVALID, "a producer sends Producer-Id, Producer-Epoch and Producer-Seq")
    name, epoch, number = map(str, given)
    if len(name) > DURABLE_HEADER_CHARS_MAX:
        raise Error(Code.INVALID, f"Producer-Id has at most {DURABLE_HEADER_CHARS_MAX} characters")
    return ProducerNumber(
        name,
        number_of("Producer-Epoch", epoch, DURABLE_NUMBER_MAX),
        number_of("Producer-Seq", number, DURABLE_NUMBER_MAX),
    )


def seq_of(request: Request) -> str:
    """Return Stream-Seq; empty where none is given. Raises INVALID."""
    seq = request.header("Stream-Seq") or ""
    if len(seq) > DURABLE_HEADER_CHARS_MAX:
        raise Error(Code.INVALID, f"Stream-Seq has at most {DURABLE_HEADER_CHARS_MAX} characters")
    return seq


def number_of(name: str, text: str, most: int) -> int:
    """Return a whole number of digits without a leading zero; raises INVALID."""
    if _NUMBER.fullmatch(text) is None or int(text) > most:
        raise Error(Code.INVALID, f"{name} is a whole number up to {most}, not {text[:80]!r}")
    return int(text)


def _time(text: str) -> float:
    try:
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text.upper()).timestamp()
    except (ValueError, OverflowError):
        pass
    raise Error(
        Code.INVALID,
        f"Stream-Expires-At is a time such as 2030-01-02T03:04:05Z, not {text[:80]!r}",
    )


def messages_of(body: bytes) -> list[bytes]:
    """Return the messages of a JSON body: the members of an array, or all of it.

    Each is the text that was sent. Raises INVALID for what is no JSON.
    """
    try:
        orjson.loads(body)
        text = body.decode()
        begin = _after(text, 0)
        if text[begin] != "[":
            return [text.strip().encode()]
        return [item.encode() for item in _members(text, begin + 1)]
    except (ValueError, RecursionError) as error:
        raise Error(
            Code.INVALID, f"the body is no JSON ({str(error)[:100]}), and the stream is of JSON"
        ) from None


def _members(text: str, begin: int) -> list[str]:
    found: list[str] = []
    begin = _after(text, begin)
    while text[begin] != "]":
        _, end = _DECODER.raw_decode(text, begin)
        found.append(text[begin:end])
        if len(found) > HTTP_BATCH_RECORDS_MAX:
            raise Error(Code.TOO_LARGE, f"one append has at most {HTTP_BATCH_RECORDS_MAX} messages")
        begin = _after(text, end)
        if text[begin] == ",":
            begin = _after(text, begin + 1)
    return found


def _after(text: str, begin: int) -> int:
    space = _SPACE.match(text, begin)
    return space.end() if space is not None else begin
