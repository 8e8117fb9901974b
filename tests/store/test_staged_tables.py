"""One result in several tables: all its rows are seen at once, and each table loses its own.

Each state is compared with a store to which the same events were committed in the plain way.
"""

import json
import sqlite3
from contextlib import closing

import pytest
from store_cases import DOG, NUMBER, TABLES
from test_staged import AFTER, EARLIER, GONE, PLACES, cut, deleted, opened, put, result, stamped
from test_staged import seen as seen_of_dogs

from rowcast.core.topics import TopicFilter
from rowcast.journal.applier import restorer
from rowcast.store.rewind import rewind
from rowcast.store.sql_tables import sql_name

NUMBERS = [put(NUMBER, key, 10 + key) for key in (1, 2, 3)]
LEFT = "SELECT name FROM sqlite_master WHERE name GLOB '*staged*'"
META = "SELECT name,value FROM rowcast_meta WHERE name GLOB 'staged*' OR name='overlay'"


def removals(first=AFTER + 3):
    """What the same result does in another table: two deletions, and a new record."""
    return [
        deleted(NUMBER, 1, first + 1),
        deleted(NUMBER, 3, first + 2),
        put(NUMBER, 9, first + 3),
    ]


def seen(store):
    every = TopicFilter("deep/Number/#")
    return {
        **seen_of_dogs(store),
        "numbers": [(one.topic, one.seq) for one in store.scan(NUMBER, every, "", 9).records],
        "number": [
            getattr(store.get(NUMBER, f"deep/Number/{key}"), "seq", None) for key in (1, 2, 9)
        ],
        "looked up": sorted(store.lookup([(NUMBER, f"deep/Number/{key}") for key in (1, 2, 9)])),
        "their log": [one.seq for one in store.read(0, 99, [NUMBER])],
        "both": [one.seq for one in store.read(0, 99, [DOG, NUMBER])],
    }


def figures(store):
    return [(store.count(table), store.figures(table).events, store.figures(table).bytes)
            for table in (DOG, NUMBER)]  # fmt: skip


def reference(tmp_path, *batches):
    """Return what is seen, and what is counted, after plain commits."""
    path = tmp_path / "other.db"
    path.unlink(missing_ok=True)
    store = opened(path)
    for events in batches:
        store.commit(events)
    told = seen(store), cut(path), figures(store)
    store.close()
    return told


def size(events):
    return sum(len(event.payload) for event in events)


def stage(store, *, one_by_one=False):
    for table, events in ((DOG, result()), (NUMBER, removals())):
        for page in [[event] for event in events] if one_by_one else [events]:
            store.stage(table, AFTER, (page, ()))


def switch(store):
    counts = [(DOG, 3, size(result())), (NUMBER, 3, size(removals()))]
    store.switch(AFTER + 6, counts)


@pytest.fixture
def stores(tmp_path):
    """The store that writes, and one that follows what it writes, as a server's readers do."""
    writes = opened(tmp_path / "rowcast.db")
    writes.commit([*EARLIER, *NUMBERS])
    reads = opened(tmp_path / "rowcast.db", lock=False)
    reads.follow_writer()
    yield writes, reads
    reads.close()
    writes.close()


def test_a_result_in_two_tables_is_unseen_and_then_seen_whole_by_every_read(stores, tmp_path):
    writes, reads = stores
    before = reference(tmp_path, [*EARLIER, *NUMBERS])
    after = reference(tmp_path, [*EARLIER, *NUMBERS], [*result(), *removals()])
    for table, events in ((DOG, result()), (NUMBER, removals())):
        for event in events:
            writes.stage(table, AFTER, ([event], ()))
            assert (seen(reads), cut(writes.path), figures(writes)) == before
    switch(writes)
    assert (seen(reads), cut(writes.path)) == after[:2]
    moves = 0
    while writes.move_staged(1):
        moves += 1
        assert (seen(reads), cut(writes.path)) == after[:2]
    assert moves >= 6
    assert (seen(reads), cut(writes.path), figures(writes)) == after
    with closing(sqlite3.connect(writes.path)) as file:  # nothing is left beside the tables
        assert [] == file.execute(LEFT).fetchall()
        assert [] == file.execute(META).fetchall()
        counted = "SELECT records FROM rowcast_tables WHERE name IN ('Dog',?) ORDER BY name"
        assert [(4,), (2,)] == file.execute(counted, (sql_name(NUMBER),)).fetchall()


@pytest.mark.parametrize("moves", range(7))
def test_writes_in_the_middle_of_the_moves_are_later_than_the_result(stores, tmp_path, moves):
    writes, reads = stores
    stage(writes)
    switch(writes)
    for _ in range(moves):
        writes.move_staged(1)
    later = [put(NUMBER, 1, AFTER + 11), deleted(NUMBER, 9, AFTER + 12), put(DOG, "c", AFTER + 13)]
    writes.commit(later)
    batches = [*EARLIER, *NUMBERS], [*result(), *removals()], later
    expected = reference(tmp_path, *batches)
    assert (seen(reads), cut(writes.path)) == expected[:2]
    while writes.move_staged(1):
        assert (seen(reads), cut(writes.path)) == expected[:2]
    assert (seen(reads), cut(writes.path), figures(writes)) == expected


@pytest.mark.parametrize("end", ["moved", "opened again", "rewound", "rewound before"])
@pytest.mark.parametrize("state", ["half", "staged", "abandoned", "switched", "half moved"])
def test_a_result_in_two_tables_is_there_whole_or_not_at_all(tmp_path, state, end):
    store = opened(tmp_path / "rowcast.db")
    store.commit([*EARLIER, *NUMBERS])
    if state == "half":
        store.stage(DOG, AFTER, (result(), ()))
    else:
        stage(store)
    if state == "abandoned":
        store.abandon()
    if whole := state in {"switched", "half moved"}:
        switch(store)
    if state == "half moved":
        store.move_staged(2)
    if end != "moved":
        store.close()
    if end.startswith("rewound"):
        whole &= end == "rewound"
        rewind(store.path, TABLES, AFTER + 6 if whole else 13, restorer(TABLES))
    if end != "moved":
        store = opened(tmp_path / "rowcast.db")
        store.finish_staged()
    while store.move_staged(2):
        """Nothing else has to be done."""
    expected = reference(
        tmp_path, [*EARLIER, *NUMBERS], *([[*result(), *removals()]] if whole else [])
    )
    assert (seen(store), figures(store)) == (expected[0], expected[2])
    with closing(sqlite3.connect(store.path)) as file:
        left = [name for (name,) in file.execute(LEFT)]
        assert (left == []) is (whole or state == "abandoned" or end != "moved")
    store.close()


@pytest.mark.parametrize("again", [False, True])
def test_staged_rows_give_way_in_the_tables_that_say_so(tmp_path, again):
    store = opened(tmp_path / "rowcast.db")
    store.commit([*EARLIER, *NUMBERS])
    rows, gone = ([stamped(one, 500) for one in some] for some in (result(), removals()))
    store.stage(DOG, AFTER, (rows, ()))
    store.stage(NUMBER, AFTER, (gone, GONE), yields=True)
    if again:
        store.close()
        store = opened(tmp_path / "rowcast.db")
    meanwhile = [
        stamped(put(DOG, "b", 20), 900),
        stamped(put(NUMBER, 1, 21), 900),
        stamped(put(NUMBER, 9, 22), 900),
        stamped(put(NUMBER, 3, 23), 499),
    ]
    store.commit(meanwhile)
    assert store.superseded() == (1, 1, size(gone))
    store.switch(AFTER + 6, [(DOG, 3, size(rows)), (NUMBER, 3, size(gone))])
    while store.move_staged(1):
        """Nothing else has to be done."""
    numbers = {one.topic: one.seq for one in store.scan(NUMBER, TopicFilter("#"), "", 9).records}
    assert numbers == {f"deep/Number/{key}": seq for key, seq in ((1, 21), (2, 12), (9, 22))}
    assert store.get(DOG, "Dog/b").seq == AFTER + 1
    logs = [store.read(0, 99, [table]) for table in (DOG, NUMBER)]
    assert [event.seq for event in logs[1]] == [11, 12, 13, 21, 22, 23, AFTER + 5]
    assert figures(store) == [(4, len(logs[0]), size(logs[0])), (3, len(logs[1]), size(logs[1]))]
    assert store.facts(PLACES) == dict.fromkeys(PLACES, b"staged")
    store.close()


def test_a_page_that_fails_is_staged_when_it_comes_again(stores, tmp_path):
    """Where it begins a result, or a table: nothing of it is left in memory either."""
    writes, reads = stores
    wrong = [type(GONE[0])("gone/1", "Dog/b", object())]  # as a bug would
    for table, events in ((DOG, result()), (NUMBER, removals())):
        with pytest.raises(sqlite3.Error):
            writes.stage(table, AFTER, (events, wrong))
        writes.stage(table, AFTER, (events, ()))
    switch(writes)
    expected = reference(tmp_path, [*EARLIER, *NUMBERS], [*result(), *removals()])
    assert (seen(reads), cut(writes.path)) == expected[:2]


def test_records_are_counted_when_another_result_begins_before_all_is_moved(stores, tmp_path):
    writes, _ = stores
    stage(writes)
    switch(writes)
    second = [put(NUMBER, key, 2 * AFTER + key) for key in (1, 2)]
    writes.stage(NUMBER, 2 * AFTER, (second, ()))
    writes.switch(2 * AFTER + 2, [(NUMBER, 2, size(second))])
    writes.commit([put(NUMBER, 1, 2 * AFTER + 3)])
    while writes.move_staged(9):
        """Nothing else has to be done."""
    batches = [*EARLIER, *NUMBERS], [*result(), *removals()], second
    expected = reference(tmp_path, *batches, [put(NUMBER, 1, 2 * AFTER + 3)])
    assert (seen(writes), figures(writes)) == (expected[0], expected[2])


def test_records_are_counted_once_where_a_write_of_staged_ones_fails_and_comes_again(stores):
    writes, _ = stores
    stage(writes)
    switch(writes)
    wrong = [type(GONE[0])("gone/1", "Dog/b", object())]
    written = [put(NUMBER, 9, AFTER + 9)]
    with pytest.raises((sqlite3.Error, TypeError)):  # the second where it is compiled
        writes.commit(written, wrong)
    writes.commit(written)
    while writes.move_staged(9):
        """Nothing else has to be done."""
    assert writes.count(NUMBER) == 2


@pytest.mark.parametrize("switched", [False, True])
def test_what_an_earlier_version_staged_is_gone_on_with(tmp_path, switched):
    """It wrote one table, and other facts of it."""
    store = opened(tmp_path / "rowcast.db")
    store.commit(EARLIER)
    rows = [stamped(event, 500) for event in result()]
    store.stage(DOG, AFTER, (rows[:2], ()), yields=True)
    store.commit([stamped(put(DOG, "c", 6), 501)])
    store.stage(DOG, AFTER, (rows[2:], ()), yields=True)
    if switched:
        store.switch(AFTER + 3, [(DOG, 3, size(rows))])
    store.close()
    with closing(sqlite3.connect(store.path)) as file, file:
        facts = {name: value for name, value in file.execute(META) if value.startswith(("[", "{"))}
        for name, value in facts.items():
            known = json.loads(value)
            it = {"staged_table": lambda it: it[0], "overlay": lambda it: json.dumps(it[0]),
                  "staged_lost": lambda it: json.dumps(it["Dog"])}.get(name)  # fmt: skip
            if it is None:
                file.execute("DELETE FROM rowcast_meta WHERE name=?", (name,))
            else:
                file.execute("UPDATE rowcast_meta SET value=? WHERE name=?", (it(known), name))
    expected = {"Dog/a": 1, "Dog/b": AFTER + 1, "Dog/c": 6, "Dog/d": 4, "Dog/new": AFTER + 3}
    if switched:  # read by a program, and moved at the next start
        assert sorted(expected) == cut(store.path)[1]
        store = opened(tmp_path / "rowcast.db")
    else:
        store = opened(tmp_path / "rowcast.db")
        store.commit([stamped(put(DOG, "d", 7), 900)])
        assert store.superseded() == (0, 1, 0)
        store.switch(AFTER + 3, [(DOG, 3, size(rows))])
        expected["Dog/d"] = 7
    while store.move_staged(9):
        """Nothing else has to be done."""
    found = {one.topic: one.seq for one in store.scan(DOG, TopicFilter("#"), "", 9).records}
    assert found == expected
    store.close()
