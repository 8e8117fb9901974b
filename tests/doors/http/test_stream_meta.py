"""Where an event is from, on SSE and WebSocket, for those who ask (A17)."""

import json

import pytest

from http_server import HttpServer
from rowcast.codecs import CBOR, MSGPACK, decode, encode
from rowcast.core.clock import milliseconds_of
from rowcast.core.events import DELETE, MESSAGE, PATCH
from rowcast.routes.resource import Resource

NAMES = {"_seq", "_ts", "_version", "_origin", "_client", "_op"}


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        yield running


def meta(envelope):
    return {name: item for name, item in envelope.items() if name.startswith("_")}


def expected(event, kind):
    return {
        "_seq": event.seq, "_ts": milliseconds_of(event.version), "_version": event.version,
        "_origin": "0badcafe", "_client": event.client, "_op": kind,
    }  # fmt: skip


async def test_a17_an_event_stream_tells_where_events_are_from(doors):
    """A17: of the records as they are, and of all that happens; the marks have none."""
    first = await doors.write("Dog/1")
    async with doors.sse("/Dog/?meta=true") as stream:
        snapshot, current = [json.loads(item["data"]) for item in await stream.next(2)]
        written = [await doors.write("Dog/1", kind) for kind in (PATCH, MESSAGE, DELETE)]
        told = [json.loads(item["data"]) for item in await stream.next(3)]
    assert expected(first, "put") == meta(snapshot)
    assert {} == meta(current)
    assert ["patch", "message", "delete"] == [item["_op"] for item in told]
    for event, item in zip(written, told, strict=True):
        assert expected(event, event.kind) == meta(item)
        assert ("value" in item) == (event.kind != DELETE)


async def test_a17_readers_who_do_not_ask_share_no_frame_with_those_who_do(doors):
    async with doors.sse("/Dog/?meta=true&start=new") as asks, doors.sse("/Dog/?start=new") as not_:
        await asks.next(1)
        await not_.next(1)
        await doors.write("Dog/1", value={"n": 1})
        with_, without = [json.loads((await s.next(1))[0]["data"]) for s in (asks, not_)]
    assert NAMES == with_.keys() - without.keys()
    assert without == {name: with_[name] for name in without}


@pytest.mark.parametrize("media_type", [CBOR, MSGPACK])
async def test_a17_in_binary_and_for_a_numbered_subscription(doors, media_type):
    name = "cbor" if media_type == CBOR else "msgpack"
    async with doors.ws(f"/?meta=true&format={name}") as peer:
        command = {"id": 1, "op": "subscribe", "topic": "Dog/+", "start": "new"}
        await peer.send(encode(command, media_type))
        for _ in range(2):  # the answer, the mark
            await peer.recv()
        event = await doors.write("Dog/1", value={"n": 1})
        told = decode(await peer.recv(), media_type)
    assert expected(event, "put") == meta(told)
    assert (1, {"n": 1}) == (told["subscription"], told["value"])


async def test_a17_on_a_websocket_also_for_get(doors):
    event = await doors.write("Dog/1", value={"n": 1})
    async with doors.ws("/?meta=true") as peer:
        await peer.send('{"id": 1, "op": "get", "topic": "Dog/1"}')
        told = json.loads(await peer.recv())
    assert expected(event, "put") == meta(told)


class Watched(Resource):
    """Streams its table by code of its own."""

    path = "Dog"

    def connect(self, incoming=None):
        return super().connect()


@pytest.mark.parametrize("door", ["sse", "ws"])
async def test_a17_events_that_a_resource_passes_on_have_it_too(door):
    async with HttpServer([Watched]) as doors:
        event = await doors.write("Dog/1")
        if door == "sse":
            async with doors.sse("/Dog/?meta=true") as stream:
                told = json.loads((await stream.next(1))[0]["data"])
        else:
            async with doors.ws("/Dog/?meta=true") as peer:
                told = json.loads(await peer.recv())
    assert expected(event, "put") == meta(told)


async def test_a17_a_switch_is_true_or_false(doors):
    answer = await doors.http.get("/Dog/?meta=maybe", headers={"accept": "text/event-stream"})
    assert (400, "invalid") == (answer.status_code, answer.json()["code"])
