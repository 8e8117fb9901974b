"""Typed fields of an event in memory: each belongs to whoever declared it."""

from rowcast.core.event_fields import EventField
from rowcast.core.events import PUT, Event


def test_an_event_has_no_field_before_it_is_kept():
    event, field = Event("Dog/1", PUT, b"1"), EventField[int]("size")
    assert ("none", None) == (field.of(event, "none"), event.encodings)
    assert (7, 7) == (field.put(event, 7), field.of(event, "none"))


def test_two_fields_of_one_name_are_two():
    event, mine, theirs = Event("Dog/1", PUT, b"1"), EventField("shown"), EventField("shown")
    mine.put(event, 1)
    theirs.put(event, None)
    assert (1, None) == (mine.of(event, 0), theirs.of(event, 0))


def test_a_field_goes_when_the_event_is_changed():
    event, field = Event("Dog/1", PUT, b"1"), EventField[int]("size")
    field.put(event, 7)
    assert (0, 7) == (field.of(event.changed(payload=b"2"), 0), field.of(event, 0))


def test_a_field_says_what_it_is():
    assert "EventField('size')" == repr(EventField("size"))
