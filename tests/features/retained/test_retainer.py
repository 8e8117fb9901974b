"""The retainer's contract on every store there is (E4)."""

import pytest
from retainer_contract import RetainerContract

from build import TABLES, Server
from memory_store import MemoryStore
from rowcast.features.retained.retainer import Retained
from rowcast.store.sqlite import SqlStore


class Keeper:
    """A store that outlives the engines on it."""

    def __init__(self, make):
        self._make = make
        self.store = None

    def start(self, **options):
        if self.store is not None:
            self.store.close()
        self.store = self._make()
        room = Server(TABLES, store=self.store, **options)
        room.retainer = Retained(room.kernel, room.now)
        return room


class TestMemory(RetainerContract):
    @pytest.fixture
    def keeper(self):
        store = MemoryStore("0badcafe")
        yield Keeper(lambda: store)


class TestSqlite(RetainerContract):
    @pytest.fixture
    def keeper(self, tmp_path):
        keeper = Keeper(lambda: SqlStore(tmp_path))
        yield keeper
        keeper.store.close()
