"""Topic rules of every spelling, answered by one evaluator (L6, L10, G20)."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import amount
from rowcast.core.claims import CLIENT, USER
from rowcast.core.patterns import filled
from rowcast.core.right_limits import RULE_PATTERNS_MAX
from rowcast.core.topic_rules import BoundRule, Combining, RulesOf, TopicRule
from rowcast.core.topics import TopicFilter

NAME = "${username}"
LEVELS = ("a", "b", "$s")
TOPICS = ["/".join(levels) for depth in (1, 2, 3) for levels in product(LEVELS, repeat=depth)]
FILTERS = st.sampled_from(
    ["#", "+", "+/#", "a", "a/#", "a/+", "a/b", "a/b/#", "+/b", "$s/#", "$s/+", "b/#", "a/+/b"]
)
RULES = st.builds(
    TopicRule,
    st.text(st.sampled_from("rst"), min_size=1, max_size=1),
    st.lists(FILTERS, min_size=1, max_size=2).map(tuple),
    st.booleans(),
    st.frozensets(st.sampled_from(["read", "write"]), min_size=1),
    attributes=st.sampled_from([frozenset(), frozenset({"salary"})]),
)


def bound(rules, combining):
    return RulesOf([BoundRule(rule, rule.patterns(lambda _: None)) for rule in rules], combining)


def selected(rule):
    return {topic for text in rule.filters for topic in TOPICS if TopicFilter(text).matches(topic)}


def by_definition(rules, combining, topic):
    """Say again which rule decides about a topic."""
    found = [rule for rule in rules if "read" in rule.answered and topic in selected(rule)]
    if combining is Combining.FIRST_MATCH:
        return found[0] if found else None
    denying = [rule for rule in found if not rule.allows and not rule.attributes]
    return next(iter([*denying, *(rule for rule in found if rule.allows)]), None)


@pytest.mark.slow
@settings(max_examples=amount(long=150, short=37), deadline=None)
@given(st.lists(RULES, max_size=4), st.sampled_from(Combining))
def test_the_deciding_rule_is_that_of_the_definition(rules, combining):
    made = bound(rules, combining)
    for topic in TOPICS:
        expected = by_definition(rules, combining, topic)
        assert expected is made.deciding("read", topic.split("/"))


@settings(max_examples=amount(long=150, short=37), deadline=None)
@given(RULES, FILTERS)
def test_a_rule_covers_overlaps_or_divides_a_filter(rule, text):
    one = BoundRule(rule, rule.patterns(lambda _: None))
    levels = text.split("/")
    wanted = {topic for topic in TOPICS if TopicFilter(text).matches(topic)}
    if one.covers(levels):
        assert wanted <= selected(rule)
    assert one.overlaps(levels) == bool(wanted & selected(rule))
    if one.divides(levels):
        assert one.overlaps(levels)


def test_what_allows_some_of_a_filter_is_the_first_that_does():
    rules = [
        TopicRule("no", ("a/#",), False, frozenset({"read"})),
        TopicRule("other", ("b/#",), True, frozenset({"read"})),
        TopicRule("write", ("a/#",), True, frozenset({"write"})),
        TopicRule("yes", ("a/b",), True, frozenset({"read"})),
    ]
    made = bound(rules, Combining.DENIAL_WINS)
    assert rules[3] is made.allowing_some("read", ["a", "+"])
    assert None is made.allowing_some("read", ["c", "#"])


@pytest.mark.parametrize(
    ("who", "user", "roles", "client_id", "about"),
    [
        ({}, "ann", (), "", True),
        ({"users": {"ann"}}, "ann", (), "", True),
        ({"users": {"ann"}}, "ben", (), "", False),
        ({"roles": {"vet"}}, "ben", ("vet", "x"), "", True),
        ({"users": {"ann"}, "roles": {"vet"}}, "ann", (), "", True),
        ({"clients": {"c"}}, "ann", (), "c", True),
        ({"clients": {"c"}}, "ann", (), "d", False),
        ({"users": {"ann"}, "clients": {"c"}}, "ann", (), "d", False),
    ],
)
def test_whom_a_rule_is_about(who, user, roles, client_id, about):
    sets = {name: frozenset(names) for name, names in who.items()}
    rule = TopicRule("r", ("#",), True, frozenset({"read"}), **sets)
    assert about is rule.concerns(user, frozenset(roles), client_id)


def patterns(text, places, facts):
    rule = TopicRule("r", (text,), True, frozenset({"read"}), places=places)
    return rule.patterns(facts.get)


def test_a_claim_with_several_values_gives_several_patterns():
    sites = {"${user.sites}": ("$user", "sites"), NAME: USER}
    facts = {("$user", "sites"): ["n", 3, None], USER: "ann"}
    assert [("n", "ann"), ("3", "ann"), (None, "ann")] == patterns(
        "${user.sites}/${username}", sites, facts
    )
    assert [] == patterns("${user.sites}", sites, {("$user", "sites"): [], USER: "ann"})
    many = {("$user", "sites"): list(range(1000)), USER: list(range(1000))}
    assert RULE_PATTERNS_MAX == len(patterns("${user.sites}/${username}", sites, many))


@pytest.mark.parametrize("order", [(NAME, "${clientid}"), ("${clientid}", NAME)])
def test_a_name_that_looks_like_a_place_is_a_name(order):
    """A client chooses its id: that must not stand for the names of others, or more of its own."""
    facts = {NAME: "ann", "${clientid}": NAME}
    names = {place: facts[place] for place in order}
    assert ("own", NAME, "ann") == filled("own/${clientid}/${username}", names)
    assert ("own", f"{NAME}-ann") == filled("own/${clientid}-${username}", names)


def test_unknown_callers_have_no_patterns_that_select():
    rule = patterns("own/${clientid}/#", {"${clientid}": CLIENT}, {})
    assert [("own", None, "#")] == rule
