"""Computed attributes in the schema: their formulas, and what is refused (A9)."""

from decimal import Decimal

import pytest

from rowcast.core.errors import Error
from rowcast.schema import parse_schema

TABLE = "type T @table @export {{ id: ID @primaryKey a: Int b: Float d: Decimal s: String {} }}"


def table(text):
    return parse_schema(TABLE.format(text)).tables[0]


def test_a9_one_may_use_others_in_any_order():
    made = table(
        'x: Float @computed(from: "y * 2") y: Float @computed(from: "a + b")'
        ' z: Boolean @computed(from: "x > 5")'
    )
    value = {"a": 1, "b": 2.0}
    assert [6.0, 3.0, True] == [made.attribute(name).formula.of(value) for name in "xyz"]
    assert {"a", "b"} == made.attribute("z").formula.inputs


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ('x: Int @computed(from: "a * a")', {"a": 2**20}, None),
        ('x: Float @computed(from: "a + a")', {"a": 2}, 4.0),
        ('x: Decimal @decimal(precision: 6, scale: 2) @computed(from: "d * 1.19")',
         {"d": Decimal("1.05")}, Decimal("1.25")),
        ('x: ID @computed(from: "s + s")', {"s": "q"}, "qq"),
        ('x: Any @computed(from: "a / 2")', {"a": 3}, 1.5),
    ],
)  # fmt: skip
def test_a9_values_are_of_the_declared_type(text, value, expected):
    found = table(text).attribute("x").formula.of(value)
    assert (expected, type(expected)) == (found, type(found))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('x: Int @computed(from: "c + 1")', 'no attribute "c"'),
        ('x: Int @computed(from: "a-a")', 'no attribute "a-a"; a difference has spaces: a - a'),
        ('x: Int @computed(from: "")', "the expression is missing; write one, or @computed alone"),
        ('x: Int @computed(from: "x + 1")', "computed from itself: x > x"),
        ('x: Int @computed(from: "y") y: Int @computed(from: "x")', "itself: x > y > x"),
        ('x: Int @computed(from: "b * 2")', "it is of type Float, and x of Int; write Float"),
        ('x: Decimal @computed(from: "b * 2")', "of type Float, and x of Decimal"),
        ('x: String @computed(from: "a")', "write Int or Long or Float or Decimal"),
        ('x: Boolean @computed(from: "a")', "of type Long, and x of Boolean"),
        ('x: [Int] @computed(from: "a")', "no expression is a List"),
        ('x: Int! @computed(from: "a")', "leave out '!'"),
        ('x: Int @computed(from: "a") @auth(roles: ["r"])', "@auth belongs on the attributes"),
        ('p: Int @hidden x: Int @computed(from: "p + a")', "p is hidden, and x would tell it"),
        ('x: Int @computed(from: "a @ 2")', "means nothing in a rule"),
        ('x: Float @computed(from: "b") @createdTime', "@createdTime needs"),
    ],
)
def test_a9_mistakes_are_told_when_the_schema_is_read(text, message):
    with pytest.raises(Error) as caught:
        table(text)
    assert message in caught.value.message
    assert caught.value.message.startswith("schema.graphql:1:")


def test_a9_the_size_counts_what_is_used():
    """Each uses the one before twice: the last would cost 2 ** 8 evaluations."""
    names = [f'x{n}: Int @computed(from: "x{n - 1} + x{n - 1}")' for n in range(1, 9)]
    with pytest.raises(Error, match="more than 64 operations"):
        table('x0: Int @computed(from: "a + a") ' + " ".join(names))


def test_a9_a_hidden_one_may_use_what_is_hidden():
    made = table('p: Int @hidden x: Int @hidden @computed(from: "p + a")')
    assert made.attribute("x").formula.of({"p": 1, "a": 2}) == 3
    assert not made.computes
