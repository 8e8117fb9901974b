"""Reads that are ended: at once, with the Error that was given, and nobody else's (P1)."""

import logging
import threading

import pytest
from store_cases import DOG

from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE
from rowcast.core.queries import Query
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.store.read_limit import ReadLimit

ENOUGH = Error(Code.BUSY, "enough")
ENDLESS = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)
    SELECT i FROM n WHERE seen(i) IS NULL"""


class Endless:
    """A read that never ends by itself, on a thread of its own."""

    def __init__(self, store, walks=1):
        self._store, self._walks = store, walks
        self.limit, self.begun = ReadLimit(), threading.Event()
        self.raised = self.connection = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self.begun.wait(30)

    def _run(self):
        try:
            self._store.limited(self.limit, self._read)
        except Error as error:
            self.raised = error

    def _read(self):
        with self._store._database.reading() as cursor:
            self.connection = cursor.connection
            self.connection.create_function("seen", 1, self._seen)
            walks = [self.connection.execute(ENDLESS) for _ in range(self._walks)]
            return list(zip(*walks, strict=True))

    def _seen(self, number):
        """Never NULL, but for the first row of a walk that others follow."""
        if number > 1:
            self.begun.set()  # by now all walks have begun
        return number if number > 1 or self._walks == 1 else None

    def end(self):
        """End it, as often as that takes."""
        while self.thread.is_alive():
            self.limit.end(ENOUGH)
            self.thread.join(0.01)


@pytest.mark.parametrize("walks", [1, 2])
def test_p1_a_read_that_never_ends_is_ended_with_the_error_given(store, walks):
    """Also where other statements of the same read are not done yet."""
    endless = Endless(store, walks)
    endless.end()
    assert endless.raised is ENOUGH


@pytest.mark.parametrize("walks", [1, 2])
def test_p1_the_next_read_is_not_interrupted(store, walks, caplog):
    """It has the same connection, unless somebody still holds a statement of the ended read."""
    caplog.set_level(logging.ERROR, "sqlalchemy")
    endless = Endless(store, walks)
    endless.end()
    with store._database.reading() as cursor:
        assert (walks == 1) is (endless.connection is cursor.connection)
        assert 1 == cursor.execute("SELECT 1").fetchone()[0]
    assert [] == caplog.records


def test_p1_a_read_of_several_parts_of_the_log_leaves_its_connection(place, writer):
    """Its walks are statements side by side, of which none is done when it is ended."""
    store = place.start()
    for name in "ab":
        store.define(TopicTable(f"mqtt_{name}", TopicRoot(name)))
    store.commit([writer.event(f"{(n % 2 and 'a') or 'b'}/{n}", MESSAGE) for n in range(100)])
    limit, connections = ReadLimit(), []
    reader, event = store._reader, store._reader.event

    def ends(row):
        limit.end(ENOUGH)
        return event(row)

    def read():
        with store._database.reading() as cursor:
            connections.append(cursor.connection)
        return store.read(0, 100, [TopicRoot("a"), TopicRoot("b")])

    reader.event = ends
    with pytest.raises(Error) as caught:
        store.limited(limit, read)
    del reader.event
    with store._database.reading() as cursor:
        connections.append(cursor.connection)
    assert (ENOUGH, 1) == (caught.value, len(set(connections)))
    assert 100 == len(store.read(0, 100, [TopicRoot("a"), TopicRoot("b")]))


def test_p1_a_read_that_was_ended_before_it_began_asks_the_disk_nothing(store):
    limit, asked = ReadLimit(), []
    limit.end(ENOUGH)
    with pytest.raises(Error) as caught:
        store.limited(limit, lambda: asked.append(1))
    assert (ENOUGH, []) == (caught.value, asked)


def test_p1_an_end_that_comes_late_meets_nobody_else(store):
    """The connection is another's by then; the read has its answer."""
    limit = ReadLimit()
    assert [] == list(store.limited(limit, lambda: store.search(DOG, Query())).records)
    with store._database.reading() as cursor:
        rows = cursor.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT"
                              " 9) SELECT i FROM n")  # fmt: skip
        next(rows)
        limit.end(ENOUGH)
        assert 8 == len(list(rows))


def test_p1_an_interrupt_between_two_statements_ends_the_next(store):
    limit = ReadLimit()

    def read():
        store.count(DOG)
        limit.end(ENOUGH)  # as another thread would, while this one is in Python
        return store.search(DOG, Query())

    with pytest.raises(Error) as caught:
        store.limited(limit, read)
    assert ENOUGH is caught.value
