"""Cursors of another process, beyond what the sequencer has announced."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from store_cases import TABLES, Writer

from memory_log import MemoryLog
from rowcast.bus.bus import Bus
from rowcast.cluster.sequencing import SequencingCommitter
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT
from rowcast.journal.applying import InlineApplying
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.opening import open_journal
from rowcast.log.batch import Batch, Body
from rowcast.log.batch_content import Content
from rowcast.reads.record_cache import RecordCache
from rowcast.store.sqlite import SqlStore


@contextmanager
def sequencing(store, **options):
    """Yield the committer of a sequencer."""
    store.open(TABLES)
    with ThreadPoolExecutor(1) as executor:
        parts = store, Bus(), RecordCache(), HybridClock(time.time), executor
        yield SequencingCommitter(*parts, tables=TABLES, **options)
    store.close()


@pytest.fixture
def shared(tmp_path):
    """A store whose log other nodes can append to, as what is ``stored``."""
    tables = SqlStore(tmp_path / "rowcast.db")
    log = MemoryLog(tables.epoch)
    return JournaledStore(tables, log, InlineApplying(tables, log), time.time)


def take_over(log):
    """Another node is the sequencer from now on: it has appended a batch."""
    other = MemoryLog(log.epoch, log.stored)
    other.append(Batch.seal(other.head.number + 1, other.term, 0, Body.of(Content()), 1))


async def test_what_is_appended_is_within_reach_before_it_is_announced(tmp_path):
    """A follower may have it, and its client come here, a moment earlier."""
    store = open_journal(tmp_path / "rowcast.db", time.time)
    with sequencing(store) as committer:
        store.commit([Writer().event("u/1", PUT, b"x")])
        assert (1, 0) == (committer.reach, committer.announced)


async def test_a_former_sequencer_does_not_judge_a_cursor_beyond_its_end(shared):
    """The other node gave it: a reset would take its reader back."""
    with sequencing(shared, confirms=True) as committer:
        take_over(shared.log)
        with pytest.raises(Error) as raised:
            await committer.until_reached(1_000)
        assert raised.value.code is Code.BUSY
        await committer.until_reached(committer.reach)


async def test_a_sequencer_has_the_log_confirm_it_once_for_each_cursor(shared):
    with sequencing(shared, confirms=True) as committer:
        before = shared.log.head.number
        await committer.until_reached(1_000)
        assert (before + 1, 0) == (shared.log.head.number, committer.reach)
        await committer.durable()
        await committer.until_reached(0)
        assert shared.log.head.number == before + 1


async def test_nothing_is_confirmed_where_no_other_process_appends(shared):
    with sequencing(shared) as committer:
        before = shared.log.head.number
        await committer.until_reached(1_000)
        assert shared.log.head.number == before
