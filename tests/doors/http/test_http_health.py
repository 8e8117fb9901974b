"""Readiness: what it looks at, and that asking costs little (O4)."""

import asyncio

import pytest

from build import Server
from rowcast.core.errors import Code, Error
from rowcast.core.overload_limits import READY_PROBE_SECONDS
from rowcast.doors.http.documents.readiness import ReadProbe, StoreProbe


async def test_the_disk_is_asked_with_a_write_and_not_too_often():
    room = Server()
    probe = StoreProbe(room.committer, room.now)
    assert [""] * 20 == await asyncio.gather(*(probe() for _ in range(20)))
    assert "" == await probe()
    assert 1 == room.committer.commits
    probe._asked_at -= READY_PROBE_SECONDS + 1
    assert "" == await probe()
    assert 2 == room.committer.commits


def refuse(_what):
    raise Error(Code.BUSY, "the disk is full")


async def test_a_disk_that_refuses_and_one_that_hangs():
    """A refusal is asked again at once: it may be over; a disk that hangs holds nobody for long."""
    room = Server()
    room.store.fault = refuse
    probe = StoreProbe(room.committer, room.now)
    assert "" != await probe()
    room.store.fault = None
    assert "" == await probe()
    probe._wait_seconds = 0.01
    room.writer.held = True
    probe._asked_at -= READY_PROBE_SECONDS + 1
    assert "no write was done" in await probe()
    room.writer.release()
    assert "" == await probe()


async def test_11a_a_refused_commit_is_seen_at_once_and_until_as_much_is_taken():
    """What was found out a moment ago, and what a few bytes tell, says nothing of a full disk."""
    room = Server()
    probe = StoreProbe(room.committer, room.now)
    assert "" == await probe()
    room.store.fault = refuse
    with pytest.raises(Error):
        await room.put("Dog/1", b'{"name": "%s"}' % (b"x" * 10_000))
    assert "the disk is full" == await probe()
    room.store.fault = None
    await room.put("Dog/1", b"{}")
    assert "the disk is full" == room.committer.disk.refused
    assert ["", ""] == [await probe(), room.committer.disk.refused]


async def test_11a_a_commit_as_large_as_the_refused_one_shows_that_there_is_room():
    room = Server()
    room.store.fault = refuse
    with pytest.raises(Error):
        await room.put("Dog/1", b'{"name": "Rex"}')
    room.store.fault = None
    await room.put("Dog/1", b'{"name": "Max"}')
    assert "" == room.committer.disk.refused


async def test_p1_reads_that_are_not_answered_are_told_with_how_many_wait():
    """Many who ask share one read, so that asking does not make it worse."""
    room = Server()
    probe = ReadProbe(room.reader, wait_seconds=0.01)
    room.readers.held = True
    told = await asyncio.gather(*(probe() for _ in range(5)))
    assert {"no read was done within 0.01 s; 1 are under way and 0 wait"} == set(told)
    room.readers.release()
    assert "" == await probe()


async def test_p1_a_disk_that_cannot_be_read_is_told(monkeypatch):
    room = Server()

    def fails(*_):
        raise Error(Code.BUSY, "the disk failed")

    monkeypatch.setattr(room.store, "get", fails)
    assert "the disk failed" == await ReadProbe(room.reader)()
