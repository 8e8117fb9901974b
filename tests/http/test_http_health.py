"""Readiness: what it looks at, and that asking costs little (FEATURES O4)."""

import asyncio

from app.core.errors import Code, Error
from app.core.overload_limits import READY_PROBE_SECONDS
from app.http.documents.health import StoreProbe
from engine.engine_room import Room


async def test_the_disk_is_asked_with_a_write_and_not_too_often():
    room = Room()
    probe = StoreProbe(room.committer, room.now)
    assert [""] * 20 == await asyncio.gather(*(probe() for _ in range(20)))
    assert "" == await probe()
    assert 1 == room.committer.commits
    probe._asked_at -= READY_PROBE_SECONDS + 1
    assert "" == await probe()
    assert 2 == room.committer.commits


def refuse(_what):
    raise Error(Code.BUSY, "the disk is full")


async def test_a_disk_that_refuses_and_one_that_hangs(monkeypatch):
    """A refusal is asked again at once: it may be over; a disk that hangs holds nobody for long."""
    room = Room()
    room.store.fault = refuse
    probe = StoreProbe(room.committer, room.now)
    assert "" != await probe()
    room.store.fault = None
    assert "" == await probe()
    monkeypatch.setattr("app.http.documents.health.READY_WAIT_SECONDS", 0.01)
    room.writer.held = True
    probe._asked_at -= READY_PROBE_SECONDS + 1
    assert "no write was done" in await probe()
    room.writer.release()
    assert "" == await probe()
