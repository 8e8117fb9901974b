r"""The digest of a table's content, independent of files, row groups and partitions.

Take the rows in the order of their keys (integers by value, text by its UTF-8 bytes; a topic table
by ``_seq``) and only the columns that the manifest names as the table's ``content``. Left out are
``_topic``, ``_seq`` (of a topic table it is content), ``_ts``, ``_version``, ``_op``, ``_origin``
and ``_client``, which describe writes and not content, and the text of payloads, which repeats
their bytes. Every other column is one or more *leaves*:

    name            a column of a plain type
    name.field      for each field of a struct, besides the struct itself; to any depth
    name[]          the elements of a list, of all rows one after the other, besides the list itself

A leaf has three streams of bytes, all over its slots: the rows; below a list its elements in all
rows whose list is not null; below a struct the slots of the struct (null where that is null):

    presence   one byte for each slot: 1 with a value, 0 for null
    lengths    text and bytes: the length in bytes of each value that is not null, as 8 bytes;
               a list: how many elements; nothing for other types
    values     of each value that is not null: bool 1 byte; int32 4, int64 8, double 8 bytes (NaN is
               0x7ff8000000000000, zero is positive); timestamp 8 bytes, microseconds since 1970
               (UTC); decimal128 16 bytes; text as UTF-8; bytes. Nothing for a struct or a list

Numbers are little endian, in two's complement. The digest is the SHA-256 of this text, in
hexadecimal after ``sha256:``, with a line for each leaf that has any value that is not null, sorted
by the bytes of its name, each line ended by ``\n``, the parts of a line separated by one space:

    rowcast-table 1
    rows <number>
    <name as JSON text> <type> <sha256 of presence> <sha256 of lengths> <sha256 of values>

``type`` is bool, int32, int64, double, timestamp, decimal(<precision>,<scale>), string, binary,
struct or list. A column without any value is not in it, so adding a column changes no digest.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rowcast_lake.snapshots.shapes import Batch

ALGORITHM: Final = "sha256:"

Array = Any
"""A ``pyarrow.Array``."""


class _Leaf:
    """The three streams of one leaf."""

    __slots__ = ("filled", "kind", "lengths", "presence", "values")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.filled = False
        self.presence = hashlib.sha256()
        self.lengths = hashlib.sha256()
        self.values = hashlib.sha256()

    @property
    def text(self) -> str:
        """The end of the leaf's line."""
        streams = (self.presence, self.lengths, self.values)
        return " ".join((self.kind, *(stream.hexdigest() for stream in streams)))


class Digest:
    """A digest that is updated batch by batch."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._leaves: dict[str, _Leaf] = {}
        self.rows = 0

    def update(self, batch: Batch) -> None:
        """Add the next rows."""
        self.rows += batch.num_rows
        for name in self._columns:
            if (place := batch.schema.get_field_index(name)) >= 0:
                for path, array in _leaves(name, batch.column(place)):
                    self._take(path, array)

    def _take(self, path: str, array: Array) -> None:
        leaf = self._leaves.get(path)
        if leaf is None:
            leaf = self._leaves[path] = _Leaf(kind_of(array.type))
        nulls = array.null_count
        if nulls:
            presence = array.is_valid().cast(pa.uint8())
            leaf.presence.update(_bytes_of(presence, 1))
            array = array.drop_null()
        else:
            leaf.presence.update(b"\x01" * len(array))
        if len(array):
            leaf.filled = True
            _feed(leaf, array)

    def __str__(self) -> str:
        lines = ["rowcast-table 1", f"rows {self.rows}"]
        lines += [
            f"{json.dumps(name, ensure_ascii=False)} {self._leaves[name].text}"
            for name in sorted(self._leaves, key=lambda name: name.encode())
            if self._leaves[name].filled
        ]
        text = "".join(f"{line}\n" for line in lines)
        return f"{ALGORITHM}{hashlib.sha256(text.encode()).hexdigest()}"


def kind_of(type_: pa.DataType) -> str:
    """Return a type's name in digests and manifests."""
    if pa.types.is_timestamp(type_):
        return "timestamp"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_nested(type_):
        return "struct" if pa.types.is_struct(type_) else "list"
    return str(type_)


def _leaves(path: str, array: Array) -> Iterator[tuple[str, Array]]:
    """Return the leaves of a column, each with its slots."""
    yield path, array
    if pa.types.is_struct(array.type):
        fields = array.flatten()  # includes the nulls of the struct
        for place, child in enumerate(fields):
            yield from _leaves(f"{path}.{array.type.field(place).name}", child)
    elif pa.types.is_list(array.type):
        yield from _leaves(f"{path}[]", array.flatten())  # excludes elements below null lists


def _feed(leaf: _Leaf, array: Array) -> None:
    """Add values, none of which is null, to a leaf."""
    type_ = array.type
    if pa.types.is_struct(type_):
        return
    if pa.types.is_list(type_):
        leaf.lengths.update(_bytes_of(pc.list_value_length(array).cast(pa.int64()), 8))
        return
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        leaf.lengths.update(_bytes_of(pc.binary_length(array).cast(pa.int64()), 8))
        leaf.values.update(_text_of(array))
        return
    convert, width = _FIXED.get(type_.id, (None, type_.bit_width // 8))
    leaf.values.update(_bytes_of(array if convert is None else convert(array), width))


def _plain_float(array: Array) -> Array:
    """Return floats with one NaN and one zero."""
    numbers = pc.add(array, 0.0)
    return pc.if_else(pc.is_nan(numbers), _NAN, numbers)


_NAN: Final = pa.scalar(float("nan"), pa.float64())
_FIXED: Final[dict[int, tuple[Callable[[Array], Array], int]]] = {
    pa.float64().id: (_plain_float, 8),
    pa.bool_().id: (lambda array: array.cast(pa.uint8()), 1),
}
"""Conversions to a canonical type, and its width in bytes."""


def _bytes_of(array: Array, width: int) -> memoryview:
    """Return the values of a type of fixed width, none of which is null."""
    start = array.offset * width
    return memoryview(array.buffers()[1])[start : start + len(array) * width]


def _text_of(array: Array) -> memoryview:
    """Return the bytes of all texts, none of which is null, one after the other."""
    offsets = memoryview(array.buffers()[1]).cast("i")
    first, last = offsets[array.offset], offsets[array.offset + len(array)]
    data = array.buffers()[2]
    return memoryview(b"" if data is None else data)[first:last]
