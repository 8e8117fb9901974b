"""Conditions: what they mean, and the one tree that two spellings make (B6, B7, L7)."""

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import amount
from rowcast.core.conditions import (
    EVERYTHING,
    ID_PATH,
    NOTHING,
    Claim,
    ClaimCondition,
    Condition,
    Group,
    Operator,
    compared,
    holds,
    is_constant,
    join,
    reach,
)
from rowcast.core.query_text import parse_query
from rowcast.core.row_rules import parse_rule
from rowcast.core.tables import Attribute, Table, Type

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROME = NOON.astimezone(timezone(timedelta(hours=1)))
ORDERINGS = [Operator.GT, Operator.GE, Operator.LT, Operator.LE]


def x(operator, wanted, value):
    """Tell whether a condition holds for a record whose x is the value."""
    return holds(Condition(("x",), operator, wanted), {"x": value}, "1")


# -- equality --------------------------------------------------------------------------------------

EQUAL = [
    (1, 1.0), (1, Decimal("1.0")), (0.5, Decimal("0.5")), ("a", "a"), (True, True), (None, None),
    (NOON, ROME), (NOON, NOON.replace(tzinfo=None)), (b"a", b"a"), ([1, [2.0]], [1.0, [2]]),
    ({"a": 1}, {"a": 1.0}), (math.nan, None), ((1,), [1]),
]  # fmt: skip
UNEQUAL = [
    (1, True), (0, False), (1, "1"), (None, 0), (None, ""), (0.1, Decimal("0.1")), ("a", "A"),
    (NOON, NOON.isoformat()), (b"a", "a"), ([1], [True]), ([1], [1, 2]), ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": "1"}), ([1], {"0": 1}), (2**53, float(2**53 + 2)), (2**53 + 1, float(2**53)),
]  # fmt: skip


@pytest.mark.parametrize(("found", "wanted"), EQUAL)
def test_equal_values(found, wanted):
    assert (True, False, True) == (
        x(Operator.EQ, wanted, found),
        x(Operator.NE, wanted, found),
        x(Operator.IN, ("no", wanted), found),
    )


@pytest.mark.parametrize(("found", "wanted"), UNEQUAL)
def test_unequal_values(found, wanted):
    assert (False, True, False) == (
        x(Operator.EQ, wanted, found),
        x(Operator.NE, wanted, found),
        x(Operator.IN, wanted if isinstance(wanted, tuple) else (wanted,), found),
    )


@pytest.mark.parametrize("value", [{}, {"x": None}, "text", None, [1]])
def test_a_missing_value_equals_null(value):
    assert holds(Condition(("x",), Operator.EQ, None), value, "1")
    assert holds(Condition(("x",), Operator.NE, 5), value, "1")


def test_one_value_instead_of_several():
    assert x(Operator.IN, 5, 5)


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1, 1.5), (Decimal("0.1"), 0.5), (-math.inf, -(2**63)), (2**53, 2**53 + 1), ("a", "b"),
        ("Z", "a"), ("\uffff", "\U0001f600"), ("", "a"), (NOON, NOON + timedelta(microseconds=1)),
        (b"a", b"aa"),
    ],
)  # fmt: skip
def test_ordered_values(low, high):
    assert [True, True, False, False] == [x(item, low, high) for item in ORDERINGS]
    assert [False, False, True, True] == [x(item, high, low) for item in ORDERINGS]
    assert [False, True, False, True] == [x(item, low, low) for item in ORDERINGS]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"), (None, 1), (1, None), (None, None), (True, 0), (1, True), (True, False),
        (math.nan, 1), (NOON, "2026"), (b"a", "a"), ([1], [0]), ({}, {}), (NOON, 5),
    ],
)  # fmt: skip
def test_values_without_an_order(one, other):
    assert not any(x(item, one, other) for item in ORDERINGS)


@pytest.mark.parametrize(
    ("operator", "wanted", "expected"),
    [
        (Operator.STARTS_WITH, "ab", True),
        (Operator.STARTS_WITH, "b", False),
        (Operator.ENDS_WITH, "bc", True),
        (Operator.ENDS_WITH, "b", False),
        (Operator.CONTAINS, "b", True),
        (Operator.CONTAINS, "B", False),
        (Operator.CONTAINS, 5, False),
    ],
)
def test_operators_of_text(operator, wanted, expected):
    assert expected == x(operator, wanted, "abc")
    assert not x(operator, wanted, ["abc", "b", 5])


@pytest.mark.parametrize(
    ("found", "expected"),
    [(["a", 1], True), ([1.0], True), ([True], False), (["1"], False), (1, False), (None, False)],
)
def test_a_list_has_an_item(found, expected):
    assert expected is x(Operator.HAS, 1, found)


# -- where -----------------------------------------------------------------------------------------

YES = Condition(("x",), Operator.EQ, 1)
NO = Condition(("x",), Operator.EQ, 2)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, True),
        (Group((YES, NO)), False),
        (Group((YES, YES)), True),
        (Group((YES, NO), all_of=False), True),
        (Group((NO, NO), all_of=False), False),
        (Group((YES, Group((NO, YES), all_of=False))), True),
    ],
)
def test_groups(where, expected):
    assert expected == holds(where, {"x": 1}, "1")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("a", "b"), 1), (("a",), {"b": 1}), (("a", "b", "c"), None), (("c",), None),
        (("n",), None), (("d",), None), (ID_PATH, "7"), (("$id", "x"), None),
    ],
)  # fmt: skip
def test_what_is_at_a_path(path, expected):
    value = {"a": {"b": 1}, "n": math.nan, "d": Decimal("sNaN")}
    assert expected == reach(path, value, "7")


# -- constants -------------------------------------------------------------------------------------

AND_NO = Group((NO,))


@pytest.mark.parametrize(
    ("items", "all_of", "expected"),
    [
        ((), True, EVERYTHING),
        ((), False, NOTHING),
        ((YES, EVERYTHING), True, YES),
        ((YES, EVERYTHING), False, EVERYTHING),
        ((NOTHING, YES), True, NOTHING),
        ((NOTHING, YES), False, YES),
        ((Group(()), Group((), all_of=False)), False, EVERYTHING),
        ((YES, NO), False, Group((YES, NO), all_of=False)),
        ((YES, AND_NO), True, Group((YES, AND_NO))),
    ],
)
def test_constants_settle_a_group_or_fall_away(items, all_of, expected):
    joined = join(items, all_of=all_of)
    assert expected == joined
    assert is_constant(expected) is (joined is EVERYTHING or joined is NOTHING)


def test_constants_hold_always_and_never():
    assert holds(EVERYTHING, {}, "1")
    assert not holds(NOTHING, {}, "1")


def test_compared_paths_are_those_of_records():
    where = Group((YES, Group((ClaimCondition(Claim(("$user",)), Operator.EQ, "ann"), NO))))
    assert [("x",), ("x",)] == list(compared(where))
    assert [] == list(compared(None))


# -- claims ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", list(Operator))
@pytest.mark.parametrize("value", [{}, {"x": None}, {"x": "ann"}, {"x": 1}, {"x": ["ann"]}])
def test_an_unknown_claim_is_not_null_and_nothing_holds_for_it(operator, value):
    """Not even ``!=``, though null is unequal to every value."""
    claim = Claim(("$user",), Type.STRING)
    assert not holds(Condition(("x",), operator, claim), value, "1")
    assert not holds(ClaimCondition(claim, operator, None), value, "1")


# -- two spellings ---------------------------------------------------------------------------------

TABLE = Table(
    "Dog",
    "Dog",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("name", Type.STRING),
        Attribute("age", Type.INT),
        Attribute("weight", Type.FLOAT),
        Attribute("good", Type.BOOLEAN),
        Attribute(
            "home",
            Type.OBJECT,
            type_name="Home",
            fields=(Attribute("city", Type.STRING),),
        ),
    ),
)
SIGNS = {
    Operator.EQ: "==", Operator.NE: "!=", Operator.LT: "<", Operator.LE: "<=",
    Operator.GT: ">", Operator.GE: ">=",
}  # fmt: skip
"""Operators that a rule writes with a sign; the others have the same word in both spellings."""
TEXTS = st.text(st.sampled_from("aé/ %&|()[]<>=!*,+\"'"), max_size=4).filter(
    lambda text: "'" not in text
)
EQUALITY, ORDER = (Operator.EQ, Operator.NE), (*SIGNS,)
WORDS = (Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS)


def comparisons(paths, operators, values):
    return st.builds(
        Condition, st.sampled_from(paths), st.sampled_from(operators), values
    ) | st.builds(
        Condition,
        st.sampled_from(paths),
        st.just(Operator.IN),
        st.lists(values, min_size=1, max_size=3).map(tuple),
    )


TEXT_PATHS = [("name",), ("home", "city"), ID_PATH]
LEAVES = st.one_of(
    comparisons(TEXT_PATHS, ORDER + WORDS, TEXTS),
    comparisons([("age",)], ORDER, st.integers(-5, 5)),
    comparisons([("weight",)], ORDER, st.integers(-9, 9).map(lambda n: n / 4)),
    comparisons([("good",)], EQUALITY, st.booleans()),
    st.builds(
        Condition, st.sampled_from([("name",), ("age",)]), st.sampled_from(EQUALITY), st.none()
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        Group, st.lists(inner, min_size=2, max_size=3).map(tuple), st.booleans()
    ),
    max_leaves=8,
)


def url(where, inner=False):
    """Spell conditions as a query string does."""
    if isinstance(where, Group):
        text = ("&" if where.all_of else "|").join(url(item, inner=True) for item in where.items)
        return f"({text})" if inner else text
    name = ".".join(where.path)
    if where.operator is Operator.IN:
        return f"{name}=in=({','.join(map(url_value, where.value))})"
    return f"{name}={where.operator}={url_value(where.value)}"


def url_value(value):
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "string:" + quote(value, safe="") if isinstance(value, str) else str(value)


def rule(where, inner=False):
    """Spell conditions as ``@auth`` does."""
    if isinstance(where, Group):
        text = f" {'and' if where.all_of else 'or'} ".join(
            rule(item, inner=True) for item in where.items
        )
        return f"({text})" if inner else text
    name = ".".join(where.path)
    if where.operator is Operator.IN:
        return f"{name} in [{', '.join(map(rule_value, where.value))}]"
    return f"{name} {SIGNS.get(where.operator, where.operator)} {rule_value(where.value)}"


def rule_value(value):
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.slow
@settings(max_examples=amount(long=150, short=37), deadline=None)
@given(TREES)
def test_a_query_and_a_rule_are_two_spellings_of_one_tree(where):
    assert where == parse_query(url(where), TABLE).where
    assert where == parse_rule(rule(where), TABLE)
