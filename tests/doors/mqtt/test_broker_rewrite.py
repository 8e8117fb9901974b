"""Rules that rewrite topics, and what every client is subscribed to (D54)."""

import pytest

from rowcast.core.errors import Code, Error
from rowcast.core.limits import (
    AUTO_SUBSCRIPTIONS_MAX,
    REWRITE_EXPRESSION_CHARS_MAX,
    REWRITE_RULES_MAX,
    REWRITE_TOPIC_CHARS_MAX,
)  # fmt: skip
from rowcast.doors.mqtt.packets.rewrite import AutoSubscriptions, Rewriting, make_rule
from rowcast.mqtt.packets import Subscription

RULES = (
    ("all", "y/+/z/#", "^y/(.+)/z/(.+)$", "y/z/$2"),
    ("all", "x/#", "^x/y/(.+)$", "z/y/x/$1"),
    ("all", "x/y/+", r"^x/y/(\d+)$", "z/y/$1"),
    ("publish", "up/#", "^up/(.+)$", "fleet/${clientid}/${username}/$1"),
    ("subscribe", "down/#", "^down(/.*)?$", "fleet/${clientid}$1"),
    ("all", "old", "^old$", "new"),
)


@pytest.fixture
def rules():
    return Rewriting([make_rule(*rule) for rule in RULES])


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("y/a/z/b", "y/z/b"),
        ("y/def", "y/def"),
        ("x/1/2", "x/1/2"),  # selected, but the expression does not fit
        ("x/y/2", "z/y/x/2"),  # the first rule that selects decides
        ("up/a/b", "fleet/device-1/ann/a/b"),
        ("down/a", "down/a"),
        ("old", "new"),
        ("old/er", "old/er"),
    ],
)
def test_topics_of_publishes(rules, topic, expected):
    assert expected == rules.topic(topic, "device-1", "ann")


@pytest.mark.parametrize(
    ("topic", "expected"),
    [("/old", "new"), ("/up/a", "fleet/device-1/ann/a"), ("/other", "/other"), ("/x/1", "x/1")],
)
def test_p5_a_leading_slash_gets_round_no_rule(rules, topic, expected):
    def named(text):
        return text.removeprefix("/") if text != "/other" else text

    assert expected == rules.topic(topic, "device-1", "ann", named)


def test_p5_a_leading_slash_in_a_filter_gets_round_no_rule(rules):
    def named(text):
        return text.removeprefix("/")

    assert "$share/g/new" == rules.filter("$share/g//old", "device-1", "ann", named)
    assert "fleet/device-1/#" == rules.filter("/down/#", "device-1", "ann", named)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y/+/z/#", "y/z/#"),
        ("x/y/+", "z/y/x/+"),
        ("up/a", "up/a"),
        ("down", "fleet/device-1"),
        ("down/#", "fleet/device-1/#"),
        ("$share/g/old", "$share/g/new"),
        ("$exclusive/old", "$exclusive/new"),
        ("$share/g", "$share/g"),
        ("$share/old", "$share/old"),
        ("$exclusive/", "$exclusive/"),
        ("", ""),
    ],
)
def test_filters_of_subscriptions(rules, text, expected):
    assert expected == rules.filter(text, "device-1", "ann")


@pytest.mark.parametrize("client_id", ["+", "#", "a/b", "a/+", ""])
def test_a_client_id_never_becomes_a_wildcard(rules, client_id):
    """D54: a stranger chooses its client id."""
    for rewrite in (lambda: rules.filter("down/a", client_id, "ann"),
                    lambda: rules.topic("up/a", client_id, "ann")):  # fmt: skip
        with pytest.raises(Error, match="cannot stand in a topic"):
            rewrite()


def test_a_place_that_is_empty():
    """A group that took no part is nothing, and what comes out is checked again."""
    rules = Rewriting([make_rule("publish", "a/#", "^a/?(.*)$", "$1")])
    assert "b" == rules.topic("a/b", "c", "u")
    with pytest.raises(Error, match="at least one character"):
        rules.topic("a", "c", "u")


def test_what_came_out_is_not_rewritten_again():
    rules = Rewriting([make_rule("all", "a", "^a$", "b"), make_rule("all", "b", "^b$", "a")])
    assert ("b", "a") == (rules.topic("a", "c", "u"), rules.topic("b", "c", "u"))


def test_what_comes_out_may_not_be_too_long():
    rules = Rewriting([make_rule("all", "#", "^(.+)$", "$1/" * 127 + "$1")])
    with pytest.raises(Error, match="levels"):
        rules.topic("a/b", "c", "u")


def test_a_topic_too_long_to_be_taken_apart():
    rules = Rewriting([make_rule("all", "a/#", "^a/(.+)$", "$1")])
    long = "a/" + "x" * REWRITE_TOPIC_CHARS_MAX
    assert "x" * 200 == rules.topic("a/" + "x" * 200, "c", "u")
    with pytest.raises(Error, match="256 characters"):
        rules.topic(long, "c", "u")
    assert "b" + long == rules.topic("b" + long, "c", "u")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (("both", "a", "^a$", "b"), "publish, subscribe or all"),
        (("all", "a/#/b", "^a$", "b"), "whole last level"),
        (("all", "", "^a$", "b"), "at least one character"),
        (("all", "a", "^(a$", "b"), "is wrong"),
        (("all", "a", "^a$", "$1"), "has 0 groups"),
        (("all", "a", "^(a)$", "$0"), "names"),
        (("all", "a", "^a$", "${clientId}"), "known are"),
        (("all", "a", "^a$", "b/#/c"), "whole last level"),
        (("all", "a", "^a$", ""), "at least one character"),
        (("all", "a", "(a+)+$", "b"), "repeats a group"),
        (("all", "a", "(a|a)*$", "b"), "repeats a group"),
        (("all", "a", "(a){2,}$", "b"), "repeats a group"),
        (("all", "a", ".*.*.*.*.*x", "b"), "5 repetitions"),
        (("all", "a", "x" * (REWRITE_EXPRESSION_CHARS_MAX + 1), "b"), "characters"),
        (("all", "a", "a{99999999999999999999}", "b"), "is wrong"),
    ],
)
def test_a_rule_that_cannot_be_followed(rule, words):
    """D54: told at the start, in a sentence."""
    with pytest.raises(Error, match=words) as caught:
        make_rule(*rule)
    assert Code.INVALID == caught.value.code


@pytest.mark.parametrize(
    "expression",
    [r"^([^/]+)/([^/]*)/(\d+?)/(.*+)$", r"^\(\)+[)*+]x$", r"^(a)?[]*+]{2}$", "^(?P<n>a)(?:b)$"],
)
def test_expressions_that_are_taken(expression):
    assert make_rule("all", "#", expression, "a").expression.pattern == expression


def test_the_worst_expression_ends():
    """D54: what is taken cannot hold up the server: the test's own timeout is the judge."""
    rule = make_rule("all", "#", "^.*.*.*x$", "a")
    assert "a" * REWRITE_TOPIC_CHARS_MAX == rule.rewrite("a" * REWRITE_TOPIC_CHARS_MAX, "c", "u")


def test_too_many_rules():
    with pytest.raises(Error, match="at most 100 are allowed"):
        Rewriting([make_rule("all", "a", "a", "b")] * (REWRITE_RULES_MAX + 1))


def test_subscriptions_of_one_client():
    wanted = AutoSubscriptions(
        (Subscription("to/${clientid}/#", 1, True, True, 2), Subscription("$share/g/${username}"))
    )
    assert [
        Subscription("to/c1/#", 1, True, True, 2),
        Subscription("$share/g/ann"),
    ] == list(wanted.of("c1", "ann"))


def test_a_client_whose_name_does_not_fit(caplog):
    """D54: it gets the others."""
    wanted = AutoSubscriptions((Subscription("to/${clientid}"), Subscription("all")))
    assert [Subscription("all")] == list(wanted.of("a/#", "ann"))
    assert "is not subscribed to" in caplog.text


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (Subscription("a/$1"), "0 groups"),
        (Subscription("a/${id}"), "known are"),
        (Subscription("a/#/b"), "last level"),
        (Subscription("$share/g/a", no_local=True), "cannot have no_local"),
    ],
)
def test_subscriptions_that_cannot_be_made(item, words):
    with pytest.raises(Error, match=words):
        AutoSubscriptions((item,))


def test_too_many_subscriptions():
    with pytest.raises(Error, match="at most 100 are allowed"):
        AutoSubscriptions([Subscription("a")] * (AUTO_SUBSCRIPTIONS_MAX + 1))
