"""What is said of JSON that is refused: where it is wrong, and how to mend it.

Made only once ``json_text.py`` has found the fault, so it may read the payload again.
"""

import json
from typing import Final

import orjson

from rowcast.codecs import model
from rowcast.core import limits
from rowcast.core.errors import Code, Error

_NAME_CHARS: Final = 100  # of a key that occurs twice: a sentence, whatever the keys are


def syntax_error(payload: bytes, fault: orjson.JSONDecodeError) -> Error:
    """Return the refusal of a payload that orjson cannot read."""
    if not payload.strip(b" \t\r\n"):
        return Error(Code.INVALID, "The JSON is empty; send a value, for example null.")
    where, reason = f"line {fault.lineno}, column {fault.colno}", fault.msg
    if "depth limit" in reason or "allocate" in reason:  # orjson runs out of room before its depth
        return Error(Code.TOO_LARGE, f"In the JSON, at {where}, {model.TOO_DEEP}")
    if "infinity" in reason:
        message = "a number is beyond 1.8E+308; send it as text, which a Decimal takes"
        return Error(Code.INVALID, f"In the JSON, at {where}, {message}.")
    try:
        payload.decode("utf-8")
    except UnicodeDecodeError as broken:
        where, reason = position(payload, broken.start), "a byte is not UTF-8"
    return Error(Code.INVALID, f"The JSON is malformed at {where}: {reason}.")


def twice(payload: bytes) -> Error:
    """Return the refusal of keys that occur twice, by name; the depth is small by now."""
    if len(payload) > limits.DECODE_POSITION_BYTES_MAX:
        return Error(Code.INVALID, "In the JSON a key occurs twice in one object; send it once.")

    def pairs(members: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for name, _ in members:
            (repeated if name in seen else seen).add(name)

    repeated: set[str] = set()
    json.loads(payload, object_pairs_hook=pairs, parse_int=str)
    listed = [
        json.dumps(name[:_NAME_CHARS]) for name in sorted(repeated)[: limits.PROBLEM_NAMES_MAX]
    ]
    names = ", ".join(listed) + (", ..." if len(repeated) > len(listed) else "")
    return Error(
        Code.INVALID, f"In the JSON a key occurs twice in one object: {names}; send it once."
    )


def position(payload: bytes, offset: int) -> str:
    """Return line and column, counted from 1 and in characters, of a byte."""
    line_start = payload.rfind(b"\n", 0, offset) + 1
    column = len(payload[line_start:offset].decode("utf-8", "replace")) + 1
    return f"line {payload.count(10, 0, offset) + 1}, column {column}"
