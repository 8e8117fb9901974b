"""Notices: what features have SSE and WebSocket streams send regularly, beside events."""

import json

import pytest

from http_server import STREAM, HttpServer, hear
from rowcast.routes.resource import Resource
from rowcast.seams.seams import StreamNotice

SECONDS = 0.01


class Clock(Resource):
    """Streams by its own code."""

    async def connect(self, incoming=None):
        for number in range(3):
            yield number


def notice(fields, name="pulse"):
    return StreamNotice(name, SECONDS, fields)


@pytest.fixture
async def doors():
    async with HttpServer(resources=[Clock]) as running:
        yield running


async def named(stream, name):
    """Return the next block of a stream with a name."""
    while True:
        for block in await stream.next():
            if block.get("event") == name:
                return block


async def test_sse_sends_a_notice_without_an_id(doors):
    doors.kernel.stream_notices.append(notice(lambda: {"head": doors.kernel.head}))
    await doors.write("Dog/1")
    async with doors.sse("/Dog/1") as stream:
        block = await named(stream, "pulse")
    assert "id" not in block
    assert {"head": doors.kernel.head} == json.loads(block["data"])


async def test_a_notice_is_made_anew_each_time(doors):
    count = iter(range(1_000_000))
    doors.kernel.stream_notices.append(notice(lambda: {"n": next(count)}))
    async with doors.sse("/Dog/1") as stream:
        first = json.loads((await named(stream, "pulse"))["data"])["n"]
        second = json.loads((await named(stream, "pulse"))["data"])["n"]
    assert first < second


async def test_events_go_on_between_notices(doors):
    doors.kernel.stream_notices.append(notice(dict))
    async with doors.sse("/Dog/1?start=new") as stream:
        await named(stream, "pulse")
        await doors.write("Dog/1", value={"n": 1})
        found = []
        while not found:
            found = [block for block in await stream.next() if block.get("id")]
    assert {"n": 1} == json.loads(found[-1]["data"])["value"]


async def test_a_websocket_is_sent_a_notice_in_its_format(doors):
    doors.kernel.stream_notices.append(notice(lambda: {"head": doors.kernel.head}))
    async with doors.ws("/Dog/1?start=new") as peer:
        while "event" not in (said := (await hear(peer))[0]):
            pass
    assert {"event": "pulse", "head": doors.kernel.head} == said


async def test_a_resource_that_streams_by_its_own_code_sends_only_its_own(doors):
    doors.kernel.stream_notices.append(notice(dict))
    answer = await doors.http.get("/Clock", headers=STREAM)
    assert "pulse" not in answer.text
