"""A data directory for the tests of a journaled store, in the form that the store's tests use."""

import time

from lagging import LaggingApplying
from store_cases import TABLES

from rowcast.core.events import DELETE, MESSAGE
from rowcast.journal.applier import NEWEST
from rowcast.journal.applying import InlineApplying
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.opening import log_directory, open_log
from rowcast.journal.tail import Tail
from rowcast.store.sqlite import SqlStore
from serving import PATIENCE_SECONDS

LAG_SECONDS = 60
"""Tests stop the applier for as long as they need."""


class Whole(JournaledStore):
    """A journaled store that answers as the store of one process does.

    ``commit`` tells whether there were records, which the committer finds out by itself; counts are
    those of now, which a server reads a moment late; a trim waits.
    """

    def commit(self, events, changes=()):
        existed, there = [], {}
        for event in events:
            topic = event.topic
            if topic not in there:
                there[topic] = self.get(event.table, topic) is not None
            existed.append(event.kind != MESSAGE and there[topic])
            if event.kind != MESSAGE:
                there[topic] = event.kind != DELETE
        super().commit(events, changes)
        return existed

    def trim(self, *arguments):
        self.caught_up()
        return super().trim(*arguments).result(PATIENCE_SECONDS)

    def states(self, prefix):
        found = super().states(prefix)  # with that of the applier itself
        return [fact for fact in found if fact[:2] != NEWEST]

    def figures(self, source):
        self.caught_up()
        return super().figures(source)


class JournalPlace:
    """A data directory, opened by at most one store of the test."""

    def __init__(self, path, applying, store=Whole):
        self._store = store
        self.path = path / "rowcast.db"
        self._applying = applying
        self.stores = []

    def start(self, tables=TABLES):
        self.close()
        opened = SqlStore(self.path, synced=False)
        log = open_log(log_directory(self.path), opened)
        self.applying = self._applying(opened, log)
        tail = Tail(lag_seconds=LAG_SECONDS)
        self.stores.append(self._store(opened, log, self.applying, time.time, tail))
        self.stores[-1].open(tables)
        return self.stores[-1]

    def close(self):
        while self.stores:
            self.stores.pop().close()


def abandon(place):
    """End a store as a kill does: what its applier has not applied is only in the log."""
    store = place.stores.pop()
    place.applying._wanted = 0
    place.applying.stop()
    store._log.close()
    store._tables.close()


APPLYING = {"inline": InlineApplying, "lagging": LaggingApplying}
