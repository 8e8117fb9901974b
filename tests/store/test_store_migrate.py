"""A schema may change; what was stored under the old one is not lost."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from conformance_queries import ALL, where
from store_cases import DOG, KEY, Writer, attribute

from rowcast.core.conditions import Operator
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT
from rowcast.core.queries import Query, Sort
from rowcast.core.tables import Table, Type
from rowcast.core.topics import TopicFilter


def changed(*attributes, table=DOG, **more):
    return replace(table, attributes=(KEY, *attributes), **more)


def test_new_attribute_takes_its_values_out_of_the_undeclared(place):
    """A13: an addition loses nothing, and SQL sees the old values in the new column."""
    before = changed(attribute("name"))
    writer = Writer()
    store = place.start([before])
    values = [
        {"name": "x", "age": 5, "born": "2020-01-01T00:00:00Z", "rest": [1]},
        {"age": None},
        {"age": "old"},
        {},
    ]
    store.commit([writer.value(before, str(n), value) for n, value in enumerate(values)])
    after = changed(
        attribute("name"), attribute("age", Type.INT, required=True), attribute("born", Type.DATE)
    )
    store = place.start([after])
    assert place.sql("SELECT age,born,_extra FROM Dog ORDER BY id") == [
        (5, "2020-01-01T00:00:00.000000Z", '{"rest":[1]}'),
        (None, None, '{"age":null}'),
        (None, None, '{"age":"old"}'),
        (None, None, None),
    ]
    found = [record.decoded for record in store.scan(after, TopicFilter("#"), "", ALL).records]
    assert [value.get("age") for value in found] == [5, None, "old", None]
    assert found[0]["born"].year == 2020
    assert store.matching(after, where("age", Operator.EQ, 5)) == 1


def test_many_rows_are_moved(place):
    place.limits = {"working_rows": 7}
    before, after = changed(attribute("name")), changed(attribute("age", Type.INT))
    writer = Writer()
    events = [writer.value(before, f"{n:02}", {"age": n, "name": "x"}) for n in range(30)]
    place.start([before]).commit(events)
    store = place.start([after])
    assert store.matching(after, where("age", Operator.GE, 10)) == 20


def test_open_table_may_get_attributes(place):
    before = Table("Dog", "Dog")
    writer = Writer()
    store = place.start([before])
    raw = writer.event("Dog/raw", PUT, b"\xff", before, content_type="image/png")
    store.commit([writer.value(before, "a", {"age": 5, "x": 1}), raw])
    after = changed(attribute("age", Type.INT))
    store = place.start([after])
    assert store.get(after, "Dog/a").decoded == {"id": "a", "age": 5, "x": 1}
    assert store.get(after, "Dog/raw").payload == b"\xff"
    by_key = Query(sort=(Sort(("id",)),))
    assert [r.topic for r in store.search(after, by_key).records] == ["Dog/a", "Dog/raw"]
    assert store.matching(after, where("id", Operator.EQ, "raw")) == 0


def test_table_may_become_open(place):
    before, after = changed(attribute("age", Type.INT)), Table("Dog", "Dog", (KEY,))
    place.start([before]).commit([Writer().value(before, "a", {"age": 5, "x": 1})])
    store = place.start([after])
    assert store.get(after, "Dog/a").decoded == {"id": "a", "x": 1}
    assert store.matching(after, where("id", Operator.EQ, "a")) == 1
    store = place.start([before])
    assert store.get(before, "Dog/a").decoded == {"id": "a", "age": 5, "x": 1}


def test_dropped_attribute_keeps_its_values_until_the_next_write(place):
    before, after = changed(attribute("age", Type.INT)), changed(attribute("name"))
    writer = Writer()
    place.start([before]).commit([writer.value(before, key, {"age": 5}) for key in "ab"])
    store = place.start([after])
    assert store.get(after, "Dog/a").decoded == {"id": "a"}
    store.commit([writer.value(after, "b", {"name": "B"})])
    store = place.start([before])
    assert store.get(before, "Dog/a").decoded == {"id": "a", "age": 5}
    assert store.get(before, "Dog/b").decoded == {"id": "b"}


@pytest.mark.parametrize(
    ("old", "new"), [(Type.INT, Type.LONG), (Type.INT, Type.FLOAT), (Type.OBJECT, Type.ANY)]
)
def test_type_may_widen(place, old, new):
    value = {"x": 1} if old is Type.OBJECT else 7
    before, after = changed(attribute("a", old)), changed(attribute("a", new))
    place.start([before]).commit([Writer().value(before, "a", {"a": value})])
    assert place.start([after]).get(after, "Dog/a").decoded["a"] == value


@pytest.mark.parametrize(
    ("old", "new"), [(Type.STRING, Type.INT), (Type.LONG, Type.INT), (Type.DATE, Type.STRING)]
)
def test_type_that_narrows_is_refused(place, old, new):
    """A13: table, attribute, both types and what to do; the old table stays as it is."""
    before = changed(attribute("a", old), attribute("z"))
    value = {Type.STRING: "x", Type.LONG: 7, Type.DATE: datetime(2026, 1, 31, tzinfo=UTC)}[old]
    place.start([before]).commit([Writer().value(before, "a", {"a": value})])
    with pytest.raises(Error) as caught:
        place.start([changed(attribute("new"), attribute("a", new))])
    assert caught.value.code is Code.INVALID
    assert f"Dog.a was {old} and is now {new}" in caught.value.message
    assert "new" not in {row[1] for row in place.sql("PRAGMA table_info(Dog)")}
    place.start([changed(attribute("a", old), attribute("z"))])


@pytest.mark.parametrize("step", [1, 2_000])
def test_p5_a_type_that_did_not_fit_is_taken_back(place, step):
    """What was undeclared and is declared wrongly is kept, also what came meanwhile."""
    place.limits = {"working_rows": step}
    before, wrong = changed(attribute("name")), changed(attribute("size", Type.INT, indexed=True))
    right = changed(attribute("size", indexed=True))
    writer = Writer()
    values = [{"size": "large"}, {"size": 5}, {"size": "7"}, {"rest": 1}]
    store = place.start([before])
    store.commit([writer.value(before, str(n), value) for n, value in enumerate(values)])
    place.start([wrong]).commit([writer.value(wrong, "9", {"size": 9, "rest": 2})])
    store = place.start([right])
    found = [record.decoded for record in store.scan(right, TopicFilter("#"), "", ALL).records]
    assert [{"id": str(n), **value} for n, value in enumerate(values)] == found[:4]
    assert {"id": "9", "size": 9, "rest": 2} == found[4]
    assert ["large", None, "7", None, None] == [
        row[0] for row in place.sql("SELECT size FROM Dog ORDER BY id")
    ]
    assert 1 == store.matching(right, where("size", Operator.EQ, "7"))
    store.commit([writer.value(right, "1", {"size": "5"})])
    assert {"id": "1", "size": "5"} == store.get(right, "Dog/1").decoded


def test_p5_what_was_taken_back_fits_and_stays(place):
    text, number = changed(attribute("size")), changed(attribute("size", Type.INT))
    bare = changed(attribute("name"))
    place.start([bare]).commit([Writer().value(bare, "a", {"size": "large"})])
    place.start([number])
    place.start([text])
    with pytest.raises(Error, match="was String and is now Int"):
        place.start([number])
    assert "large" == place.start([text]).get(text, "Dog/a").decoded["size"]


def test_p5_the_type_of_an_empty_column_may_change(place):
    before, after = changed(attribute("a", Type.INT)), changed(attribute("a", Type.BOOLEAN))
    writer = Writer()
    place.start([before]).commit([writer.value(before, "a", {"rest": 1})])
    store = place.start([after])
    store.commit([writer.value(after, "b", {"a": True})])
    assert [{"id": "a", "rest": 1}, {"id": "b", "a": True}] == [
        item.decoded for item in store.scan(after, TopicFilter("#"), "", ALL).records
    ]


def test_another_key_is_refused(place):
    place.start([DOG])
    other = replace(DOG, attributes=(attribute("n", Type.INT, primary_key=True),))
    with pytest.raises(Error, match="the key of the table Dog was id"):
        place.start([other])


def test_indexes_come_and_go_with_the_schema(place):
    text = "SELECT name FROM sqlite_master WHERE name LIKE 'rowcast_by.Dog.%' ORDER BY name"
    place.start([changed(attribute("a", indexed=True), attribute("b"))])
    assert place.sql(text) == [("rowcast_by.Dog._expires",), ("rowcast_by.Dog.a",)]
    place.start([changed(attribute("a"), attribute("b", indexed=True))])
    assert place.sql(text) == [("rowcast_by.Dog._expires",), ("rowcast_by.Dog.b",)]


def test_history_follows_a_table_to_its_new_path(place):
    """A7: the export name may change; records and events move along."""
    place.start([DOG]).commit([Writer().value(DOG, "a", {})])
    moved = replace(DOG, path="pets/Hound")
    store = place.start([moved])
    assert store.get(moved, "pets/Hound/a").topic == "pets/Hound/a"
    assert store.read(0, 1)[0].topic == "pets/Hound/a"


def test_events_of_a_dropped_table_stay_readable(place):
    place.start([DOG]).commit([Writer().value(DOG, "a", {})])
    (event,) = place.start([]).read(0, ALL)
    assert (event.table, event.topic) == (None, "Dog/a")


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ([replace(DOG, name="rowcast_log")], "belong to the store"),
        ([DOG, replace(DOG, name="DOG")], "capitals"),
        ([changed(attribute("name"), attribute("Name"))], "capitals"),
        ([changed(attribute("_seq"))], "belong to the store"),
        ([changed(attribute("ID"))], "capitals"),
    ],
)
def test_names_that_sql_cannot_tell_apart_are_refused(place, tables, words):
    with pytest.raises(Error, match=words) as caught:
        place.start(tables)
    assert caught.value.code is Code.INVALID


def test_new_column_must_differ_from_a_former_one(place):
    place.start([changed(attribute("name"))])
    with pytest.raises(Error, match="former 'name'"):
        place.start([changed(attribute("NAME"))])


def test_table_that_somebody_else_made_is_refused(place):
    place.start([])
    place.close()
    with closing(sqlite3.connect(place.path)) as connection, connection:
        connection.execute("CREATE TABLE dog (x)")
    with pytest.raises(Error, match="already has 'dog'"):
        place.start([DOG])


def test_attribute_called_id_that_is_not_the_key(place):
    table = Table("Thing", "Thing", (attribute("id"), attribute("metadata"), attribute("class")))
    value = {"id": "mine", "metadata": "m", "class": "c"}
    store = place.start([table])
    store.commit([Writer().value(table, "key", value)])
    assert store.get(table, "Thing/key").decoded == value
    assert place.sql("SELECT _id,id,metadata,class FROM Thing") == [("key", "mine", "m", "c")]


def test_value_that_is_no_object_stays_as_it_came(place):
    before, after = Table("Dog", "Dog"), changed(attribute("age", Type.INT))
    place.start([before]).commit([Writer().value(before, "a", [1, 2])])
    assert place.start([after]).get(after, "Dog/a").payload == b"[1,2]"


def test_table_without_a_key_moves_values_too(place):
    before = Table("Thing", "Thing", (attribute("name"),))
    after = Table("Thing", "Thing", (attribute("name"), attribute("age", Type.INT)))
    place.start([before]).commit([Writer().value(before, "a", {"age": "x"})])
    assert place.start([after]).get(after, "Thing/a").decoded == {"age": "x"}
