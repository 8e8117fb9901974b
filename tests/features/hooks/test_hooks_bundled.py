"""The rate limit, the logger, and which hooks the settings ask for (G20)."""

import logging

import pytest

from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.hooks.logger import Logger
from rowcast.features.hooks.rate_limit import HookRateLimit, RateLimit
from rowcast.program.config import load_config
from rowcast.program.settings.hooks import bundled
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

ANN = Caller("ann", ALL, "mqtt", "a\nb", "10.0.0.1")
BEN = Caller("ben", ALL, "http", "", "10.0.0.2")
AGAIN = Caller("ann", ALL, "ws", "a\nb", "10.0.0.1")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def limited(callers_max=100, **allowance):
    clock = Clock()
    return RateLimit(HookRateLimit(**allowance), clock, callers_max), clock


def event(size=1):
    return Event("a", MESSAGE, b"x" * size)


def refused(call, *arguments):
    with pytest.raises(Error) as raised:
        call(*arguments)
    assert (Code.BUSY, True) == (raised.value.code, raised.value.detail["rate"])
    return raised.value.detail["retry_after_seconds"]


def test_publishes_are_counted_for_each_caller():
    """The same user at the same address is one caller, whichever the door."""
    limit, clock = limited(publishes=2)
    limit.on_publish(ANN, event())
    limit.on_publish(AGAIN, event())
    assert 1 == refused(limit.on_publish, ANN, event())
    limit.on_publish(BEN, event())
    clock.now += 0.5
    limit.on_publish(ANN, event())
    refused(limit.on_publish, ANN, event())


def test_bytes_and_filters_are_counted_apart():
    limit, _ = limited(bytes=10, subscribes=1)
    limit.on_publish(ANN, event(6))
    refused(limit.on_publish, ANN, event(6))
    limit.on_publish(ANN, event(4))
    limit.on_subscribe(ANN, SubscribedFilter(TopicFilter("a")))
    refused(limit.on_subscribe, ANN, SubscribedFilter(TopicFilter("a")))


def test_callers_are_remembered_within_bounds():
    limit, _ = limited(callers_max=2, publishes=1)
    for number in range(5):
        limit.on_publish(Caller(str(number)), event())
    assert 2 == len(limit._publishes)


@pytest.mark.parametrize("publishes", [False, True])
async def test_the_logger_tells_one_line_each(caplog, publishes):
    hooks = Hooks()
    hooks.add(Logger(publishes=publishes))
    with caplog.at_level(logging.INFO, "rowcast.access"):
        hooks.connected(ANN)
        hooks.subscribe(ANN, SubscribedFilter(TopicFilter("a/#")))
        if hooks.writing:
            hooks.publish(BEN, event(5))
        hooks.disconnected(ANN, "the connection was lost")
    written = ["'ben' from 10.0.0.2: message of 5 bytes to 'a'"] if publishes else []
    ann = "'ann' as 'a\\nb' from 10.0.0.1"
    assert [
        f"{ann} connected over mqtt",
        f"{ann} subscribes to 'a/#'",
        *written,
        f"{ann} disconnected: the connection was lost",
    ] == caplog.messages


# -- settings --------------------------------------------------------------------------------------

RULES = '[{"effect": "allow", "actions": ["all"], "topics": ["a/${clientid}"]}]'


def asked_for(**settings):
    given = {f"hooks.{name.replace('__', '.')}": value for name, value in settings.items()}
    return bundled(load_config(None, {}, given).hooks)


def test_without_settings_there_are_none():
    assert [] == asked_for()


def test_settings_ask_for_hooks_in_their_order():
    hooks = asked_for(acl=RULES, rate__publishes=5, log="publishes")  # the list is none
    assert ["logger", "rate-limit"] == [hook.id for hook in hooks]
    assert ["rate-limit"] == [hook.id for hook in asked_for(rate__subscribes=1)]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (RULES.replace("clientid", "client"), "hooks.acl cannot be followed: .*placeholder"),
        (RULES.replace("a/", "#/"), "hooks.acl cannot be followed"),
        (RULES.replace('"allow"', '"permit"'), "hooks.acl.0.effect"),
        (RULES.replace('"all"', '"sing"'), "not .sing."),
        (RULES.replace('["all"]', "[]"), "hooks.acl.0.actions"),
    ],
)
def test_a_wrong_rule_is_told_with_its_place(rules, words):
    with pytest.raises(Error, match=words):
        asked_for(acl=rules)
