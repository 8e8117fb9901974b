"""What an idle reader holds: nothing that it has not needed yet."""

from sys import getsizeof

import pytest

from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.subscribed_filters import SubscribedFilter, SubscribedFilters
from subscription_world import World

DEQUE_BYTES = 500
"""An empty deque has a block for 64 items; what is idle must not hold one."""


def held(thing, seen=None):
    """Return the containers that an object holds, directly or by objects of the project."""
    seen = set() if seen is None else seen
    found = []
    for name in getattr(type(thing), "__slots__", ()) or vars(thing):
        item = getattr(thing, name, None)
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, list | dict | set) or hasattr(item, "popleft"):
            found.append(item)
        elif type(item).__module__.startswith("rowcast.subscriptions") and "Reader" not in str(
            type(item).__mro__
        ):
            found += held(item, seen)
    return found


@pytest.mark.interpreted
async def test_an_idle_subscription_holds_no_queue_of_blocks():
    """Ten thousand of them wait for a message."""
    world = World()
    world.watch("Dog/#", 1, current=False)
    await world.settle()
    found = held(world.subscription)
    assert found
    assert max(map(getsizeof, found)) < DEQUE_BYTES


def test_one_filter_alone_needs_no_cache_of_topics():
    """The cache is made with the first topic that is matched, and is that subscription's own."""
    one, other = SubscribedFilters(topics_cached=2), SubscribedFilters()
    one.put(SubscribedFilter(TopicFilter("a/#")))
    assert one.only is not None
    one.put(SubscribedFilter(TopicFilter("a/b")))
    event = Event("a/b", MESSAGE, b"")
    assert one.wanting(event, "") is one.wanting(event, "")
    assert () == other.matching("a/b")
    assert 2 == len(one.matching("a/b"))
    for number in range(5):
        one.matching(f"a/{number}")
    assert len(one._by_topic) <= 2
