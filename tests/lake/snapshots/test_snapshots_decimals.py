"""Decimals of stated precision (S5): checked when written, decimal128 when exported."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exported import Exported
from rowcast.core.errors import Error
from rowcast.core.scalars import fits
from rowcast.core.values import Checker
from rowcast.schema import parse_schema

BEFORE = "type Sale @table @export @sealed { id: ID @primaryKey, price: Decimal }"
AFTER = BEFORE.replace("Decimal", "Decimal @decimal(precision: 6, scale: 2)")


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("9999.99", True), ("-9999.99", True), ("1.100", True), ("1E+3", True), ("0E+9", True),
        ("10000", False), ("1.101", False), ("1E+4", False), ("0.001", False), ("0.000", True),
    ],
)  # fmt: skip
def test_what_fits(text, held):
    """S5: zeros at the end need no room; the same as what Arrow can hold."""
    assert held == fits(Decimal(text), 6, 2)
    try:
        pa.array([text]).cast(pa.decimal128(6, 2))
        kept = True
    except pa.ArrowInvalid:
        kept = False
    assert held == kept


def test_a_write_must_fit():
    """S5: or it is refused with its reason."""
    checker = Checker(parse_schema(AFTER).tables[0])
    assert checker.check({"price": "12.5"}) == {"price": Decimal("12.5")}
    with pytest.raises(Error, match="at most 4 digits before the point and 2 after it"):
        checker.check({"price": "12.555"})


def test_old_values_that_do_not_fit_stay(tmp_path):
    """S5: a value from before is in the rest, as it was, and the others are decimals."""
    world = Exported(tmp_path, BEFORE)
    try:
        for key, price in (("a", "1.5"), ("b", "1.2345"), ("c", "99999"), ("d", "-0.25")):
            world.put("Sale", key, {"price": Decimal(price)})
        world.open(AFTER)
        world.export()
        schema = pq.read_schema(tmp_path / "snapshots/newest/Sale/part-00000.parquet")
        assert schema.field("price").type == pa.decimal128(6, 2)
        rows = world.rows("Sale")
        assert [row["price"] for row in rows] == [Decimal("1.50"), None, None, Decimal("-0.25")]
        assert [row["_extra"] for row in rows] == [
            None, '{"price":{"$decimal":"1.2345"}}', '{"price":{"$decimal":"99999"}}', None,
        ]  # fmt: skip
    finally:
        world.close()


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("n: Int @decimal(precision: 3)", "is for a Decimal, not Int"),
        ("n: Decimal @decimal", "needs a precision"),
        ("n: Decimal @decimal(precision: 50)", "at most 34 digits"),
        ("n: Decimal @decimal(precision: 2, scale: 3)", "no greater scale"),
        ("n: Decimal @decimal(precision: 0)", "a whole number from 1"),
    ],
)
def test_what_it_says_must_be_possible(field, said):
    """S5: with its place."""
    with pytest.raises(Error, match=said):
        parse_schema(f"type Sale @table {{ id: ID @primaryKey, {field} }}")
