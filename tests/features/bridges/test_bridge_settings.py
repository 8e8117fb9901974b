"""The settings of bridges: names and defaults (H18), mistakes told (H30)."""

import pytest
from pydantic import ValidationError

from rowcast.core.errors import Error
from rowcast.features.bridges.plan import Mode
from rowcast.program.settings.gateway import GatewaySettings, plan_of, plans, synced


def settings(*brokers):
    return GatewaySettings.model_validate({"brokers": brokers})


def test_defaults():
    """H18, H19."""
    (plan,) = plans(settings({"name": "b", "host": "h"}))
    rules = plan.rules
    assert (5, 500, True) == (rules.attempts_max, rules.held_max, rules.strict)
    assert (30, 5.0, Mode.HYBRID) == (
        plan.dead_letter_retain_days, plan.reconnect_interval_seconds, plan.mode,
    )  # fmt: skip
    assert (0, 0.1, 0.01) == (
        plan.queue_size, plan.publish_timeout_seconds, plan.crowded_seconds,
    )  # fmt: skip
    assert ("h", 1883, 5, "") == (
        plan.remote.host, plan.remote.port, plan.remote.version, plan.remote.client_id,
    )  # fmt: skip


def test_h18_h19_the_names_of_the_source_are_taken():
    """H18, H19: milliseconds as there; a queue of 64 to 1,048,576."""
    given = {"queue_size": 64, "publish_timeout_ms": 0, "worker_poll_interval_ms": 250}
    (plan,) = plans(settings({"name": "b", "host": "h"} | given))
    assert (64, 0, 0.25) == (plan.queue_size, plan.publish_timeout_seconds, plan.crowded_seconds)
    with pytest.raises(ValidationError):
        settings({"name": "b", "host": "h", "queue_size": 63})


def test_everything_can_be_said():
    (plan,) = plans(
        settings(
            {
                "name": "b",
                "host": "h",
                "version": "3.1.1",
                "ordering": "relaxed",
                "mode": "memory",
                "username": "u",
                "password": "p",
                "out": [{"filter": "a/#", "prefix": "x/", "qos": 2}],
                "in": [{"filter": "b/+", "strip": "b/"}],
            }
        )
    )
    assert ("x/a/1", 2) == (plan.out[0].topic("a/1"), plan.out[0].qos)
    assert "1" == plan.into[0].topic("b/1")
    assert (4, False, Mode.MEMORY) == (plan.remote.version, plan.rules.strict, plan.mode)


@pytest.mark.parametrize(
    "broker",
    [
        {"name": "b"},
        {"name": "a/b", "host": "h"},
        {"name": "b", "host": "h", "port": 0},
        {"name": "b", "host": "h", "out": [{"filter": "a/#/b"}]},
        {"name": "b", "host": "h", "out": [{"filter": "a/#", "prefix": "x/+/"}]},
        {"name": "b", "host": "h", "in": [{"filter": "a/#", "strip": "a/#"}]},
        {"name": "b", "host": "h", "ordering": "loose"},
        {"name": "b", "host": "h", "hosts": "h"},
        {"name": "b", "host": "h", "client_id": "caf\u00e9"},
        {"name": "b", "host": "h", "sync": ["a/#/b"]},
        {"name": "b", "host": "h", "sync": ["$SYS/#"]},
        {"name": "b", "host": "h", "sync": ["a/#"], "out": [{"filter": "b/#"}]},
        {"name": "b", "host": "h", "sync": ["a/#"], "version": "3.1.1"},
        {"name": "b", "host": "h", "sync": ["a/#"], "mode": "memory"},
    ],
)
def test_mistakes_are_refused(broker):
    """H30."""
    with pytest.raises(ValidationError):
        settings(broker)


def test_synced_topics():
    """K3: under the same names at both sites, each event once."""
    given = settings({"name": "b", "host": "h", "sync": ["Dog/#", "u/#"], "in": [{"filter": "x"}]})
    (plan,) = plans(given)
    assert ["Dog/#", "u/#"] == [topics.text for topics in plan.syncs]
    assert ["Dog/#", "u/#"] == [topics.text for topics in synced(given)]
    assert ("Dog/1", 1, True) == (plan.out[0].topic("Dog/1"), plan.out[0].qos, plan.out[0].sync)
    (other,) = plans(settings({"name": "b", "host": "h", "sync": ["Dog/#"]}))
    (none,) = plans(settings({"name": "b", "host": "h"}))
    assert 3 == len({plan.producer, other.producer, none.producer})


def test_each_broker_has_a_name_of_its_own():
    with pytest.raises(ValidationError, match="b twice"):
        settings({"name": "b", "host": "h"}, {"name": "b", "host": "i"})


def test_a_password_is_not_shown():
    """H31."""
    given = settings({"name": "b", "host": "h", "username": "u", "password": "secret"})
    assert "secret" not in repr(given) + repr(plans(given))


@pytest.mark.parametrize("host", ["u:secret@h", "h/secret", "h secret"])
def test_a_secret_in_a_host_is_refused_and_not_repeated(host):
    """H31: the host is told in the log, in rows and to whoever watches the bridge."""
    with pytest.raises(Error) as refused:
        plan_of({"name": "b", "host": host})
    assert "should be a name or an address alone" in refused.value.message
    assert "secret" not in refused.value.message


@pytest.mark.parametrize("way", ["$share/group/", "$queue/", "$exclusive/", "$stream/", ""])
def test_what_a_filter_of_another_broker_begins_with_is_no_part_of_its_topics(way):
    """H33: messages of a shared subscription come at their own topics."""
    (plan,) = plans(settings({"name": "b", "host": "h", "in": [{"filter": f"{way}a/#"}]}))
    (route,) = plan.into
    assert (way, "a/#", True) == (route.way, route.topics.text, route.topics.matches("a/1"))


@pytest.mark.parametrize(
    ("direction", "text", "word"),
    [
        ("in", "$share/a", "filter"),
        ("in", "$share//a", "needs a name"),
        ("in", "$share/+/a", "needs a name"),
        ("in", "$share/g/a/#/b", "#"),
        ("out", "$share/g/a", "of in"),
        ("out", "$queue/a", "of in"),
    ],
)
def test_a_malformed_share_is_refused(direction, text, word):
    """H30."""
    with pytest.raises(ValidationError, match=word):
        settings({"name": "b", "host": "h", direction: [{"filter": text}]})
