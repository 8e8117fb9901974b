"""CBOR (RFC 8949), restricted to the value model.

cbor2 does the work, and by itself it turns tags of the sender's choice into live objects: regular
expressions, e-mail messages, cyclic lists. So *every* tag is answered here, through a mapping that
has an entry for each number there is: a date (0, 1), a decimal fraction (4) and an integer in its
long form (2, 3), which is then held to 64 bits like any other, unless it is the mantissa of a
decimal; the rest is refused. What comes out is walked once more by exact type. This module must
not know media types.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import partial
from io import BytesIO
from types import MappingProxyType

import cbor2

from rowcast.codecs import model
from rowcast.codecs.model import ModelMismatch
from rowcast.core import limits
from rowcast.core.errors import Code, Error

_Reader = Callable[[object, bool], object]
_DECIMAL_DEPTH = 3
"""cbor2 counts the tag, the pair and the mantissa of a decimal."""
_MANTISSA_BYTES_MAX = limits.DECIMAL_DIGITS_MAX // 2  # a byte holds more than two digits
_UNDEFINED = 0xF7
_HEAD_BYTES = MappingProxyType({24: 1, 25: 2, 26: 4, 27: 8})
"""Bytes that follow a head, by its additional information (RFC 8949, 3)."""
_INDEFINITE = 31
_STRINGS = frozenset((2, 3))
"""Major types whose content follows them as bytes."""
_READ_AHEAD_BYTES = 4_096
"""Of a sequence at a time: what was read ahead is read again for the next value."""
ARRAY_OPEN = b"\x9f"
"""The head of an array of indefinite length (RFC 8949, 3.2.2)."""
ARRAY_CLOSE = b"\xff"
"""The break that ends it."""


def encode(value: object, depth_max: int = limits.VALUE_DEPTH_MAX) -> bytes:
    """A value as one CBOR data item."""
    model.validate(value, depth_max)
    return encode_sound(value)


def encode_sound(value: object) -> bytes:
    """A value that is known to be of the model."""
    try:
        return cbor2.dumps(value)  # datetime: tag 0, text to the microsecond; Decimal: tag 4
    except UnicodeEncodeError:
        raise Error(Code.INVALID, model.SURROGATE) from None


def decode(
    payload: bytes,
    parts_max: int = limits.VALUE_PARTS_MAX,
    depth_max: int = limits.VALUE_DEPTH_MAX,
) -> object:
    """The value of the one data item in a payload."""
    _check_parts(payload, parts_max)
    stream = BytesIO(payload)
    decoder, undefined = _decoder(stream, depth_max), _UNDEFINED in payload
    value = _next(decoder, stream, payload, depth_max, undefined=undefined)
    if stream.tell() != len(payload):
        raise Error(
            Code.INVALID,
            f"The CBOR goes on after its value, at byte {stream.tell()}; send one data item.",
        )
    return value


def decode_sequence(
    payload: bytes,
    parts_max: int = limits.VALUE_PARTS_MAX,
    depth_max: int = limits.VALUE_DEPTH_MAX,
) -> Iterator[object]:
    """The values of a CBOR sequence (RFC 8742), one at a time.

    One decoder reads them all, and what is asked of the whole payload is asked once: a sequence may
    have as many values as bytes.
    """
    _check_parts(payload, parts_max)
    stream = BytesIO(payload)
    decoder = _decoder(stream, depth_max, read_size=_READ_AHEAD_BYTES)
    undefined = _UNDEFINED in payload
    while stream.tell() < len(payload):
        yield _next(decoder, stream, payload, depth_max, undefined=undefined)


def _check_parts(payload: bytes, parts_max: int) -> None:
    """Refuse what has too many parts, before any of them is made.

    Data items lie one behind the other, so their heads can be counted without a look at what
    belongs to what (RFC 8949, 3); one too large or broken is left for the decoder to tell of.
    """
    if len(payload) <= parts_max:
        return
    heads = at = 0
    while at < len(payload):
        kind, info = payload[at] >> 5, payload[at] & 0x1F
        after = at + 1 + _HEAD_BYTES.get(info, 0)
        if kind in _STRINGS and info != _INDEFINITE:
            after += int.from_bytes(payload[at + 1 : after]) if info in _HEAD_BYTES else info
        at = after
        heads += 1
        if heads > parts_max:
            raise model.too_many("CBOR", parts_max)


def _next(
    decoder: cbor2.CBORDecoder, stream: BytesIO, payload: bytes, depth_max: int, *, undefined: bool
) -> object:
    start = stream.tell()
    try:
        value = decoder.decode()
    except cbor2.CBORDecodeError as fault:
        raise _refusal(fault, payload, start) from None
    if undefined:
        value = _defined(value)
    model.validate(value, depth_max)
    return value


def _decoder(stream: BytesIO, depth_max: int, read_size: int = 65_536) -> cbor2.CBORDecoder:
    return cbor2.CBORDecoder(
        stream,
        semantic_decoders=_TAGS,
        max_depth=depth_max + _DECIMAL_DEPTH,
        allow_duplicate_keys=False,
        read_size=read_size,
    )


def _defined(value: object) -> object:
    """The value with every CBOR undefined as None."""
    if isinstance(value, dict):
        return {key: _defined(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_defined(item) for item in value]
    return None if value is cbor2.undefined else value


class _Tags(Mapping[int, _Reader]):
    """A reader for every tag number there is, so that cbor2 never uses one of its own."""

    def __getitem__(self, tag: int) -> _Reader:
        return _READERS.get(tag) or partial(_refuse, tag)

    def __iter__(self) -> Iterator[int]:
        return iter(_READERS)

    def __len__(self) -> int:
        return len(_READERS)


def _instant_of_text(value: object, _immutable: bool) -> object:
    if not isinstance(value, str):
        raise ModelMismatch("tag 0, a date, holds text.")
    return model.datetime_of(value)


def _instant_of_number(value: object, _immutable: bool) -> object:
    if type(value) is not int and type(value) is not float:
        raise ModelMismatch("tag 1, a date, holds a number of seconds.")
    return model.datetime_after(value)


def _integer(sign: int, value: object, _immutable: bool) -> object:
    # RFC 8949, 3.4.3: the long form of an integer equals the short one, whatever its length.
    if not isinstance(value, bytes) or len(value.lstrip(b"\0")) > _MANTISSA_BYTES_MAX:
        raise ModelMismatch(model.TOO_WIDE)
    number = int.from_bytes(value, "big")
    return number if sign > 0 else -1 - number


def _decimal(value: object, _immutable: bool) -> object:
    if not isinstance(value, list | tuple) or [type(part) for part in value] != [int, int]:
        raise ModelMismatch("tag 4, a decimal, holds two integers: an exponent and a mantissa.")
    exponent, mantissa = value
    if abs(exponent) > limits.DECIMAL_EXPONENT_MAX:
        raise ModelMismatch(
            f"tag 4, a decimal, has an exponent over {limits.DECIMAL_EXPONENT_MAX}."
        )
    number = Decimal(f"{mantissa}E{exponent}")
    model.check_decimal(number)
    return number


def _refuse(tag: int, _value: object, _immutable: bool) -> object:
    raise ModelMismatch(f"tag {tag} is not taken; only 0 and 1 (dates) and 4 (decimals) are.")


_READERS: Mapping[int, _Reader] = MappingProxyType(
    {
        0: _instant_of_text,
        1: _instant_of_number,
        2: partial(_integer, 1),
        3: partial(_integer, -1),
        4: _decimal,
    }
)
_TAGS = _Tags()


def _refusal(fault: cbor2.CBORDecodeError, payload: bytes, start: int) -> Error:
    """What was wrong, and where if the payload is small enough to be read again."""
    if isinstance(fault, cbor2.CBORDecodeEOF):
        return Error(Code.INVALID, f"The CBOR ends too early, after {len(payload)} bytes.")
    if "nesting depth" in str(fault):
        return Error(Code.TOO_LARGE, f"In the CBOR {model.TOO_DEEP}")
    reason = f"{fault}."
    if isinstance(fault.__cause__, ModelMismatch):
        reason = fault.__cause__.reason
    elif isinstance(fault.__cause__, UnicodeDecodeError):
        reason = "a text is not UTF-8."
    return Error(Code.INVALID, f"The CBOR cannot be read{_where(payload, start)}: {reason}")


def _where(payload: bytes, start: int) -> str:
    """The last byte that had to be read to see the fault."""
    if len(payload) - start > limits.DECODE_POSITION_BYTES_MAX:
        return ""
    stream = BytesIO(payload)
    stream.seek(start)
    with suppress(cbor2.CBORDecodeError):
        # one byte at a time, so that it stops at the fault
        _decoder(stream, limits.ANSWER_DEPTH_MAX, read_size=1).decode()
    return f" at byte {stream.tell() - 1}"
