"""Results cached with an event in memory: each belongs to the module that declared it."""

from rowcast.core.event_cache import EventCache
from rowcast.core.events import PUT, Event


def test_an_event_has_no_result_before_it_is_cached():
    event, cache = Event("Dog/1", PUT, b"1"), EventCache[int]("size")
    assert ("none", None) == (cache.of(event, "none"), event.encodings)
    assert (7, 7) == (cache.put(event, 7), cache.of(event, "none"))


def test_two_caches_of_one_name_are_two():
    event, mine, theirs = Event("Dog/1", PUT, b"1"), EventCache("shown"), EventCache("shown")
    mine.put(event, 1)
    theirs.put(event, None)
    assert (1, None) == (mine.of(event, 0), theirs.of(event, 0))


def test_a_result_goes_when_the_event_is_changed():
    event, cache = Event("Dog/1", PUT, b"1"), EventCache[int]("size")
    cache.put(event, 7)
    assert (0, 7) == (cache.of(event.changed(payload=b"2"), 0), cache.of(event, 0))


def test_a_cache_says_what_it_is():
    assert "EventCache('size')" == repr(EventCache("size"))
