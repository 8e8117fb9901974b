"""The memory store keeps the interface, and fails when a test says so."""

import pytest
from conformance import Conformance
from store_cases import TABLES

from memory_store import MemoryStore
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT


class Place:
    """Memory that outlives its opening."""

    def __init__(self):
        self.memory = MemoryStore("0badcafe")

    def start(self):
        self.memory.close()
        self.memory.open(TABLES)
        return self.memory


@pytest.fixture
def place():
    return Place()


@pytest.fixture
def store(place):
    return place.start()


class TestMemoryStore(Conformance):
    """Runs all of it."""

    def test_fault_comes_before_any_change(self, store, writer):
        def fail(what):
            raise Error(Code.BUSY, what)

        store.fault = fail
        for call in (lambda: store.commit([writer.event("t", PUT)]), lambda: store.reserve(5)):
            with pytest.raises(Error):
                call()
        assert (store.head(), store.reserved(), store.get(None, "t")) == (0, 0, None)
        store.fault = None
        store.commit([writer.event("t", PUT)])
        assert store.head() == 2
