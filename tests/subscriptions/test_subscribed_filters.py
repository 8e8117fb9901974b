"""The filters of a subscription: many are found as few are, and caches stay small."""

import random

import pytest

from build import ANN, Server
from calls import Calls
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.rows.topic_rows import LogView, RowFilter
from rowcast.subscriptions.event_queue import EventQueue
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.subscribed_filters import SubscribedFilter, SubscribedFilters
from rowcast.subscriptions.subscription import Subscription

LEVELS = ("a", "b", "+", "#", "$SYS")
VIEWS = [LogView(TopicTable(f"mqtt_{name}", TopicRoot(name))) for name in ("a", "b", None)]


def made(text, **options):
    return SubscribedFilter(TopicFilter(text), **options)


def some_filter(rng):
    levels = [rng.choice(LEVELS[:3]) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.2:
        levels[-1] = "#"
    if rng.random() < 0.1:
        levels[0] = "$SYS"
    return "/".join(levels)


def some_rows(rng):
    """Return a filter of rows; some select none."""
    view = rng.choice(VIEWS)
    name = view.table.name
    interest = made(rng.choice((f"{name}/+", f"{name}/#", f"{name}/x/y", "+/#", "#")))
    if rng.random() < 0.8:  # else its table is gone
        interest.rows = RowFilter(view, interest.topics)
    return interest


def some_topic(rng):
    first = rng.choice(("a", "b", "$SYS"))
    return "/".join([first, *(rng.choice("ab") for _ in range(rng.randint(0, 3)))])


def found(filters, topic):
    return [item.topics.text for item in filters.matching(topic)]


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_an_index_finds_what_a_comparison_with_each_filter_finds(seed, rows):
    rng = random.Random(seed)
    plain, indexed = SubscribedFilters(indexed_min=1_000), SubscribedFilters(indexed_min=2)
    for _ in range(200):
        text, topic = some_filter(rng), some_topic(rng)
        interest = some_rows(rng) if rows and rng.random() < 0.3 else made(text)
        gone = rng.choice([interest.topics.text, *(item.topics.text for item in plain)])
        removes = len(plain) > 30 or rng.random() < 0.2
        for filters in (plain, indexed):
            if removes:
                filters.pop(gone)
            filters.put(interest)
        assert [item.topics.text for item in plain] == [item.topics.text for item in indexed]
        assert found(plain, topic) == found(indexed, topic)


def test_a_filter_of_rows_has_no_topic_compared_with_all_others():
    """P3: or each event would wait for a reader of ten thousand filters."""
    filters = SubscribedFilters(indexed_min=2)
    rows = made("mqtt_a/+")
    rows.rows = RowFilter(VIEWS[0], rows.topics)
    for interest in (*(made(f"b/{number}") for number in range(100)), rows):
        filters.put(interest)
    with Calls() as calls:
        assert ["mqtt_a/+"] == found(filters, "a/x")
    assert calls.by_function["core/topics.py:TopicFilter.matches"] <= 1


def test_a_filter_is_found_as_it_was_asked_for():
    """D54, G5: as many as a hook made of it, until each is gone or is another."""
    filters = SubscribedFilters()
    several = [made("a"), made("b"), made("c")]
    for interest in several:
        interest.asked = "x"
        filters.put(interest)
    assert (several, []) == (filters.asked_as("x"), filters.asked_as("a"))
    filters.pop("a")
    again = made("b")
    again.asked = "y"
    filters.put(again)
    assert ([several[2]], [again]) == (filters.asked_as("x"), filters.asked_as("y"))
    filters.pop("b")
    filters.pop("c")
    assert [[], []] == [filters.asked_as(text) for text in "xy"]


def test_what_is_queued_for_others_is_not_looked_up_again_when_a_filter_goes():
    """P3: or the end of thousands of filters takes minutes, with a full queue."""
    filters, queue = SubscribedFilters(), EventQueue()
    for number in range(3):
        filters.put(made(f"{number}/#"))
    merged = filters.as_one((filters["0/#"], filters["1/#"]))
    kept = [Event(f"0/{number}", MESSAGE, b"x") for number in range(50)]
    marks = [Gap(GapCause.SLOW, 1, merged), Gap(GapCause.SLOW, 1, filters["1/#"])]
    queue.events = [*kept, Event("1/a", MESSAGE, b"yy"), *marks]
    removed = filters.pop("1/#")
    with Calls() as calls:
        queue.discard(removed, filters)
    assert ([*kept, marks[0]], 50) == (queue.events, queue.bytes)
    assert "0/#" == marks[0].interest.topics.text
    assert calls.by_function["subscriptions/subscribed_filters.py:SubscribedFilters.matching"] <= 1


def test_an_event_of_many_filters_has_the_options_of_all():
    filters = SubscribedFilters(indexed_min=2)
    for number in range(1, 5):
        filters.put(made("/".join(["+"] * number), identifiers=(number,)))
        filters.put(made("/".join(["a"] * number), qos=number % 3, identifiers=(10 + number,)))
    event = Event("a/a", MESSAGE, b"x")
    interest = filters.wanting(event, "me")
    assert (2, (2, 12)) == (interest.qos, interest.identifiers)
    assert interest is filters.wanting(event, "me")


def test_its_own_message_is_withheld_from_a_filter_without_local_ones():
    filters = SubscribedFilters()
    filters.put(made("a/+", no_local=True, qos=2))
    filters.put(made("a/#", qos=1))
    event = Event("a/b", MESSAGE, b"x", client="me")
    assert (1, 2) == tuple(filters.wanting(event, who).qos for who in ("me", "other"))


def test_what_is_remembered_of_topics_that_match_many_filters_is_bounded():
    filters = SubscribedFilters(topics_cached=1_000, matches_cached=50)
    for number in range(10):
        filters.put(made(f"a/{number}/#"))
        filters.put(made(f"+/{number}/#"))
    for number in range(100):
        filters.wanting(Event(f"a/{number % 10}/{number}", MESSAGE, b"x"), "")
        held = sum(map(len, (*filters._by_topic.values(), *filters._by_set)))
        assert 0 < held <= 50


async def test_a_hand_over_ends_where_it_has_many_matches():
    """P2: an event may match ten thousand filters of one reader."""
    room = Server()
    live = Subscription(room.reader, "many")
    for number in range(9):
        text = "/".join("+" if number & 1 << level else "m" for level in range(4))
        room.kernel.watch(live, SubscribedFilter(TopicFilter(text)), ANN, current=False)
    live.take(99)  # marks
    live.progress.take_matches = 15
    for _ in range(4):
        room.bus.publish(Event("m/m/m/m", MESSAGE, b"1"))
    taken = []
    while live.ready:
        taken.append(len(live.take(99)))
    assert [2, 2] == taken[:2]
