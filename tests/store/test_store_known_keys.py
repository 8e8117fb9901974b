"""The keys that the writer of the tables knows to have a row: it must never be wrong about one."""

import sqlite3
from contextlib import closing, suppress

from store_cases import DOG

from rowcast.core.limits import PRESENT_KEYS_MAX
from rowcast.store.records import Layout
from rowcast.store.sql_rows import TableRows
from rowcast.store.sql_statements import RecordStatements
from rowcast.store.store import Change


def test_a_key_of_a_failing_commit_is_not_known(place, writer):
    """The writer asks for a record again unless a commit has written it, or taken it away."""
    store = place.start()
    first, second = writer.value(DOG, "1", {}), writer.value(DOG, "2", {})
    store.commit([first])
    wrong = Change("owner", "name", object())
    for event in (second, writer.delete("Dog/1", DOG)):
        with suppress(Exception):
            store.commit([event], [wrong])
    again = [writer.value(DOG, key, {}) for key in ("1", "2")]
    assert [True, False] == store.commit(again)
    store.commit([writer.delete("Dog/2", DOG)])
    assert [True, False] == store.commit([writer.value(DOG, key, {}) for key in ("1", "2")])


def test_keys_beyond_those_that_are_known_are_asked_for(place, writer):
    statements = RecordStatements(TableRows(Layout(DOG)))
    store = place.start()
    store.commit([writer.value(DOG, "1", {})])
    with closing(sqlite3.connect(place.path)) as connection:
        cursor = connection.cursor()
        statements.learn({"gone"}, [])
        assert {"1", "gone"} == statements.present(cursor, ["1", "2", "gone"])
        statements.learn({f"{key}" for key in range(PRESENT_KEYS_MAX)}, [])
        assert {"1", "2"} == statements.present(cursor, ["1", "2", "gone"])
        statements.learn({"1"}, [])
        assert {"1"} == statements.present(cursor, ["1", "2", "gone"])
