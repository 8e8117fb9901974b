"""The trie and the bus: D32-D35, C8; MQTT 5, section 4.7."""

import random
from itertools import product

import pytest

from rowcast.bus.bus import Bus
from rowcast.bus.subscriber import Subscriber
from rowcast.bus.trie import Trie
from rowcast.core import limits
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter

LEVELS = ["a", "b", "", "$SYS", "é", "a b"]


class Listener(Subscriber):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def offer(self, event: Event) -> None:
        self.events.append(event)


def random_topic(rng: random.Random) -> str:
    return "/".join(rng.choice(LEVELS) for _ in range(rng.randint(1, 4))) or "a"


def random_filter(rng: random.Random) -> TopicFilter:
    levels = [rng.choice([*LEVELS, "+", "+"]) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.3:
        levels.append("#")
    return TopicFilter("/".join(levels) or "#")


@pytest.mark.parametrize("seed", range(20))
def test_trie_agrees_with_the_matcher(seed: int) -> None:
    """D35, C8: one rule of matching, however it is computed."""
    rng = random.Random(seed)
    subscribers = rng.choice([1, 2, 3, 20])
    trie: Trie[int] = Trie()
    pairs: set[tuple[TopicFilter, int]] = set()
    for _ in range(300):
        pair = (random_filter(rng), rng.randint(1, subscribers))
        if rng.random() < 0.6:
            assert trie.add(*pair) == (pair not in pairs)
            pairs.add(pair)
        else:
            assert trie.remove(*pair) == (pair in pairs)
            pairs.discard(pair)
        topic = random_topic(rng)
        assert set(trie.match(topic)) == {who for what, who in pairs if what.matches(topic)}
        assert len(trie) == len(pairs)


class Counted:
    """A subscriber that counts how often it is looked for."""

    looks = 0

    def __hash__(self) -> int:
        self.looks += 1
        return id(self)


def test_filters_that_overlap_cost_what_one_of_them_costs() -> None:
    """2,048 filters of one client select one topic: a lookup is not 2,048 steps (D35)."""
    trie: Trie[Counted] = Trie()
    ways, client, other = list(product("a+", repeat=11)), Counted(), Counted()
    for way in ways:
        trie.add(TopicFilter("/".join(way)), client)
    trie.add(TopicFilter("#"), other)
    client.looks = 0
    assert set(trie.match("/".join("a" * 11))) == {client, other}
    assert client.looks < 100
    for way in ways:
        trie.remove(TopicFilter("/".join(way)), client)
    assert trie.match("/".join("a" * 11)) == (other,)


@pytest.mark.parametrize(
    ("text", "topic", "wanted"),
    [
        ("my-resource/#", "my-resource/some-id", True),
        ("my-resource/#", "my-resource/nested/id", True),
        ("my-resource/nested/#", "my-resource/some-id", False),
        ("my-resource/nested/#", "my-resource/nested/id", True),
        ("sport/#", "sport", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("a/$SYS/+", "a/$SYS/x", True),
        ("a/#", "a/$SYS/x", True),
    ],
)
def test_d33_d34_examples(text: str, topic: str, wanted: bool) -> None:
    """D32, D33, D34, X10; MQTT-4.7.1-1, MQTT-4.7.2-1."""
    trie: Trie[str] = Trie()
    trie.add(TopicFilter(text), "me")
    assert trie.match(topic) == (("me",) if wanted else ())
    assert TopicFilter(text).matches(topic) == wanted


def test_d35_empty_branches_are_pruned() -> None:
    """D35: what is unsubscribed leaves no node behind."""
    trie: Trie[str] = Trie()
    for text in ("a/b/c", "a/+/c/#", "a/b"):
        trie.add(TopicFilter(text), "me")
    for text in ("a/b/c", "a/+/c/#", "a/b"):
        trie.remove(TopicFilter(text), "me")
    assert trie._root.children == {}


def test_a_subscriber_with_two_matching_filters_is_offered_once() -> None:
    """One event, one offer: overlapping filters are merged by the subscriber."""
    bus, me = Bus(), Listener()
    bus.add(TopicFilter("a/+"), me)
    bus.add(TopicFilter("a/#"), me)
    bus.publish(Event("a/b", MESSAGE, b"1"))
    assert len(me.events) == 1
    assert bus.subscriptions == 2


def test_the_cache_forgets_when_subscriptions_change() -> None:
    """A match is never served from before a change, exact or wildcard."""
    bus, one, two = Bus(), Listener(), Listener()
    bus.add(TopicFilter("a/b"), one)
    assert bus.match("a/b") == (one,)
    bus.add(TopicFilter("a/b"), two)
    assert bus.match("a/b") == (one, two)
    bus.remove(TopicFilter("a/b"), one)
    assert bus.match("a/b") == (two,)
    bus.add(TopicFilter("#"), one)
    assert set(bus.match("a/b")) == {one, two}


def test_the_cache_is_bounded() -> None:
    """A publisher of endless new topics does not grow the server."""
    bus = Bus(cached_max=8)
    for number in range(100):
        bus.match(f"a/{number}")
    assert len(bus._cache) <= 8 < limits.MATCH_CACHE_TOPICS_MAX


def test_a_subscriber_that_fails_keeps_nothing_from_the_others(caplog) -> None:
    """C8: its mistake is in the log; neither its neighbours nor the writer pay for it."""
    bus, broken, fine = Bus(), Listener(), Listener()
    broken.offer = lambda _event: 1 / 0
    for listener in (broken, fine):
        bus.add(TopicFilter("a"), listener)
    bus.publish(Event("a", MESSAGE, b"1"))
    assert len(fine.events) == 1
    assert "ZeroDivisionError" in caplog.text


def test_a_run_of_events_is_offered_in_order_to_each(caplog) -> None:
    """M4: those who are away are counted as missing each of them; a failure is nobody else's."""
    bus, broken, fine = Bus(), Listener(), Listener()
    broken.offer = lambda _event: 1 / 0
    for listener in (broken, fine):
        bus.add(TopicFilter("a"), listener)
    away = bus.absences.begin([TopicFilter("+")])
    run = [Event("a", MESSAGE, b"%d" % number) for number in range(3)]
    bus.publish_run(run)
    assert run == fine.events
    assert 3 == away.missed
    assert "ZeroDivisionError" in caplog.text


def test_long_topics_are_matched_and_not_remembered() -> None:
    """A stranger's topics have up to 64 KB each."""
    bus, me = Bus(), Listener()
    bus.add(TopicFilter("#"), me)
    assert bus.match("a" * 60_000) == (me,)
    assert bus._cache == {}
    assert bus.match("a") is bus.match("a")


def test_what_was_never_there_is_not_removed() -> None:
    """Removing says whether it did."""
    bus, me = Bus(), Listener()
    bus.add(TopicFilter("a/b"), me)
    assert not bus.remove(TopicFilter("a/c"), me)
    assert not bus.remove(TopicFilter("a"), me)
    assert not bus.add(TopicFilter("a/b"), me)
    assert bus.remove(TopicFilter("a/b"), me)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Dog/#", True),
        ("#", True),
        ("+/+", True),
        ("Dog/+", True),
        ("+/1", True),
        ("Dog/1", True),
        ("Dog/2", False),
        ("Dog/1/#", True),
        ("Dog", False),
        ("Cat/#", False),
        ("Cat/1", False),
        ("+", False),
    ],
)
def test_who_selects_something_below_a_path_is_found(text: str, found: bool) -> None:
    trie: Trie[str] = Trie()
    trie.add(TopicFilter(text), "me")
    trie.add(TopicFilter("Cat/other"), "other")
    assert trie.match_below("Dog", {"Dog/1"}.__contains__) == (("me",) if found else ())


def test_below_the_root_are_all_topics() -> None:
    trie: Trie[str] = Trie()
    for text, who in (("a", "exact"), ("b", "not"), ("+", "wild")):
        trie.add(TopicFilter(text), who)
    assert set(trie.match_below("", {"a"}.__contains__)) == {"exact", "wild"}
