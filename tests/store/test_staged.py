"""Staged results in the tables: unseen, then seen whole at once, then moved without being noticed.

Each state is compared with a store to which the same events were committed in the plain way.
"""

import sqlite3
from contextlib import closing

import pytest
from store_cases import DOG, NUMBER, TABLES, Writer

from rowcast.core.conditions import Condition, Operator
from rowcast.core.queries import Query
from rowcast.core.topics import TopicFilter
from rowcast.journal.applier import restorer
from rowcast.store.read_transaction import open_cut
from rowcast.store.rewind import rewind
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
    }


def cut(path):
    """Return what a program reads that opens the file."""
    with open_cut(path) as read:
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
        writes.stage(DOG, AFTER, [event])
        assert (seen(reads), cut(writes.path)) == before
    writes.switch(DOG, AFTER + 3, 3, 30)
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


def test_writes_between_the_switch_and_the_moves_are_later_than_the_result(stores, tmp_path):
    writes, reads = stores
    writes.commit(EARLIER)
    writes.stage(DOG, AFTER, result())
    meanwhile = [put(DOG, "d", 9, age=9), put(NUMBER, 7, 10)]
    writes.commit(meanwhile)  # and between the first page and the switch
    writes.switch(DOG, AFTER + 3, 3, 30)
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
    writes.stage(DOG, AFTER, result())
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
    writes.stage(DOG, 2 * AFTER, result(2 * AFTER))  # and another one takes its place
    writes.switch(DOG, 2 * AFTER + 3, 3, 30)
    assert 2 * AFTER + 3 == seen(reads)["head"]


@pytest.mark.parametrize("again", [False, True])
def test_a_page_and_a_switch_that_are_applied_twice_are_applied_once(stores, again):
    writes, _ = stores
    writes.commit(EARLIER)
    for _ in range(1 + again):
        writes.stage(DOG, AFTER, result())
    for _ in range(1 + again):
        writes.switch(DOG, AFTER + 3, 3, 30)
    assert 7 == writes.figures(DOG).events
    while writes.move_staged(9):
        pass
    writes.switch(DOG, AFTER + 3, 3, 30)
    assert (7, 4) == (writes.figures(DOG).events, writes.count(DOG))


@pytest.mark.parametrize("switched", [False, True])
def test_a_store_that_is_opened_again_has_all_of_a_result_or_nothing(tmp_path, switched):
    store = opened(tmp_path / "rowcast.db")
    store.commit(EARLIER)
    store.stage(DOG, AFTER, result())
    if switched:
        store.switch(DOG, AFTER + 3, 3, 30)
        store.move_staged(1)
    store.close()
    store = opened(tmp_path / "rowcast.db")
    store.finish_staged()
    expected = reference(tmp_path, EARLIER, *([result()] if switched else []))[0]
    assert expected == seen(store)
    store.close()


@pytest.mark.parametrize("switched", [False, True])
@pytest.mark.parametrize("position", [4, AFTER + 3])
def test_a_file_is_rewound_to_before_a_result_that_was_not_moved_yet(tmp_path, switched, position):
    store = opened(tmp_path / "rowcast.db")
    store.commit(EARLIER)
    store.stage(DOG, AFTER, result())
    if switched:
        store.switch(DOG, AFTER + 3, 3, 30)
        store.move_staged(1)
    store.close()
    rewind(tmp_path / "rowcast.db", TABLES, position, restorer(TABLES))
    store = opened(tmp_path / "rowcast.db")
    whole = [result()] if switched and position > AFTER else []
    assert reference(tmp_path, EARLIER, *whole)[0] == seen(store)
    store.close()
