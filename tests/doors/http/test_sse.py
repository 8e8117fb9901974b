"""What an event stream of a real server brings (C2-C4, C8, C9, C12, C15, C17, C22)."""

import asyncio
import base64
import json

import pytest

from http_server import STREAM, HttpServer
from rowcast.codecs import decode
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT
from rowcast.doors.http.streams import sse
from serving import PATIENCE_SECONDS


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        yield running


def told(envelopes):
    return [(each["kind"], each["topic"]) for each in envelopes]


# -- what comes -----------------------------------------------------------------------------------


async def test_headers_come_before_the_first_event(doors):
    """C4, C9: a stream of a record that does not exist opens at once."""
    async with doors.sse("/Dog/none") as stream:
        headers = stream.response.headers
        assert 200 == stream.response.status_code
        assert "text/event-stream; charset=utf-8" == headers["content-type"]
        assert ("no-cache", "no") == (headers["cache-control"], headers["x-accel-buffering"])
        assert (doors.cursor(0), "false") == (
            headers["rowcast-position"],
            headers["rowcast-resumed"],
        )


@pytest.mark.parametrize(
    "url", ["/Dog/none", "/Dog/", "/Dog/?last=1", "/?topic=loose/%23", "/Dog/?format=cbor"]
)
async def test_head_is_answered_as_get_begins_and_no_stream_remains(doors, url):
    """RFC 9110, 9.3.2."""
    await doors.write("Dog/1")
    before = doors.counts
    async with doors.sse(url) as stream:
        wanted = dict(stream.response.headers)
    await doors.leave_nothing(before)
    answer = await doors.http.head(url, headers=STREAM)
    assert (answer.status_code, answer.content) == (200, b"")
    for name in ("date", "transfer-encoding"):
        wanted.pop(name)
    assert wanted.items() <= dict(answer.headers).items()
    assert before == doors.counts


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("text/event-stream;q=0, application/json", 200),
        ("application/json, Text/Event-Stream ; q=0.000", 200),
        ("text/event-stream;q=0", 406),
    ],
)
async def test_who_takes_no_stream_gets_none(doors, accept, status):
    """RFC 9110, 12.4.2: a weight of 0 is not acceptable; a stream would be waited for in vain."""
    await doors.write("Dog/1")
    async with asyncio.timeout(PATIENCE_SECONDS):
        got = await doors.http.get("/Dog/1", headers={"accept": accept})
    assert status == got.status_code
    assert "json" in got.headers["content-type"]


@pytest.mark.parametrize("accept", ["*/*;q=0, text/event-stream;q=0.001", "Text/Event-Stream;q=1"])
async def test_who_takes_a_stream_at_all_gets_it(doors, accept):
    async with doors.http.stream("GET", "/Dog/1", headers={"accept": accept}) as got:
        assert got.headers["content-type"].startswith("text/event-stream")


async def test_head_of_a_stream_that_get_would_not_get_is_refused(doors):
    for url in ("/?topic=$nonsense/%23", "/Dog/?since=x"):
        got = await doors.http.get(url, headers=STREAM)
        head = await doors.http.head(url, headers=STREAM)
        assert got.status_code == head.status_code >= 400


async def test_the_pause_before_a_reconnect_comes_first_and_differs(doors):
    """C17: spread over four times the wait, a quarter of all clients comes back in one."""
    pauses = []
    for _ in range(5):
        async with doors.sse("/Dog/1") as stream:
            pauses.append(int((await anext(stream))["retry"]))
    assert all(1000 <= pause < 5000 for pause in pauses)
    assert len(set(pauses)) > 1


async def test_the_record_comes_first_then_the_mark_then_what_happens(doors):
    """C2, C3, C12: only what a page must tell apart has an event line."""
    await doors.write("Dog/1", value={"n": 0})
    async with doors.sse("/Dog/1") as stream:
        first = await stream.next(2)
        await doors.write("Dog/1", PATCH, {"m": 1})
        await doors.write("Dog/1", MESSAGE, {"hi": 1})
        await doors.write("Dog/1", DELETE)
        rest = await stream.next(3)
    lines = [(b.get("event"), b.get("id"), json.loads(b["data"])["kind"]) for b in first + rest]
    assert [
        (None, None, "snapshot"),
        ("current", doors.cursor(1), "current"),
        (None, doors.cursor(2), "patch"),
        (None, doors.cursor(3), "message"),
        ("delete", doors.cursor(4), "delete"),
    ] == lines


async def test_the_envelope_has_its_members_in_order(doors):
    async with doors.sse("/Dog/1?start=new") as stream:
        await stream.next()
        event = await doors.write("Dog/1", PUT, b'{"a":\n 1,\r\n "b": "x\\ny"}')
        (block,) = await stream.next()
    assert (
        f'{{"cursor":"{doors.cursor(1)}","topic":"Dog/1","kind":"put",'
        f'"version":{event.version},"value":{{"a":  1,   "b": "x\\ny"}}}}'
    ) == block["data"]


async def test_a_delete_and_a_mark_have_no_value(doors):
    async with doors.sse("/Dog/1?start=new") as stream:
        (mark,) = await stream.values()
        await doors.write("Dog/1")
        await doors.write("Dog/1", DELETE)
        _, deleted = await stream.values(2)
    assert ["cursor", "topic", "kind", "version"] == list(mark) == list(deleted)
    assert (None, None) == (mark["topic"], mark["version"])


async def test_an_event_that_is_not_logged_has_no_cursor(doors):
    async with doors.sse("/Chat/1?start=new") as stream:
        await stream.next()
        await doors.write("Chat/1", MESSAGE, {"hi": 1})
        (block,) = await stream.next()
    assert "id" not in block
    assert json.loads(block["data"])["cursor"] is None


async def test_what_is_hidden_is_left_out_and_types_are_spelled(doors):
    async with doors.sse("/Sensor/") as stream:
        await stream.next()
        value = {"at": "2026-01-02T03:04:05Z", "raw": "AAE=", "secret": "x"}
        await doors.write("Sensor/1", value=value)
        (envelope,) = await stream.values()
    assert {"id": "1", "at": "2026-01-02T03:04:05Z", "raw": "AAE="} == envelope["value"]


@pytest.mark.parametrize(
    ("payload", "media_type", "value"),
    [
        (b"plain words", "text/plain", "plain words"),
        (b"\xff\x00", "application/octet-stream", {"$bytes": "/wA="}),
        (b"\xff\x00", None, {"$bytes": "/wA="}),
        (b"21.5", None, 21.5),
        (b"not json", None, "not json"),
        (b"{broken", "application/json", {"$bytes": "e2Jyb2tlbg=="}),
        (b"\xa1ax\x01", "application/cbor", {"x": 1}),
    ],
    ids=["text", "bytes", "unsaid bytes", "number", "words", "not what it says", "cbor"],
)
async def test_an_open_topic_may_hold_anything(doors, payload, media_type, value):
    async with doors.sse("/home/kitchen?start=new") as stream:
        await stream.next()
        await doors.write("home/kitchen", PUT, payload, media_type)
        (envelope,) = await stream.values()
    assert value == envelope["value"]


@pytest.mark.parametrize(
    ("url", "topics"),
    [
        ("/Dog/", {"Dog/1", "Dog/a/b"}),
        ("/Dog/%2B", {"Dog/1"}),
        ("/?topic=%2B/1", {"Dog/1", "Cat/1"}),
        ("/?topic=%23", {"Dog/1", "Dog/a/b", "Cat/1", "x"}),
        ("/Dog/1?topic=x", {"Dog/1", "x"}),
    ],
)
async def test_filters_select_records_and_events_alike(doors, url, topics):
    """C8."""
    for topic in ("Dog/1", "Dog/a/b", "Cat/1", "x"):
        await doors.write(topic)
    async with doors.sse(url) as stream:
        records = await stream.values(len(topics) + 1)
        for topic in ("Dog/1", "Dog/a/b", "Cat/1", "x"):
            await doors.write(topic)
        events = await stream.values(len(topics))
    assert topics == {each["topic"] for each in records[:-1]} == {each["topic"] for each in events}
    assert "current" == records[-1]["kind"]


async def test_everything_comes_in_the_order_of_the_log(doors):
    """C22."""
    async with doors.sse("/?topic=Dog/%23&topic=Cat/%23&start=new") as stream:
        await stream.next()
        writes = [doors.write(f"{'Dog' if n % 3 else 'Cat'}/{n % 5}") for n in range(100)]
        await asyncio.gather(*writes)
        cursors = [each["cursor"] for each in await stream.values(100)]
    assert [doors.cursor(n) for n in range(1, 101)] == cursors


@pytest.mark.parametrize(
    ("query", "accept"),
    [("?format={}", "text/event-stream"), ("", "text/event-stream, application/{}")],
    ids=["query", "accept"],
)
@pytest.mark.parametrize("name", ["cbor", "msgpack"])
async def test_binary_formats_are_base64_and_said_in_a_header(doors, name, query, accept):
    """C15."""
    media_type = {"cbor": "application/cbor", "msgpack": "application/x-msgpack"}[name]
    url = "/Dog/1" + query.format(name)
    await doors.write("Dog/1", value={"n": 1})
    async with doors.sse(url, accept=accept.format(name)) as stream:
        blocks = await stream.next(2)
        assert media_type == stream.response.headers["event-format"]
    envelope = decode(base64.b64decode(blocks[0]["data"]), media_type)
    assert ["cursor", "topic", "kind", "version", "value"] == list(envelope)
    assert {"n": 1} == envelope["value"]


async def test_one_frame_is_made_for_all_readers(doors, monkeypatch):
    """D64."""
    made = []
    block = sse.Frames.block
    monkeypatch.setattr(sse.Frames, "block", lambda self, e: made.append(e) or block(self, e))
    async with doors.sse("/Dog/1?start=new") as one, doors.sse("/Dog/?start=new") as two:
        await one.next()
        await two.next()
        made.clear()
        await doors.write("Dog/1")
        assert await one.next() == await two.next()
    assert 1 == len(made)
