"""Row rules: what they may say, and what of them is left for one caller (L7)."""

import random

import pytest

from rowcast.core import conditions
from rowcast.core.claims import bind, claims_of
from rowcast.core.conditions import NOTHING
from rowcast.core.masks import is_mask, masked
from rowcast.core.query_terms import Unreadable
from rowcast.core.row_rules import parse_rule
from rowcast.core.tables import Attribute, Table, Type

TABLE = Table(
    "Dog",
    "Dog",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("owner", Type.STRING, hidden=True),
        Attribute("site", Type.STRING),
        Attribute("level", Type.INT),
        Attribute("free", Type.BOOLEAN),
        Attribute("born", Type.DATE),
        Attribute("tags", Type.LIST, items=Attribute("", Type.STRING)),
    ),
)
FACTS = {
    ("$user",): "ann",
    ("$user", "sites"): ["north", "south"],
    ("$user", "rank"): 3,
    ("$user", "vip"): True,
    ("$user", "born"): "2020-01-01T00:00:00Z",
}


def holds(text, **value):
    return conditions.holds(bind(parse_rule(text, TABLE), FACTS.get), value, value.get("id"))


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("owner == $user", {"owner": "ann"}, True),
        ("$user == owner", {"owner": "ben"}, False),
        ("owner == 'ann' or site in $user.sites", {"site": "south"}, True),
        ("owner == $user and (level <= 2 or free == true)", {"owner": "ann", "free": True}, True),
        ("owner == $user && level <= $user.rank", {"owner": "ann", "level": 4}, False),
        ("site in ['east', \"west\"]", {"site": "west"}, True),
        ("site sw 'no'", {"site": "north"}, True),
        ("owner == null", {}, True),
        ("$user.vip == true", {}, True),
        ("'north' in $user.sites", {}, True),
        ("'east' in $user.sites", {}, False),
        ("$user.rank >= 3", {}, True),
        ("born >= $user.born", {}, False),
        ("true", {}, True),
        ("false or owner != 'x'", {"owner": "y"}, True),
        ("$id == $user", {"id": "ann"}, True),
        ("$user in tags", {"tags": ["ben", "ann"]}, True),
        ("$user in tags", {"tags": ["anna"]}, False),
        ("$user in tags", {"tags": "ann"}, False),
        ("$user in tags", {}, False),
        ("'x' in tags or $user.rank in tags", {"tags": ["x"]}, True),
        ("$user.sites in tags", {"tags": ["north"]}, False),  # several values are no one item
        ("$user.nothing in tags", {"tags": [None]}, False),
    ],
)
def test_a_rule_is_read_and_bound(text, value, expected):
    assert expected is holds(text, **value)


@pytest.mark.parametrize(
    "text",
    [
        "owner == $user.nothing",
        "owner != $user.nothing",
        "$user.nothing != 'x'",
        "level != $user",
        "level < $user.sites",
        "site in $user.nothing",
        "owner != $clientid",
    ],
)
def test_what_is_not_known_of_a_caller_allows_nothing(text):
    """Whatever the operator: a missing claim, or one that can be no value of the attribute."""
    assert NOTHING is bind(parse_rule(text, TABLE), FACTS.get)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a rule is a comparison"),
        ("owner = 'x'", "means nothing in a rule; write == to compare"),
        ("ownr == 'x'", 'did you mean "owner"'),
        ("owner == site", "another attribute"),
        ("owner == $me", "known are $user"),
        ("owner == $user.a.b", "known are $user"),
        ("owner ==", "missing"),
        ("(owner == 'x'", "')' is missing"),
        ("owner == 'x' site == 'y'", "expected 'and' or 'or'"),
        ("owner is 'x'", "no operator"),
        ("owner in 'x'", "goes with a list"),
        ("$user in owner", "owner is no list"),
        ("owner == ['x']", "goes with 'in'"),
        ("level == 'x'", "level"),
        ("'x' == owner", "to the left"),
        ("$user < level", "write level to the left"),
        ("__import__('os')", "Dog has no attribute"),
        ("(" * 9 + "true" + ")" * 9, "at most 8 deep"),
        ("owner == '" + "x" * 2000 + "'", "at most 2000 characters"),
    ],
)
def test_a_rule_that_means_nothing_says_why(text, words):
    with pytest.raises(Unreadable) as unreadable:
        parse_rule(text, TABLE)
    assert words in str(unreadable.value)


@pytest.mark.heavy
def test_any_text_is_a_rule_or_refused():
    """Fuzzed: nothing else comes out of it."""
    dice = random.Random(7)
    words = ["owner", "==", "$user", "(", ")", "and", "or", "in", "[", "]", "'x'", "3", ",", "$"]
    for _ in range(3000):
        text = " ".join(dice.choices(words, k=dice.randrange(12)))
        try:
            bound = bind(parse_rule(text, TABLE), FACTS.get)
        except Unreadable:
            continue
        assert isinstance(conditions.holds(bound, {"owner": "x"}, "1"), bool)


def test_the_claims_of_a_rule_are_known():
    rule = parse_rule("owner == $user and (site in $user.sites or $user.rank > 2)", TABLE)
    assert {("$user",), ("$user", "sites"), ("$user", "rank")} == set(claims_of(rule))


@pytest.mark.parametrize(
    ("mask", "value", "shown"),
    [
        ("last4", "0123456789", "***6789"),
        ("last4", "789", "***"),
        ("first1", "Ann", "A***"),
        ("stars", "Ann", "***"),
        ("null", "Ann", None),
        ("last4", 123456, None),
        ("last4", None, None),
    ],
)
def test_a_mask_tells_nothing_but_what_it_says(mask, value, shown):
    """S18: not even a length."""
    assert is_mask(mask)
    assert shown == masked(value, mask)


def test_other_words_are_no_masks():
    assert not any(map(is_mask, ("last", "last0", "middle3", "last123", "")))
