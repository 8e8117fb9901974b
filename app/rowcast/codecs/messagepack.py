"""MessagePack, restricted to the value model.

A datetime is the standard's own timestamp extension (-1), exact to the microsecond; a Decimal,
which the standard lacks, is extension 1 holding its ASCII text. Every other extension is refused,
and so are keys that are not text, keys that occur twice and unsigned integers above 2**63 - 1.
msgpack's own bounds are derived from the payload's length, so a header that promises more than is
there costs nothing. This module must not know media types.
"""

from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from types import MappingProxyType
from typing import Final, cast

import msgpack  # type: ignore[import-untyped]

from rowcast.codecs import model
from rowcast.codecs.model import ModelMismatch
from rowcast.core import limits
from rowcast.core.errors import Code, Error

DECIMAL_EXTENSION: Final = 1
"""The extension type of a Decimal (application types are 0 to 127)."""
_FIXMAP_LAST: Final = 0x8F
_MAP_16: Final = 0xDE
_TIMESTAMP_AS_DATETIME: Final = 3  # msgpack's number for: aware, in UTC
_PLAIN: Final = msgpack.Packer(strict_types=True)


def encode(value: object, depth_max: int = limits.VALUE_DEPTH_MAX) -> bytes:
    """A value as one MessagePack object."""
    model.validate(value, depth_max)
    return encode_sound(value)


def encode_sound(value: object) -> bytes:
    """A value that is known to be of the model, such as of columns whose types are."""
    try:
        packed: bytes = msgpack.packb(value, strict_types=True, datetime=True, default=_extended)
    except UnicodeEncodeError:
        raise Error(Code.INVALID, model.SURROGATE) from None
    return packed


def encode_plain(value: list[object]) -> bytes:
    """A small list of numbers, texts, bytes and None, a hundred thousand of which may be due.

    Its packer is kept, as to make one takes twice as long as to pack. Nothing in it calls Python,
    so threads do not meet there; it keeps as much memory as the largest list took.
    """
    packed: bytes = _PLAIN.pack(value)
    return packed


def array_header(count: int) -> bytes:
    """The head of an array of so many objects."""
    header: bytes = msgpack.Packer().pack_array_header(count)
    return header


def _extended(value: Decimal) -> object:
    """The extension type of what msgpack lacks; ``validate`` has refused all others."""
    return msgpack.ExtType(DECIMAL_EXTENSION, str(model.unsigned_zero(value)).encode("ascii"))


def items_of(payload: bytes) -> list[bytes]:
    """The bytes of each item of an array that ``decode`` has taken."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(payload))
    unpacker.feed(payload)
    ends = list[int]()
    skip, tell = unpacker.skip, unpacker.tell
    count = unpacker.read_array_header()
    start = tell()
    for _ in range(count):
        skip()
        ends.append(tell())
    return [payload[one:end] for one, end in zip([start, *ends], ends, strict=False)]


def decode(
    payload: bytes,
    parts_max: int = limits.VALUE_PARTS_MAX,
    depth_max: int = limits.VALUE_DEPTH_MAX,
) -> object:
    """The value of the one object in a payload."""
    hooks = _Counter(parts_max).hooks if len(payload) > parts_max else {}
    try:
        value: object = msgpack.unpackb(payload, **{**_OPTIONS, **hooks})
    except msgpack.ExtraData as fault:
        where = len(payload) - len(fault.extra)
        raise Error(
            Code.INVALID, f"The MessagePack goes on after its value, at byte {where}; send one."
        ) from None
    except _FAULTS as fault:
        if len(payload) > parts_max and _PROMISES in str(fault):
            raise model.too_many("MessagePack", parts_max) from None
        raise _refusal(fault, payload) from None
    model.validate(value, depth_max)
    return value


def decode_items(payload: bytes, parts_max: int) -> tuple[list[object], list[bytes]]:
    """The values of the items of an array, and the bytes of each.

    A map in Python's hands costs as much as all else of it. So maps of scalars are made without a
    hook that looks for keys that occur twice: then a map has fewer members than its head says.
    """
    values: object = None
    if len(payload) <= parts_max:
        with suppress(*_FAULTS):  # ``decode`` says what is wrong
            values = msgpack.unpackb(payload, timestamp=_TIMESTAMP_AS_DATETIME, ext_hook=_extension)
    if not isinstance(values, list):
        whole = cast("list[object]", decode(payload, parts_max))
        return whole, items_of(payload)
    parts = items_of(payload)
    for value, part in zip(values, parts, strict=True):
        if not _is_flat(value, part):
            return cast("list[object]", decode(payload, parts_max)), parts
    model.validate(values)
    return values, parts


def _is_flat(value: object, part: bytes) -> bool:
    """Whether a value is a scalar, or a map of scalars without a key that occurs twice."""
    if type(value) is dict:
        for item in value.values():
            if type(item) is dict or type(item) is list:
                return False
        return len(value) == _members(part)
    return type(value) is not list


def _members(part: bytes) -> int:
    """How many members a map says that it has (MessagePack specification, "map format family")."""
    first = part[0]
    if first <= _FIXMAP_LAST:
        return first & 0x0F
    return int.from_bytes(part[1:3] if first == _MAP_16 else part[1:5], "big")


def decode_again(payload: bytes) -> object:
    """The value of a payload that ``decode`` has taken before, so no key occurs twice in it."""
    try:
        value: object = msgpack.unpackb(
            payload, timestamp=_TIMESTAMP_AS_DATETIME, ext_hook=_extension
        )
    except _FAULTS:  # it is damaged, or another payload
        return decode(payload)
    model.validate(value)
    return value


def _extension(kind: int, data: bytes) -> object:
    if kind != DECIMAL_EXTENSION:
        raise ModelMismatch(f"extension {kind} is not taken; only -1 (dates) and 1 (decimals) are.")
    return model.decimal_of(data.decode("ascii", "replace"))


def _map(pairs: list[tuple[object, object]]) -> dict[object, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ModelMismatch("a key occurs twice in one map; send it once.")
    return members


class _Counter:
    """Counts the parts of a payload that may have too many, while it is read."""

    def __init__(self, parts_max: int) -> None:
        self._left = self._most = parts_max

    @property
    def hooks(self) -> dict[str, object]:
        """Hooks for msgpack."""
        most = {"max_array_len": self._most, "max_map_len": self._most}
        return {"list_hook": self._list, "object_pairs_hook": self._pairs, **most}

    def _list(self, items: list[object]) -> list[object]:
        self._count(len(items))
        return items

    def _pairs(self, pairs: list[tuple[object, object]]) -> dict[object, object]:
        self._count(len(pairs))
        return _map(pairs)

    def _count(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise model.too_many("MessagePack", self._most)


_OPTIONS: Final[Mapping[str, object]] = MappingProxyType(
    {"timestamp": _TIMESTAMP_AS_DATETIME, "ext_hook": _extension, "object_pairs_hook": _map}
)
_FAULTS: Final = (msgpack.UnpackException, ModelMismatch, ValueError, OverflowError)
"""Errors of msgpack and the hooks for a bad payload; a date out of range is an OverflowError."""

_PROMISES: Final = "exceeds max_"
_REASONS: Final = (
    ("FormatError", "0xc1 is no type of MessagePack."),
    ("UnicodeDecodeError", "a text is not UTF-8."),
    ("OverflowError", "a date is outside the years 1 to 9999."),
    ("is not allowed for map key", "a key of a map is text; write it as text."),
    (_PROMISES, "a list or a map promises more items than the payload has bytes."),
)


def _refusal(fault: Exception, payload: bytes) -> Error:
    if isinstance(fault, msgpack.StackError):
        return Error(Code.TOO_LARGE, f"In the MessagePack {model.TOO_DEEP}")
    if str(fault).endswith("incomplete input"):
        return Error(Code.INVALID, f"The MessagePack ends too early, after {len(payload)} bytes.")
    return Error(Code.INVALID, f"The MessagePack cannot be read{_where(payload)}: {_reason(fault)}")


def _reason(fault: Exception) -> str:
    """Return the reason; most of msgpack's messages mention its options and are replaced."""
    if isinstance(fault, ModelMismatch):
        return fault.reason
    words = f"{type(fault).__name__}: {fault}"
    for fragment, reason in _REASONS:
        if fragment in words:
            return reason
    return str(fault).rstrip(".") + "."


def _where(payload: bytes) -> str:
    """The byte that makes it unreadable: the last of the shortest prefix that is refused."""
    if len(payload) > limits.DECODE_POSITION_BYTES_MAX:
        return ""
    shortest = bisect_left(range(len(payload)), True, key=lambda end: _refused(payload[:end]))
    return f" at byte {shortest - 1}"


def _refused(prefix: bytes) -> bool:
    unpacker = msgpack.Unpacker(**_OPTIONS)
    unpacker.feed(prefix)
    refused = False
    try:
        unpacker.unpack()
    except _FAULTS as fault:
        refused = not isinstance(fault, msgpack.OutOfData)
    return refused
