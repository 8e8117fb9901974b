"""Expressions of computed attributes: what they mean, and what is refused (A9)."""

from decimal import Decimal

import pytest

from rowcast.core.computed_limits import COMPUTED_TEXT_CHARS_MAX, EXPRESSION_SIZE_MAX
from rowcast.core.query_terms import Unreadable
from rowcast.core.right_limits import RULE_DEPTH_MAX, RULE_TEXT_CHARS_MAX
from rowcast.core.row_rules import parse_expression
from rowcast.core.tables import Attribute, Table, Type

INNER = Attribute("depth", Type.FLOAT)
TABLE = Table(
    "Order",
    "Order",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("price", Type.FLOAT),
        Attribute("cost", Type.DECIMAL),
        Attribute("count", Type.INT),
        Attribute("name", Type.STRING),
        Attribute("done", Type.BOOLEAN),
        Attribute("made", Type.DATE),
        Attribute("any", Type.ANY),
        Attribute("tags", Type.LIST, items=Attribute("", Type.STRING)),
        Attribute("size", Type.OBJECT, fields=(INNER,), type_name="Size", sealed=True),
    ),
)
VALUE = {
    "id": "7",
    "price": 2.5,
    "cost": Decimal("1.10"),
    "count": 4,
    "name": "Rex",
    "done": True,
    "any": 3,
    "size": {"depth": 0.5},
}


def made(text, type_=Type.ANY):
    return parse_expression(text, TABLE, type_)


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("price * count", Type.FLOAT, 10.0),
        ("count + 2 * 3", Type.LONG, 10),
        ("(count + 2) * 3", Type.LONG, 18),
        ("count - 1 - 1", Type.LONG, 2),
        ("count -1", Type.LONG, 3),
        ("10-3-2", Type.LONG, 5),
        ("-count + 1", Type.LONG, -3),
        ("count / 8", Type.FLOAT, 0.5),
        ("cost * count", Type.DECIMAL, Decimal("4.40")),
        ("cost * 1.19", Type.DECIMAL, Decimal("1.3090")),
        ("cost / count", Type.DECIMAL, Decimal("0.275")),
        ("name + ' of ' + id", Type.STRING, "Rex of 7"),
        ("size.depth + 1", Type.FLOAT, 1.5),
        ("any + 1", Type.ANY, 4),
        ("count", Type.LONG, 4),
    ],
)
def test_a9_an_expression_has_a_type_and_a_value(text, type_, expected):
    found = made(text)
    assert (type_, expected) == (found.type, found.of(VALUE))
    assert type(found.of(VALUE)) is type(expected)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("price * count", {"price": 2.5}),
        ("price * count", {"price": 2.5, "count": None}),
        ("price * count", {"price": float("nan"), "count": 1}),
        ("price * count", {"price": 1e308, "count": 100}),
        ("count / 0", {"count": 1}),
        ("cost / count", {"cost": Decimal(1), "count": 0}),
        ("count * count", {"count": 2**62}),
        ("any + 1", {"any": "x"}),
        ("any + 1", {"any": True}),
        ("name + name", {"name": "x" * COMPUTED_TEXT_CHARS_MAX}),
        ("size.depth + 1", {"size": None}),
        ("price * count", "no object"),
        ("done == true", {}),
        ("count > 3 and price > 1", {"count": 1}),
    ],
)
def test_a9_what_has_no_value_is_null(text, value):
    assert made(text, Type.BOOLEAN).of(value) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("count > 3 and done == true", True), ("name == 'Ada'", False), ("made == null", True)],
)
def test_a9_a_boolean_is_a_rule(text, expected):
    found = made(text, Type.BOOLEAN)
    assert (Type.BOOLEAN, expected) == (found.type, found.of(VALUE))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an expression is arithmetic"),
        ("price *", "ends where a name or a value is missing"),
        ("price count", 'expected + - * or / before "count"'),
        ("(price", "')' is missing"),
        ("prize * 2", 'no attribute "prize"; did you mean "price"'),
        ("name * 2", "'*' of String and Long: text is joined by '+'"),
        ("name + count", "'+' of String and Long"),
        ("done + 1", "there is no '+' of Boolean and Long"),
        ("made - made", "there is no '-' of Date and Date"),
        ("tags", "is of type List"),
        ("name.x", "only an object has keys"),
        ("$user", "the same for every caller"),
        ("$id + 'x'", "the key by its name"),
        ("true + 1", "expected the name of an attribute"),
        ("price # 2", "means nothing in a rule"),
        ("99999999999999999999", "no integer of 64 bits"),
        ("- - count", "'-' is there twice"),
        ("(" * (RULE_DEPTH_MAX + 1) + "price", "brackets may be at most"),
        ("price + " * EXPRESSION_SIZE_MAX + "1", f"more than {EXPRESSION_SIZE_MAX} operations"),
        ("p" * (RULE_TEXT_CHARS_MAX + 1), "at most"),
    ],
)
def test_a9_what_cannot_be_computed_is_refused(text, message):
    with pytest.raises(Unreadable) as caught:
        made(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name == $user", "the same for every caller"),
        (" and ".join(["count > 1"] * (EXPRESSION_SIZE_MAX + 1)), "comparisons and operations"),
    ],
)
def test_a9_a_boolean_is_for_all_callers_and_bounded(text, message):
    with pytest.raises(Unreadable, match=message):
        made(text, Type.BOOLEAN)
