"""Callers, errors, events, tables and suggestions: the small words."""

import pytest

from rowcast.core.callers import ALL, NONE, SERVER, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MISSING, PUT, Event, local_id
from rowcast.core.suggestions import did_you_mean, nearest
from rowcast.core.tables import Attribute, Table, Type

DOG = Table("Dog", "farm/Dog")
ROOT = Table("Rest", "")


def test_callers_are_compared_by_identity():
    assert Caller() != Caller()
    assert (ALL, NONE) == (SERVER.grants, Caller().grants)


def test_an_error_shows_its_code_and_sentence():
    error = Error(Code.CONFLICT, "another writer was first", cursor="3f9a1c2e:7")
    assert "Error(CONFLICT, 'another writer was first')" == repr(error)
    assert ({"cursor": "3f9a1c2e:7"}, "another writer was first") == (error.detail, str(error))


def test_an_event_shows_its_beginning():
    event = Event("Dog/1", PUT, b"{}", seq=7)
    assert "Event(put 'Dog/1' seq=7 b'{}')" == repr(event)
    assert (MISSING, None) == (event.decoded, event.encodings)


def test_two_events_are_the_same_by_their_fields():
    one = Event("farm/Dog/1", PUT, b"{}", table=DOG, decoded={})
    other = Event("farm/Dog/1", PUT, b"{}", table=DOG)
    assert one.fields == other.fields
    assert one.fields != Event("farm/Dog/1", PUT, b"{}").fields


@pytest.mark.parametrize(
    ("table", "topic", "expected"),
    [(DOG, "farm/Dog/1/a", "1/a"), (DOG, "farm/Dog", ""), (ROOT, "a/b", "a/b"), (None, "a", "a")],
)
def test_the_id_within_a_table(table, topic, expected):
    assert expected == local_id(table, topic)


@pytest.mark.parametrize(("table", "topic"), [(DOG, "farm/Dog/1/a"), (ROOT, "1/a")])
def test_the_topic_of_an_id(table, topic):
    assert topic == table.topic("1/a")


KEY = Attribute("id", Type.ID, primary_key=True)
NAME = Attribute("name", Type.STRING, hidden=True)


@pytest.mark.parametrize(
    ("attributes", "sealed", "expected"),
    [((), False, True), ((KEY,), False, True), ((), True, False), ((KEY, NAME), False, False)],
)
def test_an_open_table_declares_nothing_but_a_key(attributes, sealed, expected):
    """A8."""
    assert expected == Table("T", "T", attributes, sealed=sealed).open


def test_attributes_of_a_table():
    table = Table("T", "T", (KEY, NAME))
    assert (KEY, NAME, None) == (
        table.primary_key,
        table.attribute("name"),
        table.attribute("colour"),
    )
    assert (True, False) == (table.hides, Table("T", "T", (KEY,)).hides)


@pytest.mark.parametrize(
    ("word", "expected"), [("colour", "color"), ("COLOR", "color"), ("zzz", ""), ("", "")]
)
def test_the_nearest_word(word, expected):
    assert expected == nearest(word, ["size", "color"])


def test_the_end_of_a_sentence():
    assert ('; did you mean "color"?', "") == (
        did_you_mean("colour", ["color"]),
        did_you_mean("zzz", ["color"]),
    )
