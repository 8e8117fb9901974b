"""What a schema changes in a database, reported before (A13)."""

import pytest
from store_cases import DOG, KEY, Writer, attribute

from rowcast.core.events import PUT
from rowcast.core.tables import Role, Table, Type
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.store.sql_report import schema_changes
from rowcast.store.sqlite import SqlStore

WAS = Table(
    "Dog",
    "Dog",
    (
        KEY,
        attribute("name"),
        attribute("age", Type.INT),
        attribute("toy"),
        attribute("unused"),
    ),
)


@pytest.fixture
def data(tmp_path):
    store = SqlStore(tmp_path)
    store.open([WAS, Table("Cat", "Cat", (KEY, attribute("name"))), Table("Old", "Old", (KEY,))])
    writer = Writer()
    cat = store._parts.tables["Cat"].rows.layout.table
    values = [{"name": "Rex", "age": 3, "toy": "ball", "chip": 7}, {"name": "Max"}, {"age": 5}]
    store.commit([writer.value(WAS, str(n), value) for n, value in enumerate(values)])
    store.commit([writer.value(cat, "1", {"name": "Tom"})])
    store.close()
    return tmp_path / "rowcast.db"


def told(data, *attributes, **more):
    """Return what is reported of the table Dog, with these attributes instead."""
    table = Table("Dog", "Dog", (KEY, *attributes), **more)
    cat, old = Table("Cat", "Cat", (KEY, attribute("name"))), Table("Old", "Old", (KEY,))
    found = schema_changes(data, [table, cat, old])
    return {(change.what, change.safe): change.description for change in found}


SAME = WAS.attributes[1:]


def test_nothing_changes(data):
    assert told(data, *SAME) == {}


def test_topic_tables_are_no_types(data):
    """A13: a server adds entries for topics that no type declares, as for its own."""
    store = SqlStore(data.parent)
    store.open([WAS, Table("Cat", "Cat", (KEY, attribute("name"))), Table("Old", "Old", (KEY,))])
    store.define(TopicTable("mqtt_home", TopicRoot("home")))
    store.close()
    assert told(data, *SAME) == {}


def test_tables_change_their_path(data):
    """A13: records that nobody reaches any more are told, and where others are now."""
    tables = [
        Table("Dog", None, WAS.attributes),
        Table("Cat", "cats", (KEY, attribute("name"))),
        Table("Old", None, (KEY,)),
    ]
    found = schema_changes(data, tables)
    assert ["Dog", "Cat", "Old"] == [change.what for change in found]
    assert [False, True, True] == [change.safe for change in found]
    dog, cat, old = (change.description for change in found)
    assert dog.startswith("no longer exported: its 3 records stay")
    assert cat == "was at Cat, is exported at cats: its 1 records are served there"
    assert old == "no longer exported; it has no records"
    store = SqlStore(data.parent)
    store.open(tables)
    store.close()
    assert schema_changes(data, tables) == []
    dog, _ = schema_changes(data, [WAS, *tables[1:2], Table("Old", "Old", (KEY,))])
    assert dog.description == "was not exported, is exported at Dog: its 3 records are served there"


def test_a_new_database_has_new_tables(tmp_path):
    (change,) = schema_changes(tmp_path / "none.db", [DOG])
    assert (change.what, change.description, change.safe) == ("Dog", "new table", True)


def test_tables_come_and_go(data):
    """A13: records that are no longer served are told with their number."""
    found = schema_changes(data, [WAS, Table("New", "New")])
    assert [(change.what, change.safe) for change in found] == [
        ("New", True), ("Cat", False), ("Old", True),
    ]  # fmt: skip
    assert "1 records stay" in found[1].description


def test_attributes_come_and_go(data):
    """A13: a value that is hidden is lost with the next write of its record."""
    name, age, _, _ = SAME
    found = told(data, name, age, attribute("chip", Type.INT), attribute("toe"))
    assert found == {
        ("Dog.chip", True): "new attribute of type Int",
        ("Dog.toe", True): "new attribute of type String",
        ("Dog.toy", False): (
            "no longer declared: 1 values are hidden, and lost when their records are written"
        ),
        ("Dog.unused", True): "no longer declared; it has no values",
    }


def test_types_are_widened_or_refused(data):
    name, _, toy, _ = SAME
    found = told(data, name, attribute("age", Type.LONG), toy, attribute("unused", Type.INT))
    assert found == {
        ("Dog.age", True): "was Int, is Long; all values stay",
        ("Dog.unused", True): "was String, is Int; all values stay",
    }
    refused = told(data, name, attribute("age", Type.DATE), *SAME[2:])
    assert "its values cannot change type without loss" in refused["Dog.age", False]
    collides = told(data, *SAME, attribute("Toy"))
    assert "do not tell capitals apart" in collides["Dog.Toy", False]


def test_what_becomes_required(data):
    """A13: their next write is refused without it; the server sets what has a role."""
    _, age, toy, unused = SAME
    found = told(
        data,
        attribute("name", required=True),
        age,
        toy,
        unused,
        attribute("chip", Type.INT, required=True),
        attribute("made", Type.DATE, required=True, role=Role.CREATED_TIME),
    )
    lack = "records lack it, and need it at their next write"
    assert found["Dog.name", False] == f"required: 1 {lack}"
    assert found["Dog.chip", False] == f"required: 2 {lack}"
    assert not [what for what, safe in found if what == "Dog.made" and not safe]


def test_a_table_that_is_sealed(data):
    found = told(data, *SAME, sealed=True)
    assert "1 records have undeclared attributes" in found["Dog", False]
    assert told(data, *SAME, attribute("chip", Type.INT), sealed=True) == {
        ("Dog.chip", True): "new attribute of type Int"
    }


def test_a_key_stays(data):
    table = Table("Dog", "Dog", (attribute("id", Type.LONG, primary_key=True), *SAME))
    found = schema_changes(data, [table])
    assert "ids cannot change" in next(it.description for it in found if it.what == "Dog")


def test_what_is_declared_again(data):
    """A13: between, the server has run without it."""
    store = SqlStore(data.parent)
    store.open([Table("Dog", "Dog", (KEY, *SAME[:2]))])
    store.close()
    assert told(data, *SAME)["Dog.toy", True] == "declared again; its values are shown again"


def test_a_new_table_hides_what_was_there(data):
    """A13: records of undeclared topics, which are no records of the table."""
    store = SqlStore(data.parent)
    store.open([WAS])
    writer = Writer(store.head())
    topics = ["Bird/1", "Bird/2/x", "Bird", "Birds/1", "bird/1"]
    store.commit([writer.event(topic, PUT, b"1") for topic in topics])
    store.close()
    bird = Table("Bird", "Bird", (KEY,))
    found = [change for change in schema_changes(data, [WAS, bird]) if change.what == "Bird"]
    assert [True, False] == [change.safe for change in found]
    beside = "2 records of undeclared topics are below Bird/: they stay"
    assert found[1].description.startswith(beside)
    hidden = Table("Bird", None, (KEY,))
    assert ["new table"] == [
        change.description
        for change in schema_changes(data, [WAS, hidden])
        if change.what == "Bird"
    ]
