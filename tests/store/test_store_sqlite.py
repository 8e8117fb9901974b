"""The SQLite store keeps the interface, and the promises that only a file can break."""

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import pytest
from conformance import ALL, Conformance, store, where, writer  # noqa: F401 - fixtures
from store_cases import DOG, FULL, KEY, NUMBER, TABLES, Writer, all_seen, attribute

from app.core.errors import Code, Error
from app.core.events import MESSAGE, PUT
from app.core.queries import Condition, Operator, Query, Sort
from app.core.tables import Table, Type
from app.core.topics import TopicFilter
from app.store.sql_query import Conditions
from app.store.sqlite import SqlStore


class Place:
    """A data directory, opened by at most one store of the test."""

    def __init__(self, path):
        self.path = path / "rowcast.db"
        self.stores = []

    def start(self, tables=TABLES):
        self.close()
        self.stores.append(SqlStore(self.path))
        self.stores[-1].open(tables)
        return self.stores[-1]

    def close(self):
        while self.stores:
            self.stores.pop().close()

    def sql(self, text, *values):
        """Ask with Python's own sqlite3, as any SQL tool would."""
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(text, values).fetchall()


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    place.close()


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


def test_directory_and_url_name_the_file(tmp_path):
    for url in (tmp_path, str(tmp_path), f"sqlite:///{tmp_path}/rowcast.db"):
        store = SqlStore(url)  # noqa: F811
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


def test_commit_is_durable_in_the_write_ahead_log(place):
    store = place.start()  # noqa: F811
    settings = [
        store._database.writer.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous")
    ]
    assert settings == ["wal", 2]


def test_readers_cannot_write(place):
    store = place.start()  # noqa: F811
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


def test_table_of_another_database_has_its_name(place):
    """A6: database and table name in one."""
    place.start().commit([Writer().value(NUMBER, 5, {"name": "five"})])
    assert place.sql("SELECT n,name,typeof(n) FROM other__Number") == [(5, "five", "integer")]


# -- failures --------------------------------------------------------------------------------------


def fill(store, writer, size):  # noqa: F811
    store.commit([writer.event(f"t/{writer.seq}", PUT, b"x" * size)])


def test_full_disk_refuses_and_then_goes_on(place, writer):  # noqa: F811
    """E29: what does not fit leaves nothing behind; when there is room again, all works."""
    store = place.start()  # noqa: F811
    fill(store, writer, 10)
    connection = store._database.writer
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(Error, match="is full; free some space") as caught:
        fill(store, writer, 1_000_000)
    assert caught.value.code is Code.BUSY
    assert str(place.path) in caught.value.message
    assert (store.head(), store.count(None), len(store.read(0, ALL))) == (1, 1, 1)
    with pytest.raises(Error, match="is full"):
        fill(store, writer, 1_000_000)
    connection.execute("PRAGMA max_page_count=1000000")
    fill(store, writer, 1_000_000)
    assert (store.head(), store.count(None), len(store.read(0, ALL))) == (4, 2, 2)


def test_failing_commit_leaves_nothing(place, writer):  # noqa: F811
    """All of a batch or none of it, in SQL and in memory."""
    store = place.start()  # noqa: F811
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


def test_locked_file_is_busy(place, writer, monkeypatch):  # noqa: F811
    monkeypatch.setattr("app.store.sql_database.STORE_BUSY_SECONDS", 0)
    store = place.start()  # noqa: F811
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


def test_reader_sees_one_state_while_the_writer_writes(place, writer):  # noqa: F811
    """A page's position is that of its records, whatever is committed meanwhile."""
    store = place.start()  # noqa: F811
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
    part = place.start()._parts["Dog"]
    selected = Conditions(part).filter(Condition((name,), operator, value))
    found = plan(place, f"SELECT * FROM Dog WHERE {selected.text}", *selected.values)
    index = "PRIMARY KEY" if name.endswith("id") else f"INDEX rowcast_by.Dog.{name} "
    assert f"SEARCH Dog USING {index}" in found
    assert "SCAN" not in found


@pytest.mark.parametrize("descending", [False, True])
def test_sort_by_an_indexed_attribute_uses_the_index(place, descending):
    store = place.start()  # noqa: F811
    texts = []
    connection = store._database._readers.raw_connection()
    connection.driver_connection.set_trace_callback(texts.append)
    connection.close()
    page = Query(sort=(Sort(("age",), descending),), limit=2)
    writer = Writer()  # noqa: F811
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


# -- changes of the schema -------------------------------------------------------------------------


def changed(*attributes, table=DOG, **more):
    return replace(table, attributes=(KEY, *attributes), **more)


def test_new_attribute_takes_its_values_out_of_the_undeclared(place):
    """A13: an addition loses nothing, and SQL sees the old values in the new column."""
    before = changed(attribute("name"))
    writer = Writer()  # noqa: F811
    store = place.start([before])  # noqa: F811
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


def test_many_rows_are_moved(place, monkeypatch):
    monkeypatch.setattr("app.store.sql_migrate.STORE_WORKING_ROWS_MAX", 7)
    before, after = changed(attribute("name")), changed(attribute("age", Type.INT))
    writer = Writer()  # noqa: F811
    events = [writer.value(before, f"{n:02}", {"age": n, "name": "x"}) for n in range(30)]
    place.start([before]).commit(events)
    store = place.start([after])  # noqa: F811
    assert store.matching(after, where("age", Operator.GE, 10)) == 20


def test_open_table_may_get_attributes(place):
    before = Table("Dog", "Dog")
    writer = Writer()  # noqa: F811
    store = place.start([before])  # noqa: F811
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
    store = place.start([after])  # noqa: F811
    assert store.get(after, "Dog/a").decoded == {"id": "a", "x": 1}
    assert store.matching(after, where("id", Operator.EQ, "a")) == 1
    store = place.start([before])
    assert store.get(before, "Dog/a").decoded == {"id": "a", "age": 5, "x": 1}


def test_dropped_attribute_keeps_its_values_until_the_next_write(place):
    before, after = changed(attribute("age", Type.INT)), changed(attribute("name"))
    writer = Writer()  # noqa: F811
    place.start([before]).commit([writer.value(before, key, {"age": 5}) for key in "ab"])
    store = place.start([after])  # noqa: F811
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
    place.start([changed(attribute("a", old), attribute("z"))])
    with pytest.raises(Error) as caught:
        place.start([changed(attribute("new"), attribute("a", new))])
    assert caught.value.code is Code.INVALID
    assert f"Dog.a was {old} and is now {new}" in caught.value.message
    assert "new" not in {row[1] for row in place.sql("PRAGMA table_info(Dog)")}
    place.start([changed(attribute("a", old), attribute("z"))])


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
    store = place.start([moved])  # noqa: F811
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
    store = place.start([table])  # noqa: F811
    store.commit([Writer().value(table, "key", value)])
    assert store.get(table, "Thing/key").decoded == value
    assert place.sql("SELECT _id,id,metadata,class FROM Thing") == [("key", "mine", "m", "c")]
