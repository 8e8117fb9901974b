"""Columns of different ages (S11): the table of types, and that no value is lost."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from rowcast_lake.columns.joining import MOMENT, TEXT, converted, joined, joined_schema, shaped

I32, I64, REAL, FLAG, RAW = pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.binary()
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def digits(precision, scale):
    return pa.decimal128(precision, scale)


def struct(**kinds):
    return pa.struct(list(kinds.items()))


def listed(kind):
    return pa.list_(pa.field("element", kind))


TABLE = [
    (I32, I64, I64), (I32, REAL, REAL), (I64, REAL, REAL),
    (I32, digits(6, 2), digits(12, 2)), (I64, digits(6, 2), digits(21, 2)),
    (digits(6, 2), digits(8, 4), digits(8, 4)), (digits(6, 0), digits(8, 6), digits(12, 6)),
    (digits(38, 0), digits(6, 2), TEXT), (REAL, digits(6, 2), TEXT),
    (TEXT, digits(6, 2), TEXT), (TEXT, I32, TEXT), (FLAG, I32, TEXT), (RAW, TEXT, TEXT),
    (pa.date32(), MOMENT, MOMENT), (MOMENT, I64, TEXT), (pa.null(), FLAG, FLAG),
    (struct(x=I32), struct(y=FLAG, x=I64), struct(x=I64, y=FLAG)),
    (struct(x=I32), TEXT, TEXT), (listed(I32), TEXT, TEXT), (listed(I32), struct(x=I32), TEXT),
    (listed(I32), listed(I64), listed(I64)),
    (listed(struct(x=I32)), listed(I32), listed(TEXT)),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "both"), TABLE, ids=str)
def test_the_table_of_types(one, other, both):
    """S11: it is the same from both sides, and joining again changes nothing."""
    assert (joined(one, other), joined(one, one)) == (both, one)
    backwards = joined(other, one)
    assert joined(backwards, both) == backwards
    if not pa.types.is_struct(both):
        assert backwards == both


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (I64, -(2**62), "-4611686018427387904"),
        (REAL, 2.5, "2.5"), (REAL, float("nan"), "NaN"), (REAL, float("-inf"), "-Infinity"),
        (digits(12, 8), Decimal("0.00000001"), "0.00000001"), (digits(6, 2), Decimal(5), "5.00"),
        (FLAG, True, "true"), (RAW, b"\0\1", "AAE="), (pa.date32(), date(2026, 1, 2), "2026-01-02"),
        (MOMENT, AT, "2026-01-02T03:04:05.678901Z"), (TEXT, "ä", "ä"),
        (listed(I32), [1, None], "[1,null]"),
        (struct(x=I32, y=RAW, _extra=TEXT), {"x": None, "y": b"\0", "_extra": '{"x":null,"z":1}'},
         '{"y":{"$bytes":"AA=="},"x":null,"z":1}'),
    ],
    ids=str,
)  # fmt: skip
def test_every_value_has_a_text(kind, value, text):
    """S11: which says all of it."""
    column = pa.array([None, value], kind)
    assert converted(column, TEXT).to_pylist() == [None, text]


@pytest.mark.parametrize(
    ("kind", "value", "wanted", "same"),
    [
        (I64, 2**53, REAL, 2.0**53), (I64, 2**63 - 1, digits(21, 2), Decimal(2**63 - 1)),
        (I32, 7, digits(6, 2), Decimal(7)), (I64, 12, digits(38, 30), Decimal(12)),
        (TEXT, "12.5", digits(6, 2), Decimal("12.50")), (TEXT, "AAE=", RAW, b"\0\1"),
        (TEXT, '{"x":1}', struct(x=I32), {"x": 1}),
        (struct(x=I32), {"x": 1}, struct(x=REAL, y=TEXT), {"x": 1.0, "y": None}),
        (pa.date32(), date(2026, 1, 2), MOMENT, datetime(2026, 1, 2, tzinfo=UTC)),
    ],
    ids=str,
)  # fmt: skip
def test_values_stay_what_they_are(kind, value, wanted, same):
    """S11: in a wider type, and in a narrower one that can hold them."""
    assert converted(pa.chunked_array([pa.array([value, None], kind)]), wanted).to_pylist() == [
        same, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (I64, 2**53 + 1, REAL), (TEXT, "1.005", digits(6, 2)), (TEXT, "x", I32),
        (TEXT, "x", RAW), (TEXT, "[1", listed(I32)), (listed(I32), [1], I32), (I64, 2**40, I32),
        (listed(I32), [1], listed(struct(x=I32))), (I32, 12345, digits(6, 2)),
    ],
    ids=str,
)  # fmt: skip
def test_nothing_is_rounded(kind, value, wanted):
    """S11: what the type cannot hold is refused."""
    with pytest.raises(pa.ArrowInvalid):
        converted(pa.array([value], kind), wanted)


def test_files_of_two_ages():
    """S11: all columns of both, and null where a file has none."""
    old = pa.table({"id": ["a"], "price": ["1.5"], "gone": [True]})
    new = pa.table({"id": ["b"], "price": pa.array([Decimal("2.50")], digits(6, 2)), "n": [1]})
    schema = joined_schema([old.schema, new.schema])
    both = pa.concat_tables([shaped(old, schema), shaped(new, schema)])
    assert both.to_pylist() == [
        {"id": "a", "price": "1.5", "gone": True, "n": None},
        {"id": "b", "price": "2.50", "gone": None, "n": 1},
    ]
