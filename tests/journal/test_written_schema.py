"""A node that is behind takes each batch under the schema that it was written under (K12, A13)."""

import shutil
import time
from contextlib import closing

import pytest
from store_cases import Writer

from memory_engine import MemoryEngine, Shared
from rowcast.core.errors import Code, Error
from rowcast.journal.node_opening import open_follower, open_sequencer
from rowcast.journal.written_schema import WrittenSchema, begin_term
from rowcast.log.batch import Batch
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore

pytestmark = pytest.mark.heavy

EPOCH = "0123abcd"
DOGS = """
type Dog @table @export { id: ID @primaryKey name: String }
type Cat @table @export { id: ID @primaryKey }
"""
MORE = DOGS.replace("name: String", "name: String age: Int")
CHANGED = {
    "dropped": "type Cat @table @export { id: ID @primaryKey }",
    "moved": DOGS.replace("@export {", '@export(name: "animals/dogs") {', 1),
    "another name": DOGS.replace("type Dog @table", 'type Hound @table(table: "Dog")', 1),
    "not exported": DOGS.replace("@table @export", "@table", 1),
}


class Keeping(MemoryEngine):
    """An engine that lets go of nothing, as there is room for all."""

    def trim(self, until):
        """Keep it."""


class Nodes:
    """The databases of several nodes, and the log of all."""

    def __init__(self, folder):
        self.folder, self.seq = folder, 0
        self.engine = Keeping(Shared(EPOCH))

    def url(self, name):
        return f"sqlite:///{self.folder / name}.db"

    def numbers(self, name, schema, *dogs):
        """Have a node be the sequencer for a while, and write dogs; return its batches."""
        parts = self.url(name), self.engine, time.time, schema
        store = open_sequencer(*parts, made=lambda log: None)
        with closing(store):
            tables = parse_schema(schema).tables
            store.open(tables)
            begin_term(store, schema)
            by_name = {table.name: table for table in tables}
            for dog in dogs:
                writer = Writer(self.seq)
                event = writer.value(by_name["Dog"], dog, {"name": dog})
                self.seq = event.seq
                store.append(store.pack([event]))

    def copy(self, name, to):
        shutil.copy(self.folder / f"{name}.db", self.folder / f"{to}.db")

    def written(self, name, schema):
        return WrittenSchema(self.url(name), self.engine, schema)

    def dogs(self, name):
        """Return the dogs of a node, when they are declared as at first."""
        store, tables = SqlStore(self.url(name)), parse_schema(DOGS).tables
        with closing(store):
            store.open(tables)
            (dog,) = (table for table in tables if table.name == "Dog")
            found = store.lookup([(dog, f"Dog/{each}") for each in ("rex", "ben", "joe")])
        return sorted(topic.removeprefix("Dog/") for topic in found)

    @property
    def last(self):
        return self.engine.bounds()[1]


@pytest.fixture
def nodes(tmp_path):
    """Three nodes with rex, of which one has ben, too."""
    made = Nodes(tmp_path)
    made.numbers("a", DOGS, "rex")
    made.copy("a", "b")
    made.copy("a", "c")
    made.numbers("a", DOGS, "ben")
    return made


@pytest.mark.parametrize("change", CHANGED)
def test_who_becomes_the_sequencer_takes_the_rest_as_it_was_written(nodes, change):
    """A schema is changed at one node after the other, while the last one is written to."""
    schema = CHANGED[change]
    with pytest.raises(Error, match="written under another schema") as caught:
        nodes.numbers("b", schema)
    assert caught.value.code is Code.BUSY
    assert not nodes.written("b", schema).settle(all_of_it=True)
    nodes.numbers("b", schema)
    assert nodes.dogs("b") == ["ben", "rex"]


@pytest.mark.parametrize("change", ["dropped", "moved"])
def test_who_follows_waits_and_takes_the_rest_as_it_was_written(nodes, change):
    schema = CHANGED[change]
    waiting = nodes.written("c", schema)
    assert not waiting.settle()
    assert not waiting.settle()
    nodes.numbers("a", DOGS, "joe")
    nodes.written("b", schema).settle(all_of_it=True)
    nodes.numbers("b", schema)
    assert waiting.settle()
    assert nodes.dogs("c") == ["ben", "joe", "rex"]


def test_a_table_that_was_dropped_and_declared_again_is_the_same_at_all_nodes(nodes):
    """The node that was away meanwhile has its schema all the time."""
    nodes.written("b", CHANGED["moved"]).settle(all_of_it=True)
    nodes.numbers("b", CHANGED["moved"], "animals")
    nodes.numbers("b", DOGS, "joe")
    assert nodes.written("c", DOGS).settle(), "it does not look ahead"
    tables = parse_schema(DOGS).tables
    follower = open_follower(nodes.url("c"), EPOCH, time.time, DOGS)
    told = []
    follower.on_other_schema = lambda: told.append(follower.number)
    with closing(follower):
        follower.open(tables)
        with pytest.raises(Error, match="begins with another schema"):
            for data in nodes.engine.read(follower.number, 1 << 20):
                follower.take(Batch.read(data))
    assert follower.differs
    assert told == [follower.number]
    waiting = nodes.written("c", DOGS)
    waiting.differs = True
    assert waiting.settle()
    assert nodes.dogs("c") == nodes.dogs("b") == ["ben", "joe", "rex"]
    with closing(SqlStore(nodes.url("c"))) as store:
        assert store.applied() == nodes.last


def test_a_sequencer_looks_ahead(nodes):
    """It takes what it lacks when it begins, and nobody looks at each batch of that."""
    nodes.written("b", CHANGED["moved"]).settle(all_of_it=True)
    nodes.numbers("b", CHANGED["moved"])
    nodes.numbers("b", DOGS, "joe")
    assert nodes.written("c", DOGS).settle(all_of_it=True)
    with closing(SqlStore(nodes.url("c"))) as store:
        assert store.applied() == nodes.last


def test_a_change_that_reads_nothing_otherwise_needs_nothing(nodes):
    waiting = nodes.written("c", MORE)
    assert waiting.settle()
    with closing(SqlStore(nodes.url("c"))) as store:
        assert store.applied() < nodes.last
    assert nodes.written("new", MORE).settle(), "it has no tables yet"


def test_a_change_that_would_be_refused_is_refused_at_once(nodes):
    """Not when the node with the former schema has ended already."""
    with pytest.raises(Error, match="refused: ") as caught:
        nodes.written("c", DOGS.replace("name: String", "name: Int")).settle()
    assert caught.value.code is Code.INVALID


def test_a_table_that_was_dropped_long_ago_is_nothing_that_changes(nodes):
    nodes.numbers("a", CHANGED["dropped"])
    nodes.copy("a", "c")
    nodes.numbers("a", CHANGED["dropped"])
    more = CHANGED["dropped"].replace("@primaryKey", "@primaryKey name: String")
    assert nodes.written("c", more).settle()


def test_terms_of_one_schema_say_it_once(nodes):
    """Its text may be large, and there may be many terms."""
    said = [b"type Dog" in data for data in nodes.engine.read(0, 1 << 20)]
    assert said == [True, *([False] * (len(said) - 1))]
