"""Heartbeats: a stream shows that it lives, and how far the log is."""

import asyncio
import json

import pytest
from websockets.asyncio.client import connect

from http_clients import http_client
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event
from rowcast.program.config import load_config
from serving import PATIENCE_SECONDS, application

ANN = Caller("ann", ALL)
OFTEN = {"heartbeats.seconds": 0.02, "mqtt.sys_interval": 0, "client_events.enabled": False}


@pytest.fixture
async def app(tmp_path):
    async with application(tmp_path, settings=OFTEN) as running:
        yield running


async def write(app):
    event = Event("Dog/1", PUT, b'{"name":"Rex"}', "application/json", 1, True)
    return (await app.kernel.write(event, ANN)).event.seq


async def beats(lines):
    """Give the blocks of an event stream that are heartbeats, as lines."""
    block = []
    async for line in lines:
        if line:
            block.append(line)
            continue
        if "event: heartbeat" in block:
            yield block
        block = []


async def test_sse_tells_the_head_of_the_log_and_moves_no_cursor(app):
    url = f"http://127.0.0.1:{app.http_port}/Dog/1"
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        http_client() as client,
        client.stream("GET", url, headers={"accept": "text/event-stream"}) as answer,
    ):
        heard = beats(answer.aiter_lines())
        first = await anext(heard)
        seq = await write(app)
        wanted = f'data: {{"head":"{app.kernel.cursor(seq)}"}}'
        while wanted not in first:
            first = await anext(heard)
    assert ["event: heartbeat", wanted] == first


async def test_a_websocket_is_told_too(app):
    seq = await write(app)
    url = f"ws://127.0.0.1:{app.http_port}/Dog/1?start=new"
    async with asyncio.timeout(PATIENCE_SECONDS), connect(url) as peer:
        while "event" not in (said := json.loads(await peer.recv())):
            pass
    assert {"event": "heartbeat", "head": app.kernel.cursor(seq)} == said


async def test_without_the_setting_there_is_no_such_feature(tmp_path):
    async with application(tmp_path) as running:
        assert "heartbeats" not in running.features
        assert [] == running.kernel.stream_notices


@pytest.mark.parametrize("value", ["-1", "true", "often"])
def test_a_period_is_a_number_of_seconds(value):
    with pytest.raises(Error, match=r"heartbeats\.seconds"):
        load_config(None, {}, {"heartbeats.seconds": value})
