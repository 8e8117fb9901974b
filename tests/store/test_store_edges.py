"""Small promises of the SQLite store's parts that no larger test reaches."""

import sqlite3
from datetime import UTC, datetime, timedelta, timezone

import pytest
from conformance_queries import ALL, where
from sqlalchemy.exc import DBAPIError
from store_cases import DOG, JSON, OPEN, Writer

from rowcast.core.conditions import Condition, Operator
from rowcast.core.errors import Error
from rowcast.core.events import PUT
from rowcast.core.queries import Query
from rowcast.core.topics import TopicFilter
from rowcast.store.records import Layout
from rowcast.store.sql_dates import DateCells, date_cell
from rowcast.store.sql_rows import TableRows, TopicRows


@pytest.mark.parametrize("zone", [None, UTC, timezone(timedelta(hours=2))], ids=str)
def test_date_is_utc_text_of_one_width(zone):
    hour = 14 if zone is not None and zone is not UTC else 12
    expected = "0099-01-02T12:00:00.000000Z"
    assert date_cell(datetime(99, 1, 2, hour, tzinfo=zone)) == expected


def test_rows_of_a_table_need_a_table():
    with pytest.raises(TypeError):
        TableRows(Layout(None))


def test_undeclared_topic_has_no_value_for_queries():
    assert TopicRows().value(()) is None


@pytest.mark.parametrize(
    ("name", "operator", "value", "expected"),
    [
        ("good", Operator.GT, False, 0),
        ("extra", Operator.EQ, "x", 0),
        ("age", Operator.CONTAINS, 5, 0),
        ("age", Operator.GT, None, 0),
        ("price", Operator.EQ, 10**400, 0),
        ("price", Operator.EQ, float("nan"), 0),
        ("price", Operator.CONTAINS, "1", 0),
        ("name", Operator.EQ, "\ud800", 0),
        ("name", Operator.ENDS_WITH, "", 1),
        ("name", Operator.CONTAINS, "", 1),
        ("born", Operator.GT, "2020", 0),
    ],
)
def test_odd_condition_is_answered(place, name, operator, value, expected):
    store = place.start()
    store.commit([Writer().value(DOG, "a", {"name": "x", "good": True, "age": 5})])
    assert store.matching(DOG, where(name, operator, value)) == expected
    assert len(store.search(DOG, where(name, operator, value)).records) == expected


def test_key_that_is_not_text_in_unicode_is_looked_for_in_python(place):
    store = place.start()
    store.commit([Writer().value(OPEN, "a", {"x": 1})])
    assert store.matching(OPEN, Query(Condition(("\ud800",), Operator.EQ, "x"))) == 0


def test_json_that_is_not_utf8_is_kept_as_it_came(place):
    """RFC 8259, 8.1, wants UTF-8 between strangers; what comes is given back all the same."""
    store = place.start()
    payload = "\ufeff[1]".encode("utf-16-le")
    event = Writer().event("Open/a", PUT, payload, OPEN, [1], content_type=JSON)
    store.commit([event])
    assert store.get(OPEN, "Open/a").payload == payload


def test_scan_goes_on_from_a_topic_before_the_filter(place):
    store = place.start()
    writer = Writer()
    store.commit([writer.event(name, PUT) for name in ("a", "b/1", "b/2")])
    found = store.scan(None, TopicFilter("b/+"), "a", ALL)
    assert [record.topic for record in found.records] == ["b/1", "b/2"]


def test_mistake_in_sql_stays_a_bug(place):
    """Only what a disk can do becomes an Error."""
    store = place.start()
    with pytest.raises(sqlite3.OperationalError), store._database.reading() as cursor:
        cursor.execute("SELEC")
    with pytest.raises(DBAPIError), store._database.guard():
        store._database._connection.exec_driver_sql("SELEC")


def test_failure_while_making_tables_is_an_error_too(place):
    store = place.start([])
    connection = store._database.writer
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(Error, match="is full"):
        store.open([DOG])
    connection.execute("PRAGMA max_page_count=1000000")
    store.open([DOG])
    assert store.count(DOG) == 0


def test_closing_twice_is_harmless(place):
    store = place.start()
    store.close()
    store.close()


def test_the_cells_of_a_column_of_times_do_not_depend_on_the_last():
    zone, zones = datetime(2026, 1, 2, 3, tzinfo=UTC), timezone(timedelta(hours=2))
    times = [zone, zone, zone.astimezone(zones), zone.replace(tzinfo=None), zone.replace(hour=4)]
    cells = DateCells()
    assert [date_cell(time) for time in times] == [cells.of(time) for time in times]


@pytest.mark.parametrize("value", [None, b"bytes"])
def test_the_driver_need_not_look_for_what_adapts_null_and_bytes(value):
    """It makes an error for each that it does not find, which costs more than the value."""
    adapt = sqlite3.adapters[type(value), sqlite3.PrepareProtocol]
    assert adapt(value) is value
