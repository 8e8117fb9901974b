"""Files of snapshots over HTTP: whole, in ranges, and only those of the manifest (S1, S12)."""

import json
from pathlib import Path

import pytest
from exporting import Exporting
from made_up_snapshots import name_of, put_snapshot
from websockets.asyncio.client import connect

from rowcast.core.callers import ALL, Caller, Grants
from rowcast.core.errors import Error
from rowcast.features.hooks.hook import Hook
from rowcast.features.snapshots.snapshot_directory import SnapshotDirectory

CONTENT = bytes(range(256)) * 4_096
"""Several pieces."""
FILE = "Dog/part-00000.parquet"


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = Exporting(tmp_path / "data/snapshots", str(Path(__file__).parent), monkeypatch)
    put_snapshot(world.root, 7, CONTENT)
    return world


async def test_a_file_is_served_whole_and_in_parts(world):
    """S1: so that a reader elsewhere needs only the URL."""
    async with world.running():
        whole = await world.ask("GET", f"newest/{FILE}")
        assert (200, CONTENT) == (whole.status_code, whole.content)
        assert "application/vnd.apache.parquet" == whole.headers["content-type"]
        assert "bytes" == whole.headers["accept-ranges"]
        tag = whole.headers["etag"]
        for asked, part in [
            ("bytes=0-3", CONTENT[:4]),
            ("bytes=5-", CONTENT[5:]),
            ("bytes=-8", CONTENT[-8:]),
            (f"bytes=10-{2**40}", CONTENT[10:]),
        ]:
            got = await world.ask("GET", f"{name_of(7)}/{FILE}", headers={"range": asked})
            assert (206, part) == (got.status_code, got.content)
            assert f"/{len(CONTENT)}" in got.headers["content-range"]
        head = await world.ask("HEAD", f"newest/{FILE}")
        assert (str(len(CONTENT)), b"") == (head.headers["content-length"], head.content)
        seen = await world.ask("GET", f"newest/{FILE}", headers={"if-none-match": tag})
        assert (304, b"") == (seen.status_code, seen.content)
        page = put_snapshot(world.root, 12, b"pages", page=8)
        got = await world.ask("GET", f"changes/{page.name}/{FILE}")
        assert b"pages" == got.content


ODD = {
    f"bytes={len(CONTENT)}-": 416,
    "bytes=-0": 416,
    "bytes=0-1,4-5": 200,
    "bytes=5-4": 200,
    "lines=1-2": 200,
    "bytes=-": 200,
}


async def test_odd_ranges(world):
    """S1: what no byte is in is refused, what is no single range is the whole (RFC 9110, 14)."""
    async with world.running():
        for asked, status in ODD.items():
            got = await world.ask("GET", f"newest/{FILE}", headers={"range": asked})
            assert status == got.status_code, asked
            assert status == 200 or f"bytes */{len(CONTENT)}" == got.headers["content-range"]


ELSEWHERE = [
    "newest/../../schema.graphql",
    "newest/%2e%2e/%2e%2e/rowcast.db",
    "newest/Dog",
    "newest/Dog/part-00001.parquet",
    "newest//manifest.json",
    "changes",
    ".making-1/manifest.json",
    "nothing/manifest.json",
]


async def test_nothing_else_is_served(world):
    """S1: only what a manifest names, whatever the path says."""
    (world.root / ".making-1").mkdir()
    (world.root / ".making-1/manifest.json").write_text("{}")
    async with world.running():
        for path in ELSEWHERE:
            assert 404 == await world.status_of(f"/$SYS/snapshots/{path}"), path


async def test_a_file_that_was_begun_is_sent_to_its_end(world):
    """S12: a snapshot that is removed meanwhile is still read; and who came lately pins it."""
    async with world.running():
        name = f"newest/{FILE}"
        async with world.client.stream("GET", f"/{name}") as got:
            assert (await world.row("newest"))["pinned"]
            put_snapshot(world.root, 9)
            assert [] == SnapshotDirectory(world.root).keep(1)
            assert 204 == (await world.ask("DELETE", name_of(7))).status_code
            assert CONTENT == b"".join([piece async for piece in got.aiter_bytes()])
        assert 404 == (await world.ask("GET", f"{name_of(7)}/{FILE}")).status_code


async def test_a_websocket_is_told_to_use_http(world):
    """S1: a file is no value of a message."""
    async with world.running():
        url = str(world.client.base_url.copy_with(scheme="ws", path="/"))
        async with connect(url) as socket:
            command = {"id": 1, "op": "get", "topic": f"$SYS/snapshots/newest/{FILE}"}
            await socket.send(json.dumps(command))
            error = json.loads(await socket.recv())["error"]
        assert ("not_allowed", True) == (error["code"], "over HTTP" in error["detail"])


async def test_files_show_nobody_more_than_it_may_read(world):
    """S1, L12: where rules or hooks decide by row, and of the server's own, administrators only."""
    put_snapshot(world.root, 8, table="_retained")
    eve = Caller("eve", Grants(read=True, write=True), "http")
    ann = Caller("ann", ALL, "http")

    async def get(caller, path):
        resource = world.kernel.resource(f"$SYS/snapshots/{path}", caller)
        (await resource.get()).close()

    retained = f"{name_of(8)}/_retained/part-00000.parquet"
    async with world.running():
        await get(eve, f"{name_of(7)}/{FILE}")
        await get(ann, retained)
        with pytest.raises(Error, match="may not administer"):
            await get(eve, retained)
        world.kernel.hooks.add(Silence())
        await get(ann, f"{name_of(7)}/{FILE}")
        with pytest.raises(Error, match="may not administer"):
            await get(eve, f"{name_of(7)}/{FILE}")


class Silence(Hook):
    """Decides by topic what may be read."""

    def can_read(self, caller, topic):
        return not topic.startswith("Dog/")
