"""M11: $SYS/streams, the index of all rows, and what is said where there is nothing."""

import asyncio
import json

import pytest
from websockets.exceptions import ConnectionClosed

from http_server import HttpServer
from rowcast.doors.http.streams.rows import STREAMS
from serving import PATIENCE_SECONDS


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        yield running


async def until(watcher, wanted):
    """Return the first of a table's events that is wanted."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            told = json.loads(await watcher.recv())
            if told["topic"] is not None and wanted(told):
                return told


async def test_a_stream_is_a_row_until_it_is_deleted(doors):
    """The reader is told who ended it; nothing of it is left."""
    async with doors.ws("/Dog/") as peer:
        (row,) = (await doors.http.get(f"/{STREAMS}/")).json()
        assert ("ws", "/Dog/", ["Dog/#"]) == (row["door"], row["path"], row["filters"])
        assert 204 == (await doors.http.delete(f"/{STREAMS}/{row['id']}")).status_code
        with pytest.raises(ConnectionClosed) as caught:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    await peer.recv()
    assert (4403, "an administrator ended this stream") == (
        caught.value.rcvd.code, caught.value.rcvd.reason,
    )  # fmt: skip
    await doors.until(lambda: not doors.edge.watch.open)
    assert 404 == (await doors.http.delete(f"/{STREAMS}/{row['id']}")).status_code
    assert [] == (await doors.http.get(f"/{STREAMS}/")).json()


async def test_the_rows_can_be_watched(doors):
    async with doors.ws(f"/{STREAMS}/") as watcher:
        async with doors.ws("/Dog/1"):
            opened = await until(watcher, lambda told: told["value"]["path"] == "/Dog/1")
            assert ("put", "ws") == (opened["kind"], opened["value"]["door"])
        closed = await until(watcher, lambda told: told["kind"] == "delete")
        assert opened["topic"] == closed["topic"]


async def test_the_index_leads_to_rows_and_a_misspelt_one_to_the_nearest(doors):
    rows = {item["path"]: item["rows"] for item in (await doors.http.get("/$SYS/")).json()}
    assert "DELETE" in rows[f"/{STREAMS}/"]
    told = await doors.http.get("/$SYS/streems/")
    assert (404, True) == (told.status_code, f'"{STREAMS}"?' in told.json()["detail"])
    assert "/$SYS/ lists" in (await doors.http.get("/$SYS/qqq")).json()["detail"]
