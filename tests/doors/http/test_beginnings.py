"""Where a stream begins: a cursor that a listing told is good, before it is announced (M1)."""

import pytest

from http_server import HttpServer, hear


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        yield running


async def test_a_cursor_on_the_disk_that_is_not_announced_is_no_mistake(doors, monkeypatch):
    """M1: a reader goes on from what a listing has shown, without a RESET, and misses nothing."""
    cursor = (await doors.write("Dog/1")).seq
    reader = doors.kernel.reader
    announced = reader.announced
    monkeypatch.setattr(reader, "announced", lambda: min(announced(), cursor - 1))
    async with doors.ws(f"/Dog/?since={doors.kernel.cursor(cursor)}") as peer:
        monkeypatch.undo()
        await doors.write("Dog/2")
        (event,) = await hear(peer)
    assert ("put", "Dog/2") == (event["kind"], event["topic"])
