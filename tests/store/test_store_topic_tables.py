"""Topic tables in SQLite: what a failing disk leaves, what an old file brings, what is the same."""

import random
import sqlite3
from contextlib import closing, contextmanager

import pytest
from conformance_topic_tables import ALL, HOME, SINGLE, YARD, seqs
from store_cases import DOG, TABLES, Writer, all_seen, before_and_after

from memory_store import MemoryStore
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Keep

SOURCES = (None, HOME.branch, YARD.branch, SINGLE.branch, DOG)


def state(store):
    """Return all that is to be seen of parts."""
    return (
        store.topic_tables(),
        [(store.figures(source), seqs(store, source)) for source in SOURCES],
        all_seen(store.read(0, ALL)),
        store.head(),
    )


# -- faults ----------------------------------------------------------------------------------------


class FailingCursor:
    """A cursor of which one statement fails."""

    def __init__(self, cursor, count):
        self._cursor = cursor
        self._left = count

    def execute(self, *arguments):
        self._left -= 1
        if self._left < 0:
            raise Error(Code.BUSY, "the disk is full")
        return self._cursor.execute(*arguments)

    def __getattr__(self, name):
        return getattr(self._cursor, name)


@contextmanager
def failing(store, count):
    """Let the statement after so many fail, or the commit if there are no more."""
    database = store._database
    writing = database.writing

    @contextmanager
    def fails():
        with writing() as cursor:
            counted = FailingCursor(cursor, count)
            yield counted
            if counted._left == 0:
                raise Error(Code.BUSY, "the disk is full")

    database.writing = fails
    try:
        yield
    finally:
        del database.writing


@pytest.mark.parametrize("call", ["define", "drop"])
def test_a_failing_define_or_drop_leaves_everything_as_it_was(place, call):
    """Whichever of its statements fails, or the commit itself, in memory and on the disk."""
    place.limits = {"former_branches": 1}
    store, writer = place.start(), Writer()
    store.define(YARD)
    store.commit([writer.event("yard/a", PUT)])
    store.drop(YARD)
    store.commit([writer.event(topic, PUT) for topic in ("home/a", "home", "yard/a")])
    if call == "drop":
        store.define(HOME)
        store.commit([writer.event("home/b", PUT)])
    before = state(store)
    for count in range(20):
        with failing(store, count):
            try:
                getattr(store, call)(HOME)
            except Error:
                assert state(store) == before
                continue
            break
    assert count > 3
    assert state(store) != before
    now = state(store)
    assert state(place.start()) == now


def test_what_a_failing_drop_left_is_there_after_a_restart(place):
    store, writer = place.start(), Writer()
    store.define(HOME)
    store.commit([writer.event("home/a", PUT)])
    before = state(store)
    for count in range(4):
        with failing(store, count), pytest.raises(Error):
            store.drop(HOME)
        store = place.start()
        assert state(store) == before


# -- old files -------------------------------------------------------------------------------------


def as_format_1(place):
    """Make the file what the store before topic tables would have left."""
    place.close()
    with closing(sqlite3.connect(place.path)) as connection, connection:
        connection.execute("ALTER TABLE rowcast_tables DROP COLUMN records")
        connection.execute("ALTER TABLE rowcast_tables DROP COLUMN mixed")
        connection.execute("DROP TABLE rowcast_former")
        connection.execute("DELETE FROM rowcast_meta WHERE name='trimmed'")
        connection.execute("UPDATE rowcast_meta SET value='1' WHERE name='format'")


def test_a_file_of_the_first_format_goes_on(place):
    store, writer = place.start(), Writer()
    store.commit([writer.event(topic, PUT) for topic in ("home/a", "yard/a", "home")])
    store.commit([writer.value(DOG, "a", {}), writer.event("Dog/b", PUT, b"x", DOG)])
    store.trim(None, Keep(events=1), 0, ALL)
    store.trim(DOG, Keep(seconds=1), 1e9, ALL)
    before = state(store)
    as_format_1(place)
    for _ in range(2):
        store = place.start()
        assert state(store) == before
        assert store._parts.tables["Dog"].mixed
    store.define(HOME)
    writer.seq = 5
    store.commit([writer.event("home/b", PUT)])
    assert (seqs(store, HOME.branch), store.count(HOME.branch)) == ([3, 6], 2)
    assert store.trimmed(HOME.branch) == 2


def test_a_start_counts_nothing(place):
    """F6, E1: it takes what it knows, however many records there are."""
    store, writer = place.start(), Writer()
    store.define(HOME)
    store.commit([writer.event(f"home/{n}", PUT) for n in range(9)])
    place.close()
    with closing(sqlite3.connect(place.path)) as connection, connection:
        connection.execute("DELETE FROM rowcast_topics")
    assert place.start().count(HOME.branch) == 9


def test_a_changed_schema_counts_anew(place):
    """What was undeclared may be in columns now: whether rows are alike must be looked at."""
    store, writer = place.start(), Writer()
    store.commit([writer.value(DOG, "a", {}), writer.event("Dog/b", PUT, b"x", DOG)])
    closed = [table for table in TABLES if table is not DOG]
    opened = type(DOG)(DOG.name, DOG.path, DOG.attributes[:1])
    for tables, mixed in (([*closed, opened], False), (TABLES, True)):
        part = place.start(tables)._parts.tables["Dog"]
        assert (part.count, part.mixed) == (2, mixed)


def test_e5_one_entry_for_each_topic_and_no_more(place):
    """Compact by itself: the file has room for each topic once, however often it is written."""
    store, writer = place.start(), Writer()
    store.define(HOME)
    pages = []
    for _ in range(30):
        store.commit([writer.event(f"home/{n}", PUT, b"x" * 100) for n in range(300)])
        store.trim(HOME.branch, Keep(events=1), 0, ALL)
        pages += place.sql("PRAGMA page_count")[0]
    assert place.sql("SELECT count(*), count(DISTINCT topic) FROM rowcast_topics") == [(300, 300)]
    assert store.count(HOME.branch) == 300
    assert max(pages) <= pages[1] * 1.3


@pytest.mark.parametrize("sources", [[HOME.branch], [HOME.branch, SINGLE.branch], [YARD.branch]])
def test_a_branch_costs_its_own_rows(place, sources):
    """Each part is walked in its index; the general one too, for what is older than a table."""
    store, writer = place.start(), Writer()
    store.commit([writer.event("home/a"), writer.event("yard/a")])
    for table in (HOME, SINGLE):
        store.define(table)
    store.commit([writer.event(topic) for topic in ("home/b", "a", "yard/b")])
    texts = []
    with store._database.reading() as cursor:
        cursor.connection.set_trace_callback(texts.append)
    store.read(0, 9, sources)
    store.read_back(9, 9, sources)
    reads = [text for text in texts if "rowcast_log" in text]
    assert len(reads) >= 2
    for text in reads:
        steps = [step for *_, step in place.sql(f"EXPLAIN QUERY PLAN {text}")]
        (plan,) = [step for step in steps if "rowcast_log" in step]
        assert "USING INDEX rowcast_log_table (table_id=? AND seq>? AND seq<?)" in plan


def test_all_of_many_parts_are_the_whole_log(place):
    """A reader of `#` shares its pages with every other, however many tables there are."""
    store, writer = place.start([]), Writer()
    store.define(*(TopicTable(f"mqtt_b{n}", TopicRoot(f"b{n}")) for n in range(20)))
    store.commit([writer.event(f"b{n}/a") for n in range(25)])
    assert store.place(0, [None]) == store.place(0, None) == "#"
    assert seqs(store, None, after=20) == [21, 22, 23, 24, 25]
    assert [store.since(None, n << 16) for n in (0, 7, 25, 26)] == [0, 6, 24, 25]


# -- what is known of dropped tables ---------------------------------------------------------------


def test_what_is_known_of_dropped_tables_is_bounded(place):
    """Of the oldest is known what they have in common; nobody is told less than was lost."""
    place.limits = {"former_branches": 2}
    store, writer = place.start(), Writer()
    tables = [TopicTable(f"mqtt_b{n}", TopicRoot(f"b{n}")) for n in range(4)]
    for table in tables:
        store.define(table)
        store.commit([writer.event(f"{table.branch.level}/a", MESSAGE)])
        store.drop(table)
    for now in before_and_after(store, place):
        known = [now.trimmed(table.branch) for table in tables]
        assert known == [2, 2, 3, 4]
        assert now.trimmed(TopicRoot("never")) == 2
        assert (now.trimmed(None), now.head()) == (4, 4)
    assert place.sql("SELECT count(*) FROM rowcast_former") == [(2,)]


# -- the same as memory ----------------------------------------------------------------------------

TOPICS = ("home/a", "home/b", "yard/a", "home", "yard", "else/a")


def step(store, dice, writer):
    """Do one random thing; the same to every store that is given the same dice."""
    what = dice.choice(("commit", "commit", "define", "define", "drop", "trim"))
    if what == "commit":
        store.commit(
            [
                writer.event(
                    dice.choice(TOPICS),
                    dice.choice((PUT, DELETE, MESSAGE)),
                    b"xy",
                    version=max(0, writer.seq - dice.choice((0, 0, 0, 25))) << 18,
                )
                for _ in range(dice.randint(1, 4))
            ]
        )
    elif what == "trim":
        keep = dice.choice((Keep(events=2), Keep(bytes=5), Keep(seconds=0.4)))
        store.trim(dice.choice(SOURCES), keep, writer.seq * 0.262144, dice.choice((1, 5)))
    else:
        getattr(store, what)(dice.choice((HOME, YARD, SINGLE)))


def answers(store):
    """Ask everything that depends on parts."""
    found = [state(store)]
    for some in ([HOME.branch, SINGLE.branch], [None, DOG], [YARD.branch], [None]):
        found += [seqs(store, *some, after=after, limit=3) for after in (0, 4, 9)]
        found.append([event.seq for event in store.read_back(9, 3, some)])
        found += [store.since(source, n << 17) for source in some for n in range(0, 200, 9)]
        found.append([event.seq for event in store.history(some[0], "home/a", 3)])
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(12))
def test_random_steps_do_the_same_as_in_memory(tmp_path, seed):
    dice = random.Random(seed), random.Random(seed)
    writers = Writer(), Writer()
    memory, sql = MemoryStore(), SqlStore(tmp_path)
    for store in (memory, sql):
        store.open(TABLES)
    for number in range(40):
        step(memory, dice[0], writers[0])
        step(sql, dice[1], writers[1])
        if number % 4 == 0:
            assert answers(memory) == answers(sql), f"step {number}"
        if number % 13 == 0:
            sql.close()
            sql = SqlStore(tmp_path)
            sql.open(TABLES)
    assert answers(memory) == answers(sql)
    sql.close()
