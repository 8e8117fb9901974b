"""Pieces of a stream, and their forms: a body, and events of SSE."""

import random
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from rowcast.core.durable_stream_limits import DURABLE_CURSOR_SECONDS, DURABLE_CURSOR_START

_LINES: Final = re.compile(rb"\r\n|\r|\n")
_CUT: Final = re.compile(rb"([\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
"""The beginning of a character of UTF-8 whose end is missing: up to three bytes."""
_JITTER_INTERVALS: Final = 180
"""An hour in intervals: the greatest step of a cursor (Durable Streams, 8.1)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some messages, the position after them, and whether these are all there are."""

    messages: Sequence[bytes]
    next: int
    whole: bool


def body_of(messages: Sequence[bytes], *, is_json: bool) -> bytes:
    """Return the body of an answer: a JSON array, or the bytes."""
    return b"[" + b",".join(messages) + b"]" if is_json else b"".join(messages)


def count_of_cut(messages: Sequence[bytes]) -> int:
    """Return how many of the last messages have a part of a character that does not end there."""
    found = _CUT.search(b"".join(messages[-3:])[-3:])
    left, count = len(found[0]) if found else 0, 0
    while left > 0:
        count += 1
        left -= len(messages[-count])
    return count


def data_event(body: bytes, *, is_text: bool) -> bytes:
    """Return an event of SSE with data; what is no text is in base64.

    Readers drop a space after the colon (HTML, 9.2.6), so a line that begins with one gets another.
    """
    text = body if is_text else b64encode(body)
    parts = _LINES.split(text)
    lines = b"".join(b"data:" + b" " * part.startswith(b" ") + part + b"\n" for part in parts)
    return b"event: data\n" + lines + b"\n"


def control_event(offset: str, cursor: str, *, whole: bool, closed: bool) -> bytes:
    """Return the event of SSE that says where its reader is."""
    fields: dict[str, object] = {"streamNextOffset": offset}
    if closed:
        fields["streamClosed"] = True
    else:
        fields["streamCursor"] = cursor
    if whole:
        fields["upToDate"] = True
    return b"event: control\ndata:" + orjson.dumps(fields) + b"\n\n"


def cursor_of(now: float, echoed: str | None) -> str:
    """Return a cursor for caches, greater than the one that a client sends back."""
    current = int((now - DURABLE_CURSOR_START) // DURABLE_CURSOR_SECONDS)
    is_number = echoed and len(echoed) <= 16 and echoed.isascii() and echoed.isdigit()
    if echoed is None or not is_number or int(echoed) < current:
        return str(current)
    step = random.randint(1, _JITTER_INTERVALS)  # noqa: S311 - it hides nothing
    return str(int(echoed) + step)
