"""A walk over many retained messages in constant memory (E9); a million: scripts/retained."""

import resource
from pathlib import Path

import pytest

from build import Server
from rowcast.core.events import PUT, Event
from rowcast.features.retained.retainer import Retained
from rowcast.store.sqlite import SqlStore

COUNT = 100_000
GROWTH_BYTES_MAX = 20_000_000


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.slow
async def test_e9_many_matches_take_no_memory(tmp_path):
    store = SqlStore(tmp_path)
    room = Server((), store=store)
    for start in range(1, COUNT, 1_000):
        numbers = range(start, start + 1_000)
        store.commit(
            [
                Event(f"a/{n % 1000}/{n}", PUT, b"x" * 100, None, 1, True, seq=n, version=n)
                for n in numbers
            ]
        )
    retainer = Retained(room.kernel, room.now)
    assert COUNT == await retainer.size()
    await retainer.match_messages("#")
    before, most, seen = resident_bytes(), 0, 0
    async for messages in retainer.pages("a/+/#"):
        seen += len(messages)
        most = max(most, resident_bytes() - before)
    store.close()
    assert (COUNT, True) == (seen, most < GROWTH_BYTES_MAX)
