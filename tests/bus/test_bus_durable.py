"""The durable filters: counted, cached, and free where there are none (D27)."""

import random

import pytest

from rowcast.bus.durable_filters import DurableFilters
from rowcast.core.topics import TopicFilter

LEVELS = ["a", "b", "$SYS", ""]
FILTERS = ["#", "+", "a/#", "a/+", "+/b", "a/b", "$SYS/#", "b/+/a"]


def test_a_filter_counts_as_often_as_it_was_added() -> None:
    durable, mine = DurableFilters(), TopicFilter("a/+")
    assert not durable.wanted("a/b")
    durable.add(mine)
    durable.add(mine)
    assert (True, False) == (durable.wanted("a/b"), durable.wanted("b"))
    durable.remove(mine)
    assert durable.wanted("a/b")
    durable.remove(mine)
    assert not durable.wanted("a/b")


def test_what_was_answered_is_forgotten_when_a_filter_comes_or_goes() -> None:
    durable = DurableFilters()
    durable.add(TopicFilter("x"))
    assert not durable.wanted("a/b")
    for text in ("a/b", "a/#"):
        durable.add(TopicFilter(text))
        assert durable.wanted("a/b")
        durable.remove(TopicFilter(text))
        assert not durable.wanted("a/b")


def test_a_wildcard_does_not_select_the_servers_topics() -> None:
    """MQTT-4.7.2-1."""
    durable = DurableFilters()
    durable.add(TopicFilter("#"))
    assert (True, False) == (durable.wanted("a"), durable.wanted("$SYS/a"))


def test_what_was_never_added_cannot_be_removed() -> None:
    with pytest.raises(KeyError):
        DurableFilters().remove(TopicFilter("a"))


@pytest.mark.parametrize("seed", range(10))
def test_the_answer_is_that_of_the_filters(seed: int) -> None:
    rng, durable = random.Random(seed), DurableFilters()
    held: list[TopicFilter] = []
    for _ in range(200):
        if held and rng.random() < 0.45:
            durable.remove(held.pop(rng.randrange(len(held))))
        else:
            held.append(TopicFilter(rng.choice(FILTERS)))
            durable.add(held[-1])
        topic = "/".join(rng.choice(LEVELS) for _ in range(rng.randint(1, 3))) or "a"
        assert any(item.matches(topic) for item in held) == durable.wanted(topic)
