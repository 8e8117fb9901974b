"""Rows of a batch of Parquet as MessagePack, made of columns: no row is ever an object of Python.

Each cell is packed together with its column's name, and a row is its cells joined. Neighbouring
columns whose cells all have one length, of floats and of times, are packed as one block: it begins
as one row's bytes, repeated, and the bytes of the values are laid into it, a column at a time. The
bytes are exactly those that MessagePack's own packer makes of the rows as maps. It is for columns
whose types were checked (``column_checks.py``): numbers, booleans, text, bytes and times.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from struct import pack
from sys import byteorder
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc

from rowcast_lake.snapshots.column_values import values_of

_PACKER: Final = msgpack.Packer(strict_types=True)
_FLOAT: Final = b"\xcb"
_TIME_SHORT: Final = b"\xd6\xff"
_TIME_MIDDLE: Final = b"\xd7\xff"
_TIME_LONG: Final = b"\xc7\x0c\xff"
"""What floats of 64 bits and timestamps of 32, 64 and 96 bits begin with (MessagePack
specification, "float format family" and "timestamp extension type")."""
_SECONDS_SHORT: Final = 1 << 32
_SECONDS_MIDDLE: Final = 1 << 34
_MICROS: Final = 1_000_000
_DOUBLE_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class _Fixed:
    """The cells of a column that all have one length; those of nulls have any content."""

    head: bytes
    """The packed name, and what the value begins with."""
    values: bytes
    """The rest of each, one after the other."""
    nulls: list[int]
    """The rows that have none."""

    def width(self, rows: int) -> int:
        """Return the bytes of a cell."""
        return len(self.head) + len(self.values) // rows


def packed_rows(batch: Any, names: list[str]) -> list[bytes]:
    """Return the rows of a batch as maps of these columns; a null is left out."""
    columns, rows = [batch.column(name) for name in names], batch.num_rows
    found, fixed = [_heads(columns, rows)], list[_Fixed]()
    for name, column in zip(names, columns, strict=True):
        part = _part(_pack(name), column)
        if isinstance(part, _Fixed):
            fixed.append(part)
            continue
        if fixed:
            found.append(_block(fixed, rows))
        found.append(part)
        fixed = []
    if fixed:
        found.append(_block(fixed, rows))
    return list(map(b"".join, zip(*found, strict=True)))


def _pack(value: object) -> bytes:
    packed: bytes = _PACKER.pack(value)
    return packed


def _nulls(column: Any) -> list[int]:
    if not column.null_count:
        return []
    found: list[int] = pc.indices_nonzero(column.is_null()).to_pylist()
    return found


def _heads(columns: list[Any], rows: int) -> list[bytes]:
    """Return the head of each row's map: how many of its cells are no nulls."""
    counts = [len(columns)] * rows
    for column in columns:
        for at in _nulls(column):
            counts[at] -= 1
    heads = {count: _PACKER.pack_map_header(count) for count in set(counts)}
    return [heads[count] for count in counts]


def _part(name: bytes, column: Any) -> _Fixed | list[bytes]:
    """Return the cells of a column, each after the packed name; nothing for a null."""
    if column.null_count == len(column):
        return [b""] * len(column)
    if pa.types.is_floating(column.type):
        return _Fixed(name + _FLOAT, _doubles(column), _nulls(column))
    if not pa.types.is_timestamp(column.type):
        return _known(name, values_of(column), _pack)
    numbers = column.cast(pa.int64())
    moments = values_of(numbers.fill_null(0))
    seconds = [moment // _MICROS for moment in moments]
    short = min(seconds) >= 0 and max(seconds) < _SECONDS_SHORT
    if short and [second * _MICROS for second in seconds] == moments:
        return _Fixed(name + _TIME_SHORT, pack(f">{len(seconds)}I", *seconds), _nulls(column))
    return _known(name, values_of(numbers), _moment)


def _known(name: bytes, values: list[Any], pack: Callable[[Any], bytes]) -> list[bytes]:
    """Return the cells of these values, of which each is packed once: many are the same."""
    cells = {value: b"" if value is None else name + pack(value) for value in set(values)}
    return [cells[value] for value in values]


def _doubles(column: Any) -> bytes:
    """Return the numbers of a column, of 64 bits each in network byte order."""
    found, numbers = column.cast(pa.float64()), array("d")
    start, end = found.offset * _DOUBLE_BYTES, (found.offset + len(found)) * _DOUBLE_BYTES
    numbers.frombytes(memoryview(found.buffers()[1]).cast("B")[start:end])
    if byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def _block(columns: list[_Fixed], rows: int) -> list[bytes]:
    """Return the cells of these columns together, for each row."""
    ends = list(accumulate(column.width(rows) for column in columns))
    starts, width = [0, *ends], ends[-1]
    block = bytearray(
        b"".join(column.head.ljust(column.width(rows), b"\0") for column in columns) * rows
    )
    missing = dict[int, set[int]]()
    for index, column in enumerate(columns):
        value = starts[index] + len(column.head)
        size = ends[index] - value
        for byte in range(size):
            block[value + byte :: width] = column.values[byte::size]
        for row in column.nulls:
            missing.setdefault(row, set()).add(index)
    data = bytes(block)
    found = [data[at : at + width] for at in range(0, len(data), width)]
    for row, without in missing.items():
        cells = zip(starts, ends, strict=False)
        found[row] = b"".join(
            [found[row][at:end] for index, (at, end) in enumerate(cells) if index not in without]
        )
    return found


def _moment(micros: int) -> bytes:
    """Return a time, in microseconds since 1970 (UTC), as the shortest timestamp."""
    seconds, rest = divmod(micros, _MICROS)
    if 0 <= seconds < _SECONDS_SHORT and not rest:
        return _TIME_SHORT + seconds.to_bytes(4, "big")
    if 0 <= seconds < _SECONDS_MIDDLE:
        return _TIME_MIDDLE + (rest * 1000 << 34 | seconds).to_bytes(8, "big")
    return _TIME_LONG + (rest * 1000).to_bytes(4, "big") + seconds.to_bytes(8, "big", signed=True)
