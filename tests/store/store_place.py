"""A data directory for the tests of the SQLite store."""

import sqlite3
from contextlib import closing

from store_cases import TABLES

from rowcast.store.sqlite import SqlStore
from rowcast.store.store_limits import StoreLimits


class Place:
    """A data directory, opened by at most one store of the test."""

    def __init__(self, path):
        self.limits = {}
        """Limits of the stores that are opened from now on."""
        self.path = path / "rowcast.db"
        self.stores = []

    def start(self, tables=TABLES):
        self.close()
        self.stores.append(SqlStore(self.path, StoreLimits(**self.limits)))
        self.stores[-1].open(tables)
        return self.stores[-1]

    def close(self):
        while self.stores:
            self.stores.pop().close()

    def sql(self, text, *values):
        """Ask with Python's own sqlite3, as any SQL tool would."""
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(text, values).fetchall()
