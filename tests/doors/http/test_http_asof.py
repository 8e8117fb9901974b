"""Records as they were over REST (B14)."""

import csv
import io
import json

import pytest

from asgi import EPOCH, asgi
from rowcast.codecs import CBOR, JSON, NDJSON
from rowcast.core.callers import Grants
from rowcast.store.store import Keep


@pytest.fixture
async def rest():
    """Three dogs, of which one changed and one ended, and an undeclared topic that changed."""
    async with asgi() as opened:
        for number in range(3):
            body = {"name": f"Rex{number}", "age": number, "secret": "x"}
            await opened.put(f"/Dog/{number}", json.dumps(body).encode())
        await opened.put("/home/temp", b"20", content_type="text/plain")
        await opened.patch("/Dog/1", b'{"age": 50}')
        await opened.delete("/Dog/2")
        await opened.put("/home/temp", b"21", content_type="text/plain")
        yield opened


def ages(answer):
    assert answer.status == 200, answer.body
    return {row["id"]: row["age"] for row in answer.value}


def at(number):
    return f"asof={EPOCH}:{number}"


async def test_b14_one_record_is_answered_like_any_other(rest):
    """B14: with its own cursor as ETag, in any format, in parts and with metadata."""
    got = await rest.get(f"/Dog/1?{at(4)}")
    assert (200, f'"{EPOCH}:2"', 1) == (got.status, got.etag, got.value["age"])
    assert b"secret" not in got.body
    assert 50 == (await rest.get(f"/Dog/1?{at(5)}")).value["age"]
    assert 1 == (await rest.get(f"/Dog/1.age?{at(4)}")).value
    assert {"id": "2", "name": "Rex2", "age": 2} == (await rest.get(f"/Dog/2.cbor?{at(5)}")).value
    assert "Rex1" == (await rest.get(f"/Dog/1?{at(4)}&select=name")).value
    assert 2 == (await rest.get(f"/Dog/1?{at(4)}&meta=true")).value["_seq"]
    assert b"20" == (await rest.get(f"/home/temp?{at(5)}")).body


async def test_b14_what_was_not_there_is_not_found(rest):
    for path in (f"/Dog/1?{at(1)}", f"/Dog/2?{at(6)}", f"/home/temp?{at(3)}", "/Dog/0?asof=0"):
        got = await rest.get(path)
        assert (404, "not_found") == (got.status, got.code)
        assert "then" in got.value["detail"]
    assert 0 == (await rest.get("/Dog/0?asof=now")).value["age"]


async def test_b14_a_table_is_listed_as_it_was(rest):
    """B14: by id; conditions, parts and a limit are those of any listing."""
    listed = [ages(await rest.get(f"/Dog/?{at(n)}")) for n in (0, 2, 4, 5, 6)]
    then = {"0": 0, "1": 1, "2": 2}
    assert [{}, {"0": 0, "1": 1}, then, then | {"1": 50}, {"0": 0, "1": 50}] == listed
    assert {"1": 1, "2": 2} == ages(await rest.get(f"/Dog/?{at(4)}&age=gt=0"))
    assert {"1": 1} == ages(await rest.get(f"/Dog/?{at(4)}&age=gt=0&limit=1"))
    assert [0, 1, 2] == (await rest.get(f"/Dog/?{at(4)}&select=age")).value
    assert {"0": 0, "1": 50} == ages(await rest.get("/Dog/?asof=now"))


@pytest.mark.parametrize("media_type", [JSON, CBOR, NDJSON])
async def test_b14_in_every_format_and_in_pieces(rest, media_type):
    rest.kernel.reader.table_scan_records = 1
    got = await rest.get(f"/Dog/?{at(4)}", accept=media_type)
    assert got.pieces >= 3
    assert {"0": 0, "1": 1, "2": 2} == ages(got)
    assert f"{EPOCH}:4" == got.headers["rowcast-position"]
    sheet = await rest.get(f"/Dog/.csv?{at(4)}")
    assert ["0", "1", "2"] == [r["age"] for r in csv.DictReader(io.StringIO(sheet.body.decode()))]


async def test_b14_head_has_the_headers(rest):
    got = await rest.head(f"/Dog/?{at(4)}")
    assert (200, b"", f"{EPOCH}:4") == (got.status, got.body, got.headers["rowcast-position"])
    assert 404 == (await rest.head(f"/Dog/2?{at(6)}")).status


async def test_b14_beyond_the_log_it_is_gone_with_a_sentence(rest):
    """B14: but what has not changed since is known still."""
    rest.store.trim(rest.kernel.registry.route("Dog/1").table, Keep(events=2), 0, 100)
    got = await rest.get(f"/Dog/1?{at(3)}")
    assert (410, "gone", f"{EPOCH}:3") == (got.status, got.code, got.value["oldest"])
    assert "the log no longer has all of what 'Dog/1' was before" in got.value["detail"]
    assert 410 == (await rest.get(f"/Dog/?{at(3)}")).status
    assert 410 == (await rest.get("/Dog/?asof=deadbeef:1")).status
    assert 0 == (await rest.get(f"/Dog/0?{at(1)}")).value["age"]


async def test_b14_who_may_not_read_may_not_read_the_past():
    async with asgi(grants=Grants(read=False, write=True)) as opened:
        for path in ("/Dog/1?asof=now", "/Dog/?asof=now", "/home/x?asof=now"):
            assert 401 == (await opened.get(path)).status
