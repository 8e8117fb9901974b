"""The log of the simulation does what every log does."""

import pytest
from log_conformance import Conformance

from batch_cases import batch_after
from memory_log import MemoryLog
from rowcast.core.errors import Code, Error


class Place:
    """Batches that outlive their writers."""

    def __init__(self):
        self._stored = []

    def start(self):
        return MemoryLog(stored=self._stored)


class TestMemoryLog(Conformance):
    @pytest.fixture
    def place(self):
        return Place()

    def test_an_old_writer_is_fenced_by_a_new_one(self, place, log):
        new = place.start()
        log.append(batch_after(log))
        with pytest.raises(Error) as caught:
            new.append(batch_after(new))
        assert caught.value.code is Code.CONFLICT

    def test_a_refused_append_leaves_nothing(self, log):
        log.refuse = 1
        with pytest.raises(Error):
            log.append(batch_after(log))
        assert log.read(0, 1) == []
