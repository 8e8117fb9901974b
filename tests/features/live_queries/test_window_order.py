"""The order behind a window, against a list of all records (M3)."""

import random

import pytest

from rowcast.core.evaluation import order_key
from rowcast.core.events import PUT, Event
from rowcast.core.queries import Sort
from rowcast.core.query_windows import Extent
from rowcast.features.live_queries.window_order import Entry, WindowOrder
from rowcast.subscriptions.live_query import Step

SORT = (Sort(("v",), descending=True),)


def entry(name, value, size=10):
    record = Event(f"T/{name}", PUT, b"x" * size)
    return Entry(order_key(SORT, {"v": value}, name), record)


def topics(entries):
    return [item.record.topic for item in entries]


@pytest.mark.slow
def test_m3_a_window_is_told_exactly_or_not_at_all():
    """M3: while it is known, its steps make it the first records of all; else it says so."""
    assert sum(times_unknown(seed) for seed in range(60))


def times_unknown(seed):
    """Follow a random window; return how often it was not known."""
    chance = random.Random(seed)
    begin = chance.choice((0, 0, 2))
    extent = Extent(begin, begin + chance.randint(0, 4))
    every = {name: entry(name, chance.choice((None, 1, 2, 3))) for name in range(20)}
    unknown = 0

    def ordered():
        return sorted(every.values(), key=lambda item: item.key)

    def known():
        first = ordered()[: extent.end + 3]
        return WindowOrder(extent, first, first[-1].key, extent.end + 5, bytes_max=100)

    order = known()
    held = topics(order.window)
    for _ in range(300):
        name = chance.randrange(20)
        new = entry(name, chance.choice((None, 1, 2, 3))) if chance.random() < 0.7 else None
        every.pop(name, None)
        every |= {} if new is None else {name: new}
        steps = order.take(f"T/{name}", new)
        if steps is None:
            unknown += 1
            if len(every) < extent.end + 3:
                break
            order = known()
            held = topics(order.window)
            continue
        for step, record in steps:
            assert (step is not Step.ENTER) == (record.topic in held)
            held = [topic for topic in held if topic != record.topic]
            held += [] if step is Step.LEAVE else [record.topic]
        assert sorted(held) == sorted(topics(ordered()[extent.begin : extent.end]))
        assert topics(order.window) == topics(ordered()[extent.begin : extent.end])
    return unknown


def test_m3_spare_records_are_bounded_in_bytes():
    """M3: those of the window are kept; whether they fit is told."""
    some = [entry(name, 100 - name, size=40) for name in range(5)]
    order = WindowOrder(Extent(0, 2), some, None, 5, bytes_max=100)
    assert (True, True, False) == (order.fits, order.reaches(2), order.reaches(3))
    assert [] == order.take("T/9", entry(9, 1, size=40))
    assert not WindowOrder(Extent(0, 3), some, None, 5, bytes_max=100).fits
    assert order.take("T/0", None) is None
