"""What readers miss who are away (M4)."""

from rowcast.bus.bus import Bus
from rowcast.bus.missed_while_offline import MissedWhileOffline
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter


def said(topic, seq=0):
    event = Event(topic, MESSAGE, b"")
    event.seq = seq
    return event


def filters(*texts):
    return [TopicFilter(text) for text in texts]


def test_each_counts_from_its_own_beginning():
    """Readers with the same filters share one count."""
    absences = MissedWhileOffline()
    one = absences.begin(filters("a/+", "#"))
    absences.miss(said("a/1"))
    two = absences.begin(filters("#", "a/+"))
    absences.miss(said("a/2"))
    absences.miss(said("b"))
    assert 1 == len(absences)
    assert (2, 3) == (absences.end(two), absences.end(one))
    assert 0 == len(absences)


def test_only_what_the_filters_select_and_is_not_logged():
    bus = Bus()
    away = bus.absences.begin(filters("a"))
    for event in (said("a"), said("b"), said("a", 7)):
        bus.publish(event)
    assert 1 == away.missed


def test_a_reader_may_have_a_count_of_its_own():
    absences = MissedWhileOffline()
    own = absences.begin(filters("#"), lambda event: event.topic != "hidden")
    shared = absences.begin(filters("#"))
    for topic in ("hidden", "a"):
        absences.miss(said(topic))
    assert (1, 2) == (own.missed, shared.missed)


def test_who_is_away_needs_no_memory_for_filters_that_are_entered():
    absences = MissedWhileOffline()
    one, other = (absences.begin(filters(f"{name}/+")).absence for name in "ab")
    assert not one.entering
    assert one.entering is other.entering
    assert one._wild is other._wild
