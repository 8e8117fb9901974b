"""What a cursor of another process may name before it is announced by the one that numbers."""

import time
from concurrent.futures import ThreadPoolExecutor

from store_cases import TABLES, Writer

from rowcast.bus.bus import Bus
from rowcast.core.clock import HybridClock
from rowcast.core.events import PUT
from rowcast.journal.opening import open_journal
from rowcast.kernel.sequencing import SequencingCommitter
from rowcast.reads.record_cache import RecordCache


async def test_what_is_appended_is_within_reach_before_it_is_announced(tmp_path):
    """A process that follows may have it, and its client come here, a moment earlier."""
    store = open_journal(tmp_path / "rowcast.db", time.time)
    store.open(TABLES)
    with ThreadPoolExecutor(1) as executor:
        parts = store, Bus(), RecordCache(), HybridClock(time.time), executor
        committer = SequencingCommitter(*parts, tables=TABLES)
        store.commit([Writer().event("u/1", PUT, b"x")])
        assert (1, 0) == (committer.reach, committer.announced)
    store.close()
