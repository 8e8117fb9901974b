"""NDJSON: one JSON text on each line, spelled as ``json_text`` says.

A list is its items; any other value is one line, and comes back as a list of one. Empty lines are
skipped, so a file that ends in none, one or two newlines reads the same. This module must not know
media types.
"""

from collections.abc import Iterator
from io import BytesIO

from rowcast.codecs import json_text, model
from rowcast.core import limits
from rowcast.core.errors import Error


def encode(value: object, depth_max: int = limits.VALUE_DEPTH_MAX) -> bytes:
    """A list as lines, one for each item."""
    items = value if isinstance(value, list) else [value]
    return b"".join(encode_line(item, depth_max) for item in items)


def encode_line(value: object, depth_max: int = limits.VALUE_DEPTH_MAX) -> bytes:
    """One value and a newline; JSON text has none inside."""
    return json_text.encode(value, depth_max) + b"\n"


def decode(
    payload: bytes,
    parts_max: int = limits.VALUE_PARTS_MAX,
    depth_max: int = limits.VALUE_DEPTH_MAX,
) -> object:
    """The values of all lines."""
    return list(decode_lines(payload, parts_max, depth_max))


def decode_lines(
    payload: bytes,
    parts_max: int = limits.VALUE_PARTS_MAX,
    depth_max: int = limits.VALUE_DEPTH_MAX,
) -> Iterator[object]:
    """The values of the lines, one at a time, so that a batch is not held twice."""
    counted, left = len(payload) > parts_max, parts_max
    for number, line in enumerate(BytesIO(payload), 1):
        left -= 1
        if not line.isspace():
            value = _decoded(line, number, depth_max)
            left -= json_text.parts_of(value, left) if counted else 0
            yield value
        if counted and left < 0:
            raise model.too_many("NDJSON", parts_max)


def _decoded(line: bytes, number: int, depth_max: int) -> object:
    try:
        return json_text.decode(line, depth_max=depth_max)
    except Error as refusal:
        raise Error(refusal.code, f"On line {number} of the NDJSON: {refusal.message}") from None
