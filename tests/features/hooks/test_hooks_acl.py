"""The access list's rules, alone (G20)."""

import pytest

from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter, covers
from rowcast.features.hooks.acl import AccessList, AccessRule
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


def rule(effect="allow", actions=("all",), topics=("#",), users=(), clients=()):
    sets = frozenset(users), frozenset(clients)
    return AccessRule(effect, frozenset(actions), tuple(topics), *sets)


def who(user="ann", client_id="c1"):
    return Caller(user, ALL, "mqtt", client_id)


def writes(acl, topic, caller=None):
    return _permitted(acl.on_publish, caller or who(), Event(topic, MESSAGE, b""))


def watches(acl, text, caller=None):
    return _permitted(acl.on_subscribe, caller or who(), SubscribedFilter(TopicFilter(text)))


def reads(acl, topic, caller=None):
    return acl.can_read(caller or who(), topic)


def _permitted(ask, *arguments):
    try:
        ask(*arguments)
    except Error as error:
        assert Code.DENIED == error.code
        return False
    return True


ASK = {"publish": writes, "subscribe": watches, "read": reads}


def test_what_no_rule_names_is_denied():
    access = AccessList([rule(topics=["a"])])
    for ask in ASK.values():
        assert ask(access, "a")
        assert not ask(access, "b")


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["publish"], {"publish"}),
        (["write"], {"publish"}),
        (["read"], {"read"}),
        (["subscribe"], {"subscribe", "read"}),
        (["read", "write"], {"read", "publish"}),
        (["all"], {"publish", "subscribe", "read"}),
    ],
)
def test_a_rule_is_for_its_actions(actions, expected):
    access = AccessList([rule(actions=actions)])
    assert expected == {name for name, ask in ASK.items() if ask(access, "a")}


def test_the_first_rule_that_fits_decides():
    rules = [rule("deny", topics=["a/secret"]), rule(topics=["a/+"]), rule("deny", topics=["a/#"])]
    access = AccessList(rules)
    assert [False, True, False] == [reads(access, text) for text in ("a/secret", "a/1", "a/1/2")]


def test_a_rule_is_for_its_users_and_clients():
    access = AccessList([rule(users=["ann"], clients=["c1", "c2"])])
    assert reads(access, "a", who("ann", "c2"))
    assert not reads(access, "a", who("ben", "c1"))
    assert not reads(access, "a", who("ann", "c3"))


@pytest.mark.parametrize(
    ("pattern", "wanted", "whole"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a/+", "a/b", True),
        ("a/+", "a/+", True),
        ("a/+", "a/#", False),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("a/b", "a/+", False),
        ("a/#", "a", True),
        ("a/#", "a/#", True),
        ("a/#", "a/+/c", True),
        ("a/#", "#", False),
        ("a/#", "+/#", False),
        ("#", "#", True),
        ("#", "+/a", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("+", "#", False),
        ("a//b", "a//b", True),
    ],
)
def test_a_filter_is_allowed_if_a_rule_selects_the_whole_of_it(pattern, wanted, whole):
    assert whole == covers(tuple(pattern.split("/")), wanted.split("/"))


def test_a_denial_within_a_filter_keeps_back_that_part():
    access = AccessList([rule("deny", topics=["a/secret"]), rule(topics=["a/#"])])
    assert watches(access, "a/#")
    assert not watches(access, "a/secret")
    assert [True, False] == [reads(access, topic) for topic in ("a/1", "a/secret")]


# -- placeholders ----------------------------------------------------------------------------------

OWN = ["own/${clientid}/#", "home/${username}", "x/dev-${clientid}-${username}/+"]


def test_placeholders_are_the_callers_names():
    access = AccessList([rule(topics=OWN)])
    for topic in ("own/c1/a/b", "home/ann", "x/dev-c1-ann/1"):
        assert reads(access, topic)
        assert not reads(access, topic, who("ben", "c2"))


@pytest.mark.parametrize("name", ["+", "#", "a/b", "+/x", "a+", "", "c1/#"])
@pytest.mark.parametrize("topic", ["own/+/#", "own/#", "own/a/b", "own/+", "own//x", "own/c1/x"])
def test_a_name_with_signs_widens_no_rule(name, topic):
    """Neither by what it selects nor by being spelt the same as a filter that is asked for."""
    access = AccessList([rule(topics=OWN)])
    caller = who("ann", name)
    assert not watches(access, topic, caller)
    if not set("+#") & set(topic):
        assert not reads(access, topic, caller)
        assert not writes(access, topic, caller)


def test_a_name_that_looks_like_a_placeholder_is_a_name():
    access = AccessList([rule(topics=["own/${clientid}"])])
    assert not reads(access, "own/ann", who("ann", "${username}"))


@pytest.mark.parametrize("topic", ["own/${client}", "a/#/b", "${", "a+"])
def test_a_rule_that_cannot_be_followed_is_refused(topic):
    with pytest.raises(Error) as raised:
        rule(topics=[topic])
    assert Code.INVALID == raised.value.code


# -- memory ----------------------------------------------------------------------------------------


def test_g6_answers_are_remembered_within_bounds():
    access = AccessList([rule(topics=["a/+"])], callers_max=2, answers_max=3)
    for caller in range(5):
        for number in range(5):
            assert reads(access, f"a/{number}", who("ann", str(caller)))
            assert not reads(access, f"b/{number}", who("ann", str(caller)))
    assert 2 == len(access._rights)
    assert all(len(rights.answers) <= 3 for rights in access._rights.values())
