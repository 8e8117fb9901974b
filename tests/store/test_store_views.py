"""Topic tables as SQL tools see them, and the work that is left for later."""

import sqlite3
from contextlib import closing

import pytest
from conformance_topic_tables import ALL, HOME, SINGLE, YARD, seqs
from store_cases import TABLES, Writer

from rowcast.core.events import DELETE, MESSAGE, PUT
from rowcast.core.tables import Table
from rowcast.core.topic_tables import METRICS, TopicRoot, TopicTable, message_id, row_table

SYSTEM = TopicTable(METRICS, TopicRoot("$SYS"))


def views(place):
    return {name for (name,) in place.sql("SELECT name FROM sqlite_master WHERE type='view'")}


def tidy(store):
    while store.tidy(2):
        pass


def test_f3_a_view_has_the_seven_columns(place):
    """Any SQL tool reads it while the server runs: text as text, other bytes as bytes."""
    store, writer = place.start(), Writer(36**9 - 2)
    store.define(HOME)
    at = 1_767_323_045_678_901
    store.commit(
        [
            writer.event("home/a", PUT, "é".encode(), client="c", qos=1, retain=True, version=at),
            writer.event("home/b", MESSAGE, b"\xff", retain=False, version=7_001),
            writer.event("home/a", DELETE, b"", retain=True, version=at + 99),
            writer.event("yard/a", MESSAGE, b"x"),
        ]
    )
    with closing(sqlite3.connect(place.path)) as connection:
        found = connection.execute("SELECT * FROM mqtt_home ORDER BY id DESC")
        columns = [column[0] for column in found.description]
        rows = found.fetchall()
    assert columns == [item.name for item in row_table(HOME).attributes]
    first = writer.seq - 3
    ids = [message_id(at + 99, first + 2), message_id(at, first), message_id(7_001, first + 1)]
    assert [row[0] for row in rows] == ids
    assert [len(row[0]) for row in rows] == [24, 23, 24]
    time = "2026-01-02T03:04:05."
    assert [row[1:] for row in rows] == [
        ("home/a", "", 0, 1, f"{time}679000Z", None),
        ("home/a", "é", 1, 1, f"{time}678901Z", "c"),
        ("home/b", b"\xff", 0, 0, "1970-01-01T00:00:00.007001Z", None),
    ]


def test_f1_the_metrics_are_the_current_records(place):
    store, writer = place.start(), Writer()
    store.define(SYSTEM)
    store.commit([writer.event("$SYS/broker/uptime", PUT, b"%d" % n, version=0) for n in (1, 2)])
    store.commit([writer.event("$SYSTEM/x", PUT, b"3"), writer.event("$SYS/a", MESSAGE, b"4")])
    assert place.sql(f"SELECT id,topic,value,timestamp FROM {METRICS}") == [
        ("$SYS/broker/uptime", "$SYS/broker/uptime", "2", "1970-01-01T00:00:00.000000Z")
    ]


def test_f14_a_view_goes_with_its_table(place):
    store, writer = place.start(), Writer()
    for table in (HOME, SINGLE):
        store.define(table)
    assert views(place) == {"mqtt_home", "mqtt_messages"}
    store.commit([writer.event("home/a", MESSAGE, b"1")])
    store.drop(HOME)
    assert views(place) == {"mqtt_messages"}
    store.define(HOME)
    store.commit([writer.event("home/a", MESSAGE, b"2")])
    assert place.sql("SELECT payload FROM mqtt_home") == [("2",)]


def test_many_views_are_made_and_dropped_together(place):
    """Each change of the schema costs every connection all views: then they wait."""
    place.limits = {"views_at_once": 1, "view_changes": 2, "views": 4}
    store = place.start()
    tables = [TopicTable(f"mqtt_b{n}", TopicRoot(f"b{n}")) for n in range(6)]
    names = [table.name for table in tables]
    for table in tables:
        store.define(table)
    assert views(place) == {names[0]}
    assert store.tidy(9)
    assert views(place) == set(names[:3])
    tidy(store)
    assert views(place) == set(names[:4])
    for table in tables[:2]:
        store.drop(table)
    store = place.start()
    tidy(store)
    assert views(place) == set(names[2:])
    assert not store.tidy(9)


def test_a_declared_table_takes_its_name_back(place):
    """A14: its SQL table comes before a view; the topic table goes on without one."""
    store, writer = place.start(), Writer()
    store.define(HOME)
    store.define(YARD)
    declared = Table("mqtt_home", "here")
    store = place.start((*TABLES, declared))
    tidy(store)
    assert views(place) == {"mqtt_yard"}
    store.commit([writer.event("home/a", PUT), writer.value(declared, "x", {})])
    assert (seqs(store, HOME.branch), seqs(store, declared)) == ([1], [2])
    store.drop(HOME)
    store.define(HOME)
    tidy(store)
    assert views(place) == {"mqtt_yard"}
    assert place.sql("SELECT id FROM mqtt_home") == [("x",)]


def test_somebody_elses_view_is_left_alone(place):
    place.start()
    place.close()
    with closing(sqlite3.connect(place.path)) as connection, connection:
        connection.execute("CREATE VIEW mqtt_home AS SELECT 7 AS n")
    store = place.start()
    store.define(HOME)
    store.drop(HOME)
    tidy(store)
    assert place.sql("SELECT n FROM mqtt_home") == [(7,)]


@pytest.mark.parametrize("restart", [False, True])
def test_the_events_of_a_dropped_table_go_in_slices(place, restart):
    """Nobody sees them meanwhile, and a table that is made again begins anew."""
    store, writer = place.start(), Writer()
    store.define(HOME)
    store.commit([writer.event(f"{['home', 'yard'][n % 2]}/a", MESSAGE) for n in range(10)])
    store.drop(HOME)
    if restart:
        store = place.start()
    left, again = [], True
    while again:
        left.append(place.sql("SELECT count(*) FROM rowcast_log")[0][0])
        assert [event.seq for event in store.read(0, ALL)][:5] == [2, 4, 6, 8, 10]
        assert [event.seq for event in store.read_back(5, ALL)] == [4, 2]
        store.define(HOME)
        store.commit([writer.event("home/b", MESSAGE)] if len(left) == 1 else [])
        assert seqs(store, HOME.branch, after=10) == [11]
        again = store.tidy(2)
    assert left == [10, 9, 7, 6]
    assert store.trimmed(HOME.branch) == 9
    assert place.sql("SELECT count(*) FROM rowcast_tables WHERE name LIKE '%/'") == [(0,)]
