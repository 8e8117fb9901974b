"""What a WebSocket to a real server streams (C1-C3, C8, C10-C12, C14, C24)."""

import asyncio

import pytest
from websockets.exceptions import ConnectionClosed

from http_server import HttpServer, hear
from rowcast.codecs import decode, encode
from rowcast.core.events import DELETE, MESSAGE, PATCH
from rowcast.store.store import Keep
from serving import PATIENCE_SECONDS


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        yield running


async def end_of(connecting):
    """Return the code and the reason with which the server closes."""
    async with connecting as peer:
        with pytest.raises(ConnectionClosed) as caught:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    await peer.recv()
    return caught.value.rcvd.code, caught.value.rcvd.reason


# -- a plain connection ---------------------------------------------------------------------------


async def test_a_connection_to_a_record_streams_it(doors):
    """C1, C2, C3, C12: what is sent is the same as over SSE."""
    await doors.write("Dog/1", value={"n": 0})
    async with doors.ws("/Dog/1") as peer:
        first = await hear(peer, 2)
        await doors.write("Dog/1", PATCH, {"m": 1})
        await doors.write("Dog/1", MESSAGE, {"hi": 1})
        await doors.write("Dog/1", DELETE)
        rest = await hear(peer, 3)
    kinds = [each["kind"] for each in first + rest]
    assert ["snapshot", "current", "patch", "message", "delete"] == kinds
    assert ["cursor", "topic", "kind", "version", "value"] == list(first[0])


@pytest.mark.parametrize("url", ["/Dog/", "/?topic=Dog/%23", "/Dog/%23"])
async def test_a_connection_to_a_table_streams_all_of_it(doors, url):
    """C8."""
    await doors.write("Dog/1")
    async with doors.ws(url) as peer:
        await hear(peer, 2)
        await doors.write("Dog/a/b")
        assert ["Dog/a/b"] == [each["topic"] for each in await hear(peer)]


@pytest.mark.parametrize(
    ("url", "options", "media_type", "agreed"),
    [
        ("/Dog/1?format=cbor", {}, "application/cbor", None),
        ("/Dog/1?format=msgpack", {}, "application/x-msgpack", None),
        ("/Dog/1", {"subprotocols": ["rowcast.cbor"]}, "application/cbor", "rowcast.cbor"),
        ("/Dog/1", {"subprotocols": ["x", "rowcast.msgpack"]}, "application/x-msgpack",
         "rowcast.msgpack"),
        ("/Dog/1", {"additional_headers": {"accept": "application/cbor"}}, "application/cbor",
         None),
    ],
)  # fmt: skip
async def test_each_client_has_its_format(doors, url, options, media_type, agreed):
    """C14: binary formats are binary frames."""
    await doors.write("Dog/1", value={"n": 1})
    async with doors.ws(url, **options) as peer:
        frame = await peer.recv()
        assert agreed == peer.subprotocol
        await peer.send(encode({"id": 1, "op": "subscribe", "topic": "Cat/#"}, media_type))
        await peer.recv()  # current of the own stream
        ack, mark = [decode(await peer.recv(), media_type) for _ in range(2)]
    envelope = decode(frame, media_type)
    assert ["cursor", "topic", "kind", "version", "value"] == list(envelope)
    assert {"n": 1} == envelope["value"]
    assert (1, 1) == (ack["ack"], ack["subscription"])
    assert ("current", 1) == (mark["kind"], mark["subscription"])
    assert "subscription" == list(mark)[-1]


async def test_a_json_subprotocol_is_agreed_to(doors):
    async with doors.ws("/", subprotocols=["rowcast.json"]) as peer:
        assert "rowcast.json" == peer.subprotocol


@pytest.mark.parametrize("size", [0, 100, 125, 126, 300, 65_535, 65_536, 90_000])
async def test_frames_of_every_length_arrive(doors, size):
    """RFC 6455, 5.2: three forms of length."""
    async with doors.ws("/Dog/1?start=new") as peer:
        await peer.recv()
        await doors.write("Dog/1", value={"x": "y" * size})
        (envelope,) = await hear(peer)
    assert size == len(envelope["value"]["x"])


async def test_a_connection_goes_on_after_its_cursor(doors):
    """C10: the headers say so to who can read them; no reset says so to all."""
    events = await doors.writes(6)
    cursor = doors.cursor(events[2].seq)
    async with doors.ws(f"/Dog/1?since={cursor}") as peer:
        headers = peer.response.headers
        values = [each["value"]["n"] for each in await hear(peer, 3)]
    assert ("true", cursor) == (headers["rowcast-resumed"], headers["rowcast-position"])
    assert [3, 4, 5] == values


async def test_a_cursor_that_is_too_old_gives_one_reset(doors):
    """C11."""
    await doors.writes(10)
    doors.store.trim(doors.registry.route("Dog/1").table, Keep(events=3), 0, 100)
    async with doors.ws(f"/Dog/1?since={doors.cursor(2)}") as peer:
        assert "false" == peer.response.headers["rowcast-resumed"]
        kinds = [each["kind"] for each in await hear(peer, 3)]
    assert ["reset", "snapshot", "current"] == kinds


async def test_a_connection_may_begin_with_the_last_events(doors):
    """C24."""
    await doors.writes(6)
    async with doors.ws("/Dog/?previousCount=2") as peer:
        assert [4, 5] == [each["value"]["n"] for each in await hear(peer, 2)]
