"""Times in SQLite: a time is found by the seconds of the log, not by walking it (B13)."""

import sqlite3
from contextlib import closing

import pytest
from conformance_topic_tables import ALL
from store_cases import DOG, Writer
from test_store_topic_tables import as_format_1

from rowcast.core.events import MESSAGE
from rowcast.store.store import Keep

SECOND = 1_000_000


def filled(place, seconds, topic="home/a"):
    """Commit one event at each of these seconds, each in a commit of its own."""
    store, writer = place.start(), Writer()
    for second in seconds:
        store.commit([writer.event(topic, MESSAGE, version=int(second * SECOND))])
    return store, writer


def entries(place):
    return place.sql("SELECT second,seq FROM rowcast_times ORDER BY second")


def test_an_entry_is_made_at_most_once_a_second(place):
    filled(place, (1, 1.5, 1.9, 3, 2, 3.5, 4))
    assert entries(place) == [(1, 1), (3, 4), (4, 7)]
    store = place.start()
    store.commit([Writer(7).event("home/a", version=4 * SECOND + 9)])
    assert entries(place) == [(1, 1), (3, 4), (4, 7)]


def test_a_late_event_makes_no_entry_and_is_where_it_arrived(place):
    """A time is a place in the order of arrival."""
    store, _ = filled(place, (10, 20, 5, 30, 20))
    assert [second for second, _ in entries(place)] == [10, 20, 30]
    found = [store.since(None, n * SECOND) for n in (4, 5, 10, 11, 20, 25, 30, 31)]
    assert found == [0, 0, 0, 1, 1, 3, 3, 5]


@pytest.mark.parametrize("forget", ["all", "some"])
def test_entries_may_be_missing(place, forget):
    """An old file has none of its past: then there is more to walk, and the same answer."""
    store, writer = filled(place, range(1, 9))
    expected = [store.since(None, n * SECOND) for n in range(10)]
    if forget == "all":
        as_format_1(place)
    place.close()
    _delete(place, "" if forget == "all" else "WHERE second%3<>0")
    store = place.start()
    assert [store.since(None, n * SECOND) for n in range(10)] == expected
    store.commit([writer.event("home/a", version=8 * SECOND + 1)])
    store.commit([writer.event("home/a", version=12 * SECOND)])
    assert entries(place)[-1] == (12, 10)
    assert store.since(None, 12 * SECOND) == 9


def test_times_after_a_clock_that_was_ahead_are_found(place):
    """P6: entries of the wrong clock are gone, on the disk too, and new ones are made."""
    store, writer = filled(place, (10, 20, 900, 901))
    store.return_versions(30 * SECOND)
    assert [second for second, _ in entries(place)] == [10, 20]
    for second in (40, 50):
        store.commit([writer.event("home/a", version=second * SECOND)])
    assert entries(place)[2:] == [(40, 5), (50, 6)]
    assert [4, 5] == [store.since(None, second * SECOND) for second in (40, 50)]
    place.close()
    assert 50 * SECOND == place.start().last_version()


def _delete(place, where):
    with closing(sqlite3.connect(place.path)) as connection, connection:
        connection.execute(f"DELETE FROM rowcast_times {where}")


def test_they_are_trimmed_with_the_log(place):
    store, writer = filled(place, range(1, 9))
    store.trim(None, Keep(events=3), 0, ALL)
    assert entries(place) == [(6, 6), (7, 7), (8, 8)]
    store.commit([writer.value(DOG, "a", {}, version=9 * SECOND)])
    store.trim(None, Keep(events=1, seconds=1), 1e9, ALL)
    assert entries(place) == [(9, 9)]
    store.trim(DOG, Keep(seconds=1), 1e9, ALL)
    assert entries(place) == [(9, 9)]
    assert store.since(None, 3 * SECOND) == store.head() == 9


def test_a_time_is_found_by_the_index(place):
    filled(place, [])
    text = "SELECT seq FROM rowcast_log WHERE table_id=1 AND seq>=5 AND seq<=9 AND version>=7"
    ((*_, plan),) = place.sql(f"EXPLAIN QUERY PLAN {text} ORDER BY seq LIMIT 1")
    assert "USING INDEX rowcast_log_table (table_id=? AND seq>? AND seq<?)" in plan
