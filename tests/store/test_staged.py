"""Staged results in the tables: unseen, then seen whole at once, then moved without being noticed.

Each state is compared with a store to which the same events were committed in the plain way.
"""

import gc
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from store_cases import DOG, NUMBER, TABLES, Writer

from rowcast.core.conditions import Condition, Operator
from rowcast.core.facts import Change
from rowcast.core.queries import Query
from rowcast.core.tables import Attribute, Type
from rowcast.core.topics import TopicFilter
from rowcast.core.write_marks import ORIGIN
from rowcast.journal.applier import restorer
from rowcast.store.read_transaction import open_read_transaction
from rowcast.store.rewind import rewind
from rowcast.store.sql_commit import Share
from rowcast.store.sqlite import SqlStore

AFTER = 1_000_000
"""After which the staged numbers are."""
EVERY = TopicFilter("Dog/#")
LEFT = "SELECT 1 FROM sqlite_master WHERE name GLOB '*staged*'"
COUNTED = "SELECT records FROM rowcast_tables WHERE name='Dog'"


def put(table, key, seq, **more):
    return Writer(seq - 1).value(table, key, more)


def deleted(table, key, seq):
    return Writer(seq - 1).delete(table.topic(key), table)


def opened(path, **options):
    store = SqlStore(path, synced=False, **options)
    store.open(TABLES)
    return store


@pytest.fixture
def stores(tmp_path):
    """The store that writes, and one that follows what it writes, as a server's readers do."""
    writes = opened(tmp_path / "rowcast.db")
    reads = opened(tmp_path / "rowcast.db", lock=False)
    reads.follow_writer()
    yield writes, reads
    reads.close()
    writes.close()


EARLIER = [put(DOG, key, seq, age=seq) for seq, key in enumerate(("a", "b", "c", "d"), 1)]


def result(first=AFTER):
    """What a result writes: a new record, a changed one, and a deletion."""
    return [
        put(DOG, "b", first + 1, age=20),
        deleted(DOG, "c", first + 2),
        put(DOG, "new", first + 3, age=30),
    ]


def seen(store):
    """Return what every kind of read says."""
    aged = Query(Condition(("age",), Operator.GE, 3), limit=9)
    return {
        "scan": [(one.topic, one.seq) for one in store.scan(DOG, EVERY, "", 9).records],
        "page": [one.topic for one in store.scan(DOG, EVERY, "Dog/a", 2).records],
        "search": [one.topic for one in store.search(DOG, aged).records],
        "matching": store.matching(DOG, aged),
        "get": [getattr(store.get(DOG, f"Dog/{key}"), "seq", None) for key in ("b", "c", "new")],
        "lookup": sorted(store.lookup([(DOG, f"Dog/{key}") for key in ("a", "b", "c", "new")])),
        "log": [one.seq for one in store.read(0, 99, [DOG])],
        "whole": [one.seq for one in store.read(0, 99)],
        "back": [one.seq for one in store.read_back(2**62, 2, [DOG])],
        "history": [one.seq for one in store.history(DOG, "Dog/b", 9)],
        "follow": [one.seq for one in store.follow(DOG, "Dog/b", 2, 9)],
        "change": getattr(store.change(DOG, "Dog/c", 2**62), "seq", None),
        "head": store.scan(DOG, EVERY, "", 1).position,
        "count": store.count(DOG),
    }


def cut(path):
    """Return what a program reads that opens the file."""
    with open_read_transaction(path) as read:
        records = [one.topic for some in read.records(DOG) for one in some]
        log = [one.seq for some in read.log([DOG]).of_table(DOG, 0, read.seq) for one in some]
        return read.seq, records, log


def reference(tmp_path, *batches):
    store = opened(tmp_path / "other.db")
    for events in batches:
        store.commit(events)
    told, path = seen(store), cut(tmp_path / "other.db")
    store.close()
    return told, path


def test_a_staged_result_is_unseen_and_then_seen_whole_by_every_read(stores, tmp_path):
    writes, reads = stores
    writes.commit(EARLIER)
    before = reference(tmp_path, EARLIER)
    (tmp_path / "other.db").unlink()
    after = reference(tmp_path, EARLIER, result())
    for event in result():
        writes.stage(DOG, AFTER, ([event], ()))
        assert (seen(reads), cut(writes.path)) == before
    writes.switch(AFTER + 3, [(DOG, 3, 30)])
    assert (seen(reads), cut(writes.path)) == after
    while writes.move_staged(1):
        assert (seen(reads), cut(writes.path)) == after
    assert (seen(reads), cut(writes.path)) == after
    assert 4 == writes.count(DOG)
    with closing(sqlite3.connect(writes.path)) as file:  # nothing is left beside the table
        assert (
            [] == file.execute("SELECT 1 FROM sqlite_master WHERE name GLOB '*staged*'").fetchall()
        )
        assert (
            4 == file.execute("SELECT records FROM rowcast_tables WHERE name='Dog'").fetchone()[0]
        )


@pytest.mark.parametrize("moves", [0, 1, 9])
def test_a_record_that_a_result_has_deleted_is_new_when_it_is_written_again(stores, moves):
    """The writer knows the keys that it wrote: not those that a result has deleted since."""
    writes, _ = stores
    writes.commit(EARLIER)
    writes.stage(DOG, AFTER, (result(), ()))
    writes.switch(AFTER + 3, [(DOG, 3, 30)])
    for _ in range(moves):
        writes.move_staged(1)
    again = [put(DOG, key, AFTER + at) for at, key in enumerate(("a", "b", "c", "new"), 11)]
    assert [True, True, False, True] == writes.commit(again)
    while writes.move_staged(9):
        pass
    assert 5 == writes.count(DOG)


def test_writes_between_the_switch_and_the_moves_are_later_than_the_result(stores, tmp_path):
    writes, reads = stores
    writes.commit(EARLIER)
    writes.stage(DOG, AFTER, (result(), ()))
    meanwhile = [put(DOG, "d", 9, age=9), put(NUMBER, 7, 10)]
    writes.commit(meanwhile)  # and between the first page and the switch
    writes.switch(AFTER + 3, [(DOG, 3, 30)])
    later = [
        put(DOG, "c", AFTER + 11, age=1),
        deleted(DOG, "new", AFTER + 12),
        put(DOG, "e", AFTER + 13, age=5),
    ]
    writes.commit(later)
    expected = reference(tmp_path, EARLIER, meanwhile, result(), later)
    assert (seen(reads), cut(writes.path)) == expected
    while writes.move_staged(1):
        assert (seen(reads), cut(writes.path)) == expected
    assert (seen(reads), cut(writes.path)) == expected
    assert 5 == writes.count(DOG)


def test_a_result_that_is_never_switched_is_swept(stores, tmp_path):
    writes, reads = stores
    writes.commit(EARLIER)
    before = seen(reads)
    writes.stage(DOG, AFTER, (result(), ()))
    writes.abandon()
    assert before == seen(reads)
    while writes.move_staged(1):
        assert before == seen(reads)
    assert before == seen(reads)
    with closing(sqlite3.connect(writes.path)) as file:
        assert 4 == file.execute("SELECT count(*) FROM rowcast_log").fetchone()[0]
        assert (
            [] == file.execute("SELECT 1 FROM sqlite_master WHERE name GLOB '*staged*'").fetchall()
        )
    writes.stage(DOG, 2 * AFTER, (result(2 * AFTER), ()))  # and another one takes its place
    writes.switch(2 * AFTER + 3, [(DOG, 3, 30)])
    assert 2 * AFTER + 3 == seen(reads)["head"]


@pytest.mark.parametrize("again", [False, True])
def test_a_page_and_a_switch_that_are_applied_twice_are_applied_once(stores, again):
    writes, _ = stores
    writes.commit(EARLIER)
    for _ in range(1 + again):
        writes.stage(DOG, AFTER, (result(), ()))
    for _ in range(1 + again):
        writes.switch(AFTER + 3, [(DOG, 3, 30)])
    assert 7 == writes.figures(DOG).events
    while writes.move_staged(9):
        pass
    writes.switch(AFTER + 3, [(DOG, 3, 30)])
    assert (7, 4) == (writes.figures(DOG).events, writes.count(DOG))


@pytest.mark.parametrize("switched", [False, True])
def test_a_store_that_is_opened_again_has_all_of_a_result_or_nothing(tmp_path, switched):
    store = opened(tmp_path / "rowcast.db")
    store.commit(EARLIER)
    store.stage(DOG, AFTER, (result(), ()))
    if switched:
        store.switch(AFTER + 3, [(DOG, 3, 30)])
        store.move_staged(1)
    store.close()
    store = opened(tmp_path / "rowcast.db")
    store.finish_staged()
    expected = reference(tmp_path, EARLIER, *([result()] if switched else []))[0]
    assert expected == seen(store)
    store.close()


@pytest.mark.parametrize("before", range(4))
def test_a_result_is_whole_where_its_table_gets_columns_between_two_pages(tmp_path, before):
    """As at a node that is started again in the middle of it, and applies the rest later."""
    made = enumerate("bcn", AFTER + 1)
    whole = [put(DOG, key, seq, age=20, points=seq, mark=2 * seq) for seq, key in made]
    known, pages = opened(tmp_path / "rowcast.db"), [([event], ()) for event in whole]
    known.commit(EARLIER)
    for page in pages[:before]:
        known.stage(DOG, AFTER, page)
    known.close()
    added = (Attribute("points", Type.INT), Attribute("mark", Type.LONG))
    more = replace(DOG, attributes=(*DOG.attributes, *added))
    store = SqlStore(tmp_path / "rowcast.db", synced=False)
    store.open([more if table is DOG else table for table in TABLES])
    for page in pages[before:]:
        store.stage(more, AFTER, page)
    store.switch(AFTER + 3, [(more, 3, 30)])
    for _ in range(2):  # before they are moved, and after it
        found = {one.topic: one.decoded for one in store.scan(more, EVERY, "", 9).records}
        assert [event.decoded for event in whole] == [found[event.topic] for event in whole]
        store.finish_staged()
    store.close()


@pytest.mark.parametrize("switched", [False, True])
@pytest.mark.parametrize("position", [4, AFTER + 3])
def test_a_file_is_rewound_to_before_a_result_that_was_not_moved_yet(tmp_path, switched, position):
    store = opened(tmp_path / "rowcast.db")
    store.commit(EARLIER)
    store.stage(DOG, AFTER, (result(), ()))
    if switched:
        store.switch(AFTER + 3, [(DOG, 3, 30)])
        store.move_staged(1)
    store.close()
    rewind(tmp_path / "rowcast.db", TABLES, position, restorer(TABLES))
    store = opened(tmp_path / "rowcast.db")
    whole = [result()] if switched and position > AFTER else []
    assert reference(tmp_path, EARLIER, *whole)[0] == seen(store)
    store.close()


GONE = [Change("gone/1", f"Dog/{key}", b"staged") for key in ("b", "c")]
"""Facts of a result."""
PLACES = [(one.owner, one.name) for one in GONE]


def test_facts_of_a_result_are_seen_with_it_and_newer_ones_after_it(stores):
    writes, reads = stores
    earlier = Change("gone/1", "Dog/b", b"earlier")
    writes.commit(EARLIER, [earlier])
    writes.stage(DOG, AFTER, (result(), GONE))
    assert reads.facts(PLACES) == {PLACES[0]: b"earlier"}
    writes.switch(AFTER + 3, [(DOG, 3, 30)])
    both = dict.fromkeys(PLACES, b"staged")
    assert reads.facts(PLACES) == both
    while writes.move_staged(1):
        assert reads.facts(PLACES) == both
    assert reads.facts(PLACES) == both
    assert writes.states("gone/") == [("gone/1", f"Dog/{key}", b"staged") for key in ("b", "c")]


@pytest.mark.heavy
@pytest.mark.parametrize("moves", range(6))
def test_a_fact_that_is_written_while_those_of_a_result_are_moved_stays(stores, moves):
    writes, reads = stores
    writes.commit(EARLIER)
    writes.stage(DOG, AFTER, (result(), GONE))
    writes.switch(AFTER + 3, [(DOG, 3, 30)])
    for _ in range(moves):
        writes.move_staged(1)
    newer = Change("gone/1", "Dog/b", b"newer")
    if moves % 2:
        writes.commit([put(DOG, "d", AFTER + 9)], [newer])
    else:
        writes.commit((), [newer])
    while True:
        assert reads.facts(PLACES) == {PLACES[0]: b"newer", PLACES[1]: b"staged"}
        if not writes.move_staged(1):
            break
    writes.commit((), [Change("gone/1", "", None)])
    assert reads.facts(PLACES) == {}


@pytest.mark.parametrize("moves", range(3))
def test_all_facts_of_an_owner_go_while_those_of_a_result_are_moved(stores, moves):
    writes, reads = stores
    writes.commit(EARLIER)
    writes.stage(DOG, AFTER, (result(), GONE))
    writes.switch(AFTER + 3, [(DOG, 3, 30)])
    for _ in range(moves):
        writes.move_staged(2)
    writes.commit((), [Change("gone/1", "", None)])
    while writes.move_staged(1):
        assert reads.facts(PLACES) == {}
    assert reads.facts(PLACES) == {}


@pytest.mark.parametrize("ends", ["swept", "opened again", "another begins"])
def test_facts_of_a_result_that_is_never_switched_are_never_seen(tmp_path, ends):
    store = opened(tmp_path / "rowcast.db")
    store.commit(EARLIER)
    store.stage(DOG, AFTER, (result(), GONE), yields=True)
    if ends == "swept":
        store.abandon()
        store.commit([put(DOG, "b", 5), put(NUMBER, 7, 6)])
        while store.move_staged(1):
            assert store.facts(PLACES) == {}
    elif ends == "opened again":
        store.close()
        store = opened(tmp_path / "rowcast.db")
        store.finish_staged()
    else:
        store.stage(DOG, 2 * AFTER, (result(2 * AFTER), ()))
        store.switch(2 * AFTER + 3, [(DOG, 3, 30)])
    assert store.facts(PLACES) == {}
    assert store.states("gone/") == []
    store.close()


def stamped(event, version, origin=None):
    event.version = version
    if origin is not None:
        event.properties = {**(event.properties or {}), ORIGIN: origin}
    return event


@pytest.mark.parametrize("end", ["once", "opened again"])
def test_staged_rows_give_way_to_newer_writes_of_their_records(tmp_path, end):
    """With their events and facts; a store that is opened again knows that they do."""
    store = opened(tmp_path / "rowcast.db")
    store.commit(EARLIER)
    rows = [stamped(event, 500) for event in result()]
    store.stage(DOG, AFTER, (rows, GONE), yields=True)
    if end == "opened again":
        store.close()
        store = opened(tmp_path / "rowcast.db")
    meanwhile = [
        stamped(put(DOG, "b", 5), 499),
        stamped(put(DOG, "c", 6), 501),
        stamped(Writer(6).value(DOG, "d", {}), 700),
        stamped(put(DOG, "new", 8), 500, ""),
        stamped(put(NUMBER, 7, 9), 900),
    ]
    store.commit(meanwhile)
    assert store.superseded() == (0, 1, 0)
    store.switch(AFTER + 3, [(DOG, 3, sum(len(event.payload) for event in rows))])
    while store.move_staged(1):
        """Nothing else has to be done."""
    log = store.read(0, 99, [DOG])
    assert [event.seq for event in log] == [1, 2, 3, 4, 5, 6, 7, 8, AFTER + 1, AFTER + 3]
    figures = store.figures(DOG)
    assert (figures.events, figures.bytes) == (10, sum(len(event.payload) for event in log))
    found = {one.topic: one.seq for one in store.scan(DOG, EVERY, "", 9).records}
    assert found == {
        "Dog/a": 1, "Dog/b": AFTER + 1, "Dog/c": 6, "Dog/d": 7, "Dog/new": AFTER + 3,
    }  # fmt: skip
    assert store.count(DOG) == 5
    assert store.facts(PLACES) == {PLACES[0]: b"staged"}
    store.close()


@pytest.mark.heavy
def test_what_a_page_was_made_of_ends_with_it(stores):
    """Without a collection of garbage, which the applier makes after thousands of pages."""
    writes, _ = stores
    staged = [put(DOG, f"k{at}", AFTER + at) for at in range(1, 50)]
    writes.stage(DOG, AFTER, (staged[:10], ()))
    gc.collect()
    writes.stage(DOG, AFTER, (staged[10:], ()))
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        writes.stage(DOG, AFTER, (staged[:10], ()))
        gc.collect()
        assert [item for item in gc.garbage if isinstance(item, Share)] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
