r"""JSON (RFC 8259), and the one definition of its spellings for types that it lacks.

    bytes             {"$bytes": "<base64>"}
    datetime          {"$date": "2026-01-02T03:04:05.678901Z"}
    Decimal           {"$decimal": "1.10"}
    NaN, infinities   {"$float": "NaN"}, {"$float": "Infinity"}, {"$float": "-Infinity"}
    a map of exactly one key, which is one of these words or "$map": {"$map": {"$date": 5}}

So ``decode(encode(value)) == value`` always, and any other map is itself, {"$ref": "x"} included.

orjson does the work, and it is lenient where the value model is not: it takes the last of two
equal keys, reads an integer beyond 64 bits as a float, and knows no depth below 1024. Those are
found by cheap looks at the payload that can only err towards suspicion, and only a suspect is read
again, exactly: an ordinary flat record costs a few passes of C over its bytes. This module must
not know media types or headers.
"""

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Final

import orjson

from rowcast.codecs import model
from rowcast.codecs.json_problems import position, syntax_error, twice
from rowcast.codecs.model import ModelMismatch
from rowcast.core import limits
from rowcast.core.errors import Code, Error

EXACT: Final = b"%b"
"""Copies what orjson returns, whose memory stays as large as it was reserved: 4 KiB at least, and
thirteen times a long text. A tenth of a microsecond; where the bytes are kept, it saves more."""
_loads: Final = orjson.loads
_dumps: Final = orjson.dumps
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_DOLLAR, _BACKSLASH = b"$\\"  # as integers: the fast way to ask a payload for one byte
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789\t\r\n", b"000000000   ")
_WIDE: Final = b"0" * 19  # 2**63 has nineteen digits
_WIDE_RUN: Final = re.compile(rb"[0-9]{19,}")
_INT_MAX: Final = str(model.INT_MAX).encode("ascii")
_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_KEY_OR_STRING: Final = re.compile(_STRING + rb"([ \t\r\n]*:)?", re.DOTALL)
_STRING_OR_NUMBER: Final = re.compile(
    _STRING + rb"|(?P<integer>-?[0-9]+)(?P<real>\.[0-9]+)?(?P<power>[eE][+-]?[0-9]+)?", re.DOTALL
)
_BEGINNING: Final = re.compile(rb'[ \t\r\n]*(?:[{\["tfn]|-?(?:0|[1-9][0-9]*)(?:[.eE \t\r\n]|\Z))')
_TOLD_DIGITS: Final = re.compile(rb"[0-9.]{17}|\.[0-9]+0(?![0-9])|[0-9][eE]")
"""What is in a payload if a number in it has digits that a float, spelled again, may not have."""
_CONTAINERS: Final = frozenset((dict, list))
_PARTS_MAX: Final = limits.VALUE_PARTS_MAX
_DEPTH_MAX: Final = limits.VALUE_DEPTH_MAX
_FLOAT_OF_WIDE: Final = 2.0**63
"""What orjson makes of an integer that has no 64 bits is a float, at least as far from zero."""
_FLOATS: Final[Mapping[str, float]] = MappingProxyType(
    {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
)


def encode(value: object, depth_max: int = limits.VALUE_DEPTH_MAX) -> bytes:
    """A value as JSON text, spelled so that ``decode`` gives it back."""
    if not model.simple(value, depth_max):
        model.validate(value, depth_max)
        value = _spelled(value)
    try:
        return EXACT % _dumps(value, None, _OPTIONS)
    except TypeError:
        raise Error(Code.INVALID, model.SURROGATE) from None


def encode_again(value: object, payload: bytes) -> bytes:
    """Do as ``encode`` with what ``decode`` read from a payload, and perhaps with further members.

    Such a value has no type that JSON lacks unless the payload has a spelling, so it need not be
    walked through, which takes longer than to write it. The name of a member may not begin with $.
    """
    if _DOLLAR in payload or (_BACKSLASH in payload and _may_be_spelled(payload)):
        return encode(value)
    return EXACT % _dumps(value, None, _OPTIONS)


def _may_be_spelled(payload: bytes) -> bool:
    """Whether a payload may have the spelling of a type that JSON lacks: they begin with $."""
    return _DOLLAR in payload or (_BACKSLASH in payload and payload.find(b"\\u0024") >= 0)


def written(payload: bytes) -> object:
    """Return a text that ``decode`` accepts as what is written, every spelling as the map it is.

    So readers see it who know JSON and no spellings; ``text`` gives it back.
    """
    return orjson.loads(payload)


def text(value: object) -> bytes:
    """Return what is written as JSON text; nothing is spelled."""
    return EXACT % orjson.dumps(value)


def _spelled(value: object) -> object:
    if isinstance(value, dict):
        spelled = {key: _spelled(item) for key, item in value.items()}
        return {"$map": spelled} if _collides(spelled) else spelled
    if isinstance(value, list):
        return [_spelled(item) for item in value]
    return _spelled_scalar(value)


def _collides(value: dict[str, object]) -> bool:
    return len(value) == 1 and not model.SPELLINGS.isdisjoint(value)


def _spelled_scalar(value: object) -> object:
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode("ascii")}
    if isinstance(value, datetime):
        return {"$date": model.text_of(value)}
    if isinstance(value, Decimal):
        return {"$decimal": str(model.unsigned_zero(value))}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": model.name_of(value)}
    return value


def may_be_json(payload: bytes) -> bool:
    """Whether a payload begins as a JSON text does.

    Else ``decode`` refuses it, with an Error that takes five times as long as this look.
    """
    return _BEGINNING.match(payload) is not None


def decode(payload: bytes, parts_max: int = _PARTS_MAX, depth_max: int = _DEPTH_MAX) -> object:
    """The value that a JSON text spells."""
    try:
        value: object = _loads(payload)
    except orjson.JSONDecodeError as fault:
        raise syntax_error(payload, fault) from None
    if len(payload) > parts_max and _marks(payload) > parts_max < parts_of(value, parts_max):
        raise model.too_many("JSON", parts_max)
    if type(value) is dict:
        for item in value.values():  # inlined: nearly all that comes ends here
            if type(item) is int:
                if not model.INT_MIN <= item <= model.INT_MAX:
                    break
            elif type(item) is float:
                if not -_FLOAT_OF_WIDE < item < _FLOAT_OF_WIDE:
                    break
            elif not (type(item) is str or item is None or type(item) is bool):
                break
        else:  # neither containers nor what orjson makes of an integer that is too wide
            spelled = len(value) == 1 and (_DOLLAR in payload or _BACKSLASH in payload)
            if not spelled and payload.count(b":") == len(value):  # so no name is there twice
                return value
            if _has_each_once(value, payload):
                return value
    digits = payload.translate(_DIGITS_TO_ZERO)
    if digits.find(_WIDE) >= 0:
        _check_integers(payload)
    if type(value) not in _CONTAINERS:
        return value
    return _inspected(value, payload, digits, depth_max)


def _has_each_once(value: dict[str, object], payload: bytes) -> bool:
    """Whether a map without others inside has no name twice, and is no spelling; False may be."""
    if len(value) == 1 and _may_be_spelled(payload):
        return False
    # In a text there may be more colons: then count those that follow a name.
    return payload.count(b":") == len(value) or _counts_agree(
        len(value), payload, payload.translate(_DIGITS_TO_ZERO)
    )


def decode_again(payload: bytes) -> object:
    """The value of a payload that ``decode`` has taken before, so only spellings are looked for."""
    if _may_be_spelled(payload):
        return decode(payload)
    try:
        value: object = _loads(payload)
    except orjson.JSONDecodeError:  # it is damaged, or another payload
        return decode(payload)
    return value


def with_texts(payload: bytes) -> object:
    """Return what ``decode`` has taken, with the text of each number that has a fraction or power.

    None where each float, spelled again, certainly is as written.
    """
    if _TOLD_DIGITS.search(payload) is None:
        return None
    value: object = json.loads(payload, parse_float=str)
    return _unspelled(value) if _may_be_spelled(payload) else value


def _marks(payload: bytes) -> int:
    """An upper bound of the parts: each has a comma or the opening bracket of its container."""
    return payload.count(b",") + payload.count(b"[") + payload.count(b"{")


def parts_of(value: object, enough: int) -> int:
    """The items of all lists and members of all maps; where there are more than enough, as many."""
    parts = 0
    level: list[Collection[object]] = [[value]]
    while level and parts <= enough:
        below: list[Collection[object]] = []
        for items in level:
            for item in items:
                if isinstance(item, dict | list):
                    parts += len(item)
                    below.append(item.values() if isinstance(item, dict) else item)
            if parts > enough:
                break
        level = below
    return parts


def _counts_agree(keys: int, payload: bytes, digits: bytes) -> bool:
    """Whether there are no more members than keys for sure; False is no verdict.

    A member has `":` in it or, with white space between, ` :`. Both can also be inside a text.
    """
    return payload.count(b'":') == keys and digits.find(b" :") < 0


def _inspected(value: object, payload: bytes, digits: bytes, depth_max: int) -> object:
    """The value, after a look for depth, for keys that occur twice and for special spellings."""
    spelled = _may_be_spelled(payload)
    # of a spelling, each map may be escaped, the innermost scalar too
    keys = _count_keys(value, 2 * depth_max + 1 if spelled else depth_max)
    if not _counts_agree(keys, payload, digits) and keys != _count_members(payload):
        raise twice(payload)
    if not spelled:
        return value
    try:
        value = _unspelled(value)
    except ModelMismatch as misfit:
        raise misfit.error() from None
    _count_keys(value, depth_max)
    return value


def _count_keys(value: object, depth_max: int) -> int:
    """The keys of all maps, level by level, so that depth costs no recursion."""
    keys = 0
    level = [value]
    for _ in range(depth_max):
        below: list[object] = []
        for part in level:
            if type(part) is dict:
                keys += len(part)
                below += [item for item in part.values() if type(item) in _CONTAINERS]
            elif type(part) is list:
                below += [item for item in part if type(item) in _CONTAINERS]
        level = below
        if not level:
            return keys
    raise Error(Code.TOO_LARGE, f"In the JSON {model.TOO_DEEP}")


def _count_members(payload: bytes) -> int:
    return sum(1 for found in _KEY_OR_STRING.finditer(payload) if found[1])


def _check_integers(payload: bytes) -> None:
    """Refuse an integer beyond signed 64 bits: orjson would give a float or an unsigned one."""
    if all(len(run) == len(_WIDE) and run <= _INT_MAX for run in _WIDE_RUN.findall(payload)):
        return  # nanoseconds since 1970, most likely
    for found in _STRING_OR_NUMBER.finditer(payload):
        text = found["integer"]
        if text is None or found["real"] or found["power"] or len(text) < len(_WIDE):
            continue
        if len(text) > len(str(model.INT_MIN)) or not model.INT_MIN <= int(text) <= model.INT_MAX:
            where = position(payload, found.start())
            raise Error(Code.INVALID, f"In the JSON, at {where}, {model.TOO_WIDE}")


def _unspelled(value: object) -> object:
    if isinstance(value, list):
        return [_unspelled_part(item, f"[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if _collides(value):
        ((word, inner),) = value.items()
        return _read_spelling(word, inner)
    return _unspelled_map(value)


def _unspelled_map(value: dict[str, object]) -> dict[str, object]:
    return {key: _unspelled_part(item, f".{key}") for key, item in value.items()}


def _unspelled_part(item: object, step: str) -> object:
    try:
        return _unspelled(item)
    except ModelMismatch as misfit:
        misfit.path.append(step)
        raise


def _read_spelling(word: str, inner: object) -> object:
    if word == "$map" and isinstance(inner, dict):
        return _unspelled_map(inner)
    reader = _READERS.get(word)
    if reader is None or not isinstance(inner, str):
        holds = "a map" if word == "$map" else "text"
        raise ModelMismatch(
            f"{word} holds {holds}; a map that has this one key is written"
            f' {{"$map": {{"{word}": ...}}}}.'
        )
    return reader(inner)


def _bytes_of(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:  # not ASCII, or not base64
        raise ModelMismatch(
            "$bytes holds base64 of the standard alphabet, padded with =."
        ) from None


def _float_of(text: str) -> float:
    try:
        return _FLOATS[text]
    except KeyError:
        raise ModelMismatch(
            "$float holds NaN, Infinity or -Infinity; write other numbers bare."
        ) from None


_READERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        "$bytes": _bytes_of,
        "$date": model.datetime_of,
        "$decimal": model.decimal_of,
        "$float": _float_of,
    }
)
