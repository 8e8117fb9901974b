"""Claims in conditions, replaced by what is known of a caller (L7)."""

import pytest

from rowcast.core.claims import bind, claims_of
from rowcast.core.conditions import (
    EVERYTHING,
    NOTHING,
    Claim,
    ClaimCondition,
    Condition,
    Group,
    Operator,
)
from rowcast.core.right_limits import RULE_CLAIM_ITEMS_MAX
from rowcast.core.tables import Type

SITES = ("$user", "sites")
FACTS = {
    ("$user",): "ann",
    SITES: ["north", 3, True, None],
    ("$user", "one"): "north",
    ("$user", "none"): [],
    ("$user", "vip"): True,
    ("$user", "rank"): 2,
    ("$user", "zero"): 0,
    ("$user", "first"): 1,
    ("$user", "many"): list(range(RULE_CLAIM_ITEMS_MAX + 1)),
    ("$user", "map"): {"a": 1},
}


def bound(operator, name, type_):
    """Return what a comparison of x with a claim becomes; its value, or NOTHING."""
    where = bind(Condition(("x",), operator, Claim(("$user", name), type_)), FACTS.get)
    if where is NOTHING:
        return NOTHING
    assert (("x",), operator) == (where.path, where.operator)
    return where.value


@pytest.mark.parametrize(
    ("operator", "name", "type_", "expected"),
    [
        (Operator.EQ, "one", Type.STRING, "north"),
        (Operator.EQ, "rank", Type.STRING, "2"),  # tokens may number what is text here
        (Operator.EQ, "zero", Type.ID, "0"),
        (Operator.EQ, "first", Type.STRING, "1"),
        (Operator.EQ, "rank", Type.INT, 2),
        (Operator.EQ, "rank", Type.ANY, 2),
        (Operator.EQ, "vip", Type.STRING, NOTHING),
        (Operator.EQ, "one", Type.INT, NOTHING),
        (Operator.NE, "one", Type.INT, NOTHING),
        (Operator.EQ, "one", Type.LIST, NOTHING),
        (Operator.EQ, "map", Type.ANY, NOTHING),
        (Operator.NE, "missing", Type.STRING, NOTHING),
        (Operator.STARTS_WITH, "rank", Type.INT, NOTHING),
        (Operator.LT, "vip", Type.BOOLEAN, NOTHING),
        (Operator.IN, "sites", Type.STRING, ("north", "3")),
        (Operator.IN, "one", Type.STRING, ("north",)),
        (Operator.IN, "none", Type.STRING, NOTHING),
        (Operator.IN, "many", Type.INT, tuple(range(RULE_CLAIM_ITEMS_MAX))),
        (Operator.HAS, "one", Type.LIST, "north"),
        (Operator.HAS, "sites", Type.LIST, NOTHING),
    ],
)
def test_a_claim_is_read_as_the_attribute_is(operator, name, type_, expected):
    assert expected == bound(operator, name, type_)


@pytest.mark.parametrize(
    ("path", "operator", "value", "expected"),
    [
        (SITES, Operator.CONTAINS, "north", EVERYTHING),
        (SITES, Operator.CONTAINS, "nor", NOTHING),
        (("$user", "one"), Operator.CONTAINS, "nor", EVERYTHING),
        (("$user",), Operator.IN, ("ann", "ben"), EVERYTHING),
        (("$user", "one"), Operator.IN, Claim(SITES), EVERYTHING),
        (("$user",), Operator.IN, Claim(SITES), NOTHING),
        (("$user",), Operator.NE, Claim(("$user", "one")), EVERYTHING),
        (("$user",), Operator.NE, Claim(("$user", "missing")), NOTHING),
        (("$user", "missing"), Operator.NE, "x", NOTHING),
        (("$user", "rank"), Operator.GE, 2, EVERYTHING),
        (("$user", "vip"), Operator.EQ, True, EVERYTHING),
    ],
)
def test_a_comparison_of_claims_is_settled(path, operator, value, expected):
    assert expected is bind(ClaimCondition(Claim(path), operator, value), FACTS.get)


def test_what_is_settled_falls_away():
    here = Condition(("x",), Operator.EQ, 1)
    vip = ClaimCondition(Claim(("$user", "vip")), Operator.EQ, True)
    assert here is bind(Group((vip, here)), FACTS.get)
    assert EVERYTHING is bind(Group((vip, here), all_of=False), FACTS.get)


def test_claims_of_both_sides_are_known():
    where = Group((ClaimCondition(Claim(SITES), Operator.HAS, Claim(("$user",))),))
    assert {SITES, ("$user",)} == set(claims_of(where))
    assert [] == list(claims_of(None))
