"""Values of columns: a column at a time, several times faster than row by row."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Values = list[Any]
_CODES: Final = {
    pa.float64(): "d", pa.float32(): "f", pa.int64(): "q", pa.int32(): "i", pa.int16(): "h",
}  # fmt: skip
"""How the numbers of a column lie in memory (Arrow Columnar Format, "Fixed-size Primitive Layout"),
as codes of ``struct``."""


def values_of(column: Any) -> Values:
    """Return the values of a column as Python's, as ``to_pylist`` does."""
    kind = column.type
    if kind == pa.timestamp("us", "UTC"):
        return _moments(column)
    code = _CODES.get(kind)
    if code is not None:
        return _with_nulls(column, code) if column.null_count else _numbers(column, code)
    whole: Values = column.to_pylist()
    return whole


def _moments(column: Any) -> Values:
    numbers = values_of(column.cast(pa.int64()))
    return [
        None if number is None else _EPOCH + timedelta(microseconds=number) for number in numbers
    ]


def _with_nulls(column: Any, code: str) -> Values:
    """Return the numbers of a column, in which nulls are rare; what lies under them is nothing."""
    found = _numbers(column, code)
    for at in pc.indices_nonzero(column.is_null()).to_pylist():
        found[at] = None
    return found


def _numbers(column: Any, code: str) -> Values:
    """Return the numbers of a column, and anything for its nulls."""
    view: Any = memoryview(column.buffers()[1]).cast("B")
    found: Values = view.cast(code)[column.offset : column.offset + len(column)].tolist()
    return found
