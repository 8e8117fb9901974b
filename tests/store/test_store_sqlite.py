"""The SQLite store keeps the interface, and the promises that only a file can break."""

import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from conformance import ALL, Conformance
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_cases import DOG, FULL, NUMBER, TABLES, Writer, all_seen

from rowcast.core.conditions import Condition, Operator
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT
from rowcast.core.queries import Query, Sort
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.store import sql_expiry
from rowcast.store.sql_query import Conditions
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Change, Keep
from rowcast.store.store_limits import StoreLimits

ROOT = Path(__file__).resolve().parents[2]


class TestSqlStore(Conformance):
    """Runs all of it."""


# -- the file --------------------------------------------------------------------------------------


def test_second_server_is_refused(place):
    place.start()
    with pytest.raises(Error, match="already in use by another server") as caught:
        SqlStore(place.path)
    assert caught.value.code is Code.BUSY
    place.close()
    place.start()


@pytest.mark.slow
def test_second_server_is_refused_when_the_lock_file_was_removed(place):
    """As it is by whoever tidies up; a server that is refused leaves no lock behind."""
    program = f"from rowcast.store.sqlite import SqlStore; SqlStore({str(place.path)!r}).close()"
    lock = place.path.with_name("rowcast.db.lock")

    def second():
        run = [sys.executable, "-c", program]
        return subprocess.run(run, cwd=ROOT, capture_output=True, check=False, text=True)

    place.start()
    for _ in range(2):
        lock.unlink()
        refused = second()
        assert (1, True) == (refused.returncode, "already in use" in refused.stderr)
    place.close()
    assert 0 == second().returncode


def test_another_name_of_the_file_is_refused_too(place, tmp_path):
    place.start()
    (tmp_path / "other.db").symlink_to(place.path)
    with pytest.raises(Error, match="already in use by another server"):
        SqlStore(tmp_path / "other.db")


def test_directory_and_url_name_the_file(tmp_path):
    for url in (tmp_path, str(tmp_path), f"sqlite:///{tmp_path}/rowcast.db"):
        store = SqlStore(url)
        store.close()
        assert store.path == tmp_path / "rowcast.db"


@pytest.mark.parametrize(
    "url", ["postgresql://localhost/x", "sqlite://", "sqlite:///:memory:", "://", "what://x"]
)
def test_url_that_cannot_be_kept_in_is_refused(url):
    with pytest.raises(Error, match=r"use a file, such as") as caught:
        SqlStore(url)
    assert caught.value.code is Code.INVALID


def test_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match="cannot be made"):
        SqlStore(tmp_path / "file" / "rowcast.db")


def test_lock_file_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "rowcast.db.lock").mkdir()
    with pytest.raises(Error, match="lock file"):
        SqlStore(tmp_path)


def test_file_that_is_no_database_is_refused_and_untouched(tmp_path):
    path = tmp_path / "rowcast.db"
    path.write_bytes(b"not a database, but somebody's only copy" * 100)
    with pytest.raises(Error, match="is not an SQLite database") as caught:
        SqlStore(path)
    assert caught.value.code is Code.BUSY
    assert path.read_bytes().startswith(b"not a database")


def test_file_of_another_format_is_refused(place):
    place.start()
    place.close()
    with closing(sqlite3.connect(place.path)) as connection, connection:
        connection.execute("UPDATE rowcast_meta SET value='99' WHERE name='format'")
    with pytest.raises(Error, match="another version of the store"):
        place.start()


SORTED = """
import resource, sys
from rowcast.store.sql_database import Database
database = Database(sys.argv[1])
with database.writing() as cursor:
    cursor.execute("CREATE TABLE rowcast_meta (name TEXT PRIMARY KEY, value)")
    cursor.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)")
    numbers = "WITH RECURSIVE c(n) AS (VALUES(1) UNION ALL SELECT n+1 FROM c WHERE n<100000)"
    cursor.execute(f"INSERT INTO t {numbers} SELECT n, printf('%01000d', n*7919%65521) FROM c")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with database.reading() as cursor:
    cursor.execute("SELECT x, count(*), sum(n) FROM t GROUP BY x").fetchone()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
database.close()
"""


@pytest.mark.slow
def test_a_query_of_a_large_table_does_not_hold_it_in_memory(tmp_path):
    """What is sorted or grouped has 100 MB here, of which a connection holds 16."""
    command = (sys.executable, "-c", SORTED, str(tmp_path / "t.db"))
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 60


def test_commit_is_durable_in_the_write_ahead_log(place):
    store = place.start()
    settings = [
        store._database.writer.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous")
    ]
    assert settings == ["wal", 2]


def test_readers_cannot_write(place):
    store = place.start()
    with store._database.reading() as cursor, pytest.raises(sqlite3.OperationalError):
        cursor.execute("DELETE FROM rowcast_meta")


def test_ordinary_sql_reads_a_declared_table(place):
    """A14: columns of the declared names and types, readable while the server runs."""
    place.start().commit([Writer().value(DOG, "rex", FULL)])
    columns = "id,name,age,steps,weight,price,good,born,photo,tags,home,_extra,_seq"
    (row,) = place.sql(f"SELECT {columns} FROM Dog WHERE good AND born < '2021'")
    assert row == (
        "rex",
        FULL["name"],
        3,
        2**63 - 1,
        31.5,
        "1.50",
        1,
        "2020-02-29T12:00:00.000007Z",
        b"\x00\xff",
        '["a","b"]',
        '{"city":"Köln","since":{"$date":"2021-01-01T00:00:00Z"}}',
        '{"undeclared":{"deep":[true]}}',
        1,
    )
    types = {name: type_ for _, name, type_, *_ in place.sql("PRAGMA table_info(Dog)")}
    assert [types[name] for name in ("id", "age", "weight", "born")] == [
        "TEXT",
        "BIGINT",
        "FLOAT",
        "TEXT",
    ]


@pytest.mark.parametrize(
    ("value", "extra"),
    [
        ({"name": "Rex"}, None),
        ({"id": "rex", "name": "Rex", "age": 3}, None),
        ({"id": "rex", "name": "Rex", "age": None}, '{"age":null}'),
        ({"name": "Rex", "age": None, "colour": "red"}, '{"age":null,"colour":"red"}'),
        ({"name": "Rex", "weight": float("nan")}, '{"weight":{"$float":"NaN"}}'),
    ],
    ids=repr,
)
def test_only_what_has_no_cell_is_in_extra(place, value, extra):
    """A14: with and without the key, with members that are missing, null or not declared."""
    place.start().commit([Writer().value(DOG, "rex", value)])
    assert place.sql("SELECT _extra FROM Dog") == [(extra,)]


def test_table_of_another_database_has_its_name(place):
    """A6: database and table name in one."""
    place.start().commit([Writer().value(NUMBER, 5, {"name": "five"})])
    assert place.sql("SELECT n,name,typeof(n) FROM other__Number") == [(5, "five", "integer")]


# -- failures --------------------------------------------------------------------------------------


def fill(store, writer, size):
    store.commit([writer.event(f"t/{writer.seq}", PUT, b"x" * size)])


def test_full_disk_refuses_and_then_goes_on(place, writer):
    """E29: what does not fit leaves nothing behind; when there is room again, all works."""
    store = place.start()
    fill(store, writer, 10)
    connection = store._database.writer
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(Error, match="is full; free some space") as caught:
        fill(store, writer, 1_000_000)
    assert caught.value.code is Code.BUSY
    assert (False, True) == (
        str(place.path) in caught.value.message, str(place.path) in caught.value.full,
    )  # fmt: skip
    assert (store.head(), store.count(None), len(store.read(0, ALL))) == (1, 1, 1)
    with pytest.raises(Error, match="is full"):
        fill(store, writer, 1_000_000)
    connection.execute("PRAGMA max_page_count=1000000")
    fill(store, writer, 1_000_000)
    assert (store.head(), store.count(None), len(store.read(0, ALL))) == (4, 2, 2)


def test_a_read_that_finds_no_room_to_sort_says_where(place, writer):
    """A reading connection writes nothing else; the disk of the database may have much room."""
    store = place.start()
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorname = "SQLITE_FULL"
    with (
        pytest.raises(Error, match="folder for temporary files") as caught,
        store._database.reading(),
    ):
        raise full
    assert caught.value.code is Code.BUSY
    fill(store, writer, 10)


def test_failing_commit_leaves_nothing(place, writer):
    """All of a batch or none of it, in SQL and in memory."""
    store = place.start()
    store.commit([writer.value(DOG, "a", {"age": 1})])
    before = all_seen(store.read(0, ALL))
    bad = writer.value(DOG, "c", {})
    bad.decoded = {"age": 2**70}  # no column holds it
    with pytest.raises(OverflowError):
        store.commit([writer.value(DOG, "a", {"age": 2}), writer.event("t", MESSAGE), bad])
    assert all_seen(store.read(0, ALL)) == before
    assert (store.head(), store.count(DOG), store.last_version()) == (1, 1, 1 << 16)
    assert store.get(DOG, "Dog/a").decoded["age"] == 1
    store.commit([writer.value(DOG, "c", {"age": 2})])
    assert store.count(DOG) == 2


def test_a_file_without_states_gets_them(place, writer):
    """A database that was written before there were any is opened as it is."""
    place.start().commit([writer.event("t", PUT, b"1")])
    place.close()
    with closing(sqlite3.connect(place.path)) as connection:
        connection.execute("DROP TABLE rowcast_states")
    store = place.start()
    store.commit((), [Change("o", "n", b"1")])
    again = place.start()
    assert (b"1", [("o", "n", b"1")]) == (again.get(None, "t").payload, again.states(""))


@pytest.mark.parametrize("name", ["n", ""])
def test_removing_facts_costs_what_is_removed(place, name):
    """Not what all other owners have: SQLite searches the key and scans nothing."""
    store, seen = place.start(), []
    store.commit((), [Change("o", "n", b"1")])
    store._database.writer.set_trace_callback(seen.append)
    store.commit((), [Change(f"o{number}", name, None) for number in range(4)])
    store._database.writer.set_trace_callback(None)
    deletes = [text for text in seen if text.startswith("DELETE")]
    plans = [row[3] for text in deletes for row in place.sql(f"EXPLAIN QUERY PLAN {text}")]
    assert deletes
    assert {"SCAN rowcast_states"}.isdisjoint(plans)
    assert any(plan.startswith("SEARCH rowcast_states") for plan in plans)


def test_locked_file_is_busy(place, writer):
    place.limits = {"busy_seconds": 0}
    store = place.start()
    with closing(sqlite3.connect(place.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Error, match="another program has locked"):
            fill(store, writer, 1)
        with pytest.raises(Error, match="another program has locked"):
            store.reserve(10)
    fill(store, writer, 1)
    assert (store.reserved(), store.count(None)) == (0, 1)


def test_unknown_table_is_named(place):
    with pytest.raises(Error, match="Cat"):
        place.start().get(Table("Cat", "Cat"), "Cat/1")


def test_reader_sees_one_state_while_the_writer_writes(place, writer):
    """A page's position is that of its records, whatever is committed meanwhile."""
    store = place.start()
    wrong, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            page = store.scan(None, TopicFilter("t/#"), "", ALL)
            if page.position != sum(int(record.payload) for record in page.records):
                wrong.append(page.position)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 201):
        # Each record counts its own writes, so their sum is the number of all writes.
        store.commit([writer.event(f"t/{number % 5}", PUT, b"%d" % ((number + 4) // 5))])
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


# -- scans -----------------------------------------------------------------------------------------

LEVELS = st.sampled_from(["a", "b", "*", "?", "[", "]", "[a]", "a*b", "é", "$x", ""])
FILTER_LEVELS = st.lists(st.sampled_from(["+", "a", "b", "*", "?", "[", "[a]", ""]), max_size=4)


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    misses=st.sampled_from([1, 2, 16]),
    topics=st.lists(st.lists(LEVELS, min_size=1, max_size=4).map("/".join), max_size=40),
    filters=st.lists(st.tuples(FILTER_LEVELS, st.booleans()), max_size=8),
    rows=st.integers(1, 5),
)
def test_scan_finds_what_matches_however_it_gets_there(topics, filters, misses, rows):
    """E2: stepping, skipping gaps and sifting in SQL select the same, in the same order."""
    with tempfile.TemporaryDirectory() as directory:
        store = SqlStore(directory, StoreLimits(sift_misses=misses, sift_rows=rows))
        store.open(TABLES)
        writer = Writer()
        names = sorted({topic for topic in topics if topic})
        store.commit([writer.event(topic, PUT) for topic in names])
        for levels, below in filters:
            text = "/".join([*levels, "#"] if below or not levels else levels)
            if text:
                chosen = TopicFilter(text)
                found = [record.topic for record in store.scan(None, chosen, "", ALL).records]
                assert found == [topic for topic in names if chosen.matches(topic)]
        store.close()


@pytest.mark.parametrize("shape", ["one leaf in each branch", "many leaves in each branch"])
def test_scan_costs_what_it_returns(place, shape):
    """E2: the rows that SQLite touches for one result do not grow with the table."""
    store = place.start()
    writer = Writer()
    many = shape.startswith("many")
    leaves = [f"{n:03}" for n in range(200)] if many else ["x"]
    branches = 50 if many else 3_000
    names = [f"t/{n:04}/{leaf}" for n in range(branches) for leaf in leaves]
    last = f"t/{branches - 1:04}/c"
    store.commit([writer.event(name, PUT) for name in [*names, "t/1500/y/c", last]])
    steps = []
    connection = store._database._readers.raw_connection()
    connection.driver_connection.set_progress_handler(lambda: steps.append(1) and None, 100)
    connection.close()
    found = store.scan(None, TopicFilter("t/+/c"), "", 1)
    assert [record.topic for record in found.records] == [last]
    assert len(steps) * 100 < branches * 150  # two seeks for each branch, a few rows sifted


# -- indexes ---------------------------------------------------------------------------------------


def plan(place, text, *values):
    return " ".join(row[3] for row in place.sql(f"EXPLAIN QUERY PLAN {text}", *values))


@pytest.mark.parametrize(
    ("name", "operator", "value"),
    [
        ("name", Operator.EQ, "x"),
        ("name", Operator.STARTS_WITH, "x"),
        ("name", Operator.IN, ("x", "y")),
        ("age", Operator.GT, 5),
        ("weight", Operator.EQ, 1.5),
        ("born", Operator.LT, FULL["born"]),
        ("price", Operator.EQ, Decimal("1.5")),
        ("price", Operator.GE, Decimal("1.5")),
        ("id", Operator.EQ, "x"),
        ("$id", Operator.GT, "x"),
    ],
)
def test_condition_on_an_indexed_attribute_uses_the_index(place, name, operator, value):
    """A4: the plan searches; it does not scan."""
    part = place.start()._parts.tables["Dog"]
    selected = Conditions(part).filter(Condition((name,), operator, value))
    found = plan(place, f"SELECT * FROM Dog WHERE {selected.text}", *selected.values)
    index = "PRIMARY KEY" if name.endswith("id") else f"INDEX rowcast_by.Dog.{name} "
    assert f"SEARCH Dog USING {index}" in found
    assert "SCAN" not in found


@pytest.mark.parametrize("part", ["Dog", None])
def test_the_next_expiry_is_found_by_an_index(place, part):
    """A5: it is asked after each end, however many records have one."""
    store = place.start()
    asked = store._parts.tables[part] if part else store._parts.general
    steps = []
    with store._database.reading() as cursor:
        cursor.connection.set_trace_callback(steps.append)
        assert sql_expiry._soonest(cursor, asked) is None
        cursor.connection.set_trace_callback(None)
    (text,) = [step for step in steps if "ORDER BY" in step]
    found = plan(place, text)
    assert "USING COVERING INDEX" in found or "USING INDEX" in found
    assert "TEMP B-TREE" not in found


@pytest.mark.parametrize("descending", [False, True])
def test_sort_by_an_indexed_attribute_uses_the_index(place, descending):
    store = place.start()
    texts = []
    connection = store._database._readers.raw_connection()
    connection.driver_connection.set_trace_callback(texts.append)
    connection.close()
    page = Query(sort=(Sort(("age",), descending),), limit=2)
    writer = Writer()
    store.commit([writer.value(DOG, str(n), {"age": n % 3}) for n in range(9)])
    store.search(DOG, replace(page, after=store.search(DOG, page).after))
    pages = [text for text in texts if "ORDER BY" in text]
    assert len(pages) > 1
    for text in pages:
        found = plan(place, text)
        assert "INDEX rowcast_by.Dog.age" in found
        assert "SCAN Dog USING INDEX" in found or "SEARCH" in found
        assert not found.endswith("USE TEMP B-TREE FOR ORDER BY")


def test_records_that_expire_are_found_by_index(place):
    place.start()
    found = plan(place, 'SELECT * FROM Dog WHERE "_expires"<=? ORDER BY "_expires" LIMIT 5', 1.0)
    assert found == "SEARCH Dog USING INDEX rowcast_by.Dog._expires (_expires<?)"


def test_log_of_one_table_is_read_by_index(place):
    place.start()
    found = plan(place, "SELECT * FROM rowcast_log WHERE table_id=1 AND seq>5 ORDER BY seq")
    assert found == "SEARCH rowcast_log USING INDEX rowcast_log_table (table_id=? AND seq>?)"


# -- trimming --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fails", "known"), [(False, [4, 4]), (True, [4, 0])])
def test_what_is_trimmed_is_known_before_it_is_gone(place, monkeypatch, fails, known):
    """C11: who reads a page and then asks must not take what is gone for what never was."""
    store, writer = place.start(), Writer()
    store.commit([writer.event("t", PUT) for _ in range(5)])
    seen, writing = [], store._database.writing

    @contextmanager
    def watched():
        with writing() as cursor:
            yield cursor
            seen.append(store.trimmed(None))
            if fails:
                raise Error(Code.BUSY, "the disk is full")

    monkeypatch.setattr(store._database, "writing", watched)
    with suppress(Error):
        store.trim(None, Keep(events=1), 0, ALL)
    assert known == [*seen, store.trimmed(None)]
