"""Frames of a WebSocket that cost more than they weigh: floods, pings, fragments (L11)."""

import pytest
import uvicorn
from uvicorn.server import ServerState

from rowcast.doors.http.socket_pings import SocketPings
from rowcast.doors.http.uvicorn_samples import UPGRADE, Wire
from rowcast.net.sliced_reads import READ_BYTES
from serving import until

TEXT, BINARY, MORE, PING = 1, 2, 0, 9


def frame(opcode, data=b"", *, last=True):
    """Return a frame of a client, with a mask that changes nothing."""
    return bytes((last << 7 | opcode, 0x80 | len(data), 0, 0, 0, 0)) + data


class Peer(Wire):
    """A transport that notes whether it is read."""

    reading = True

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def close(self):
        """Do nothing: what it wrote is looked at."""

    def pongs(self):
        return self.written.count(b"\x8a\x00")


@pytest.fixture
async def opened():
    """Return a WebSocket of uvicorn, its transport, and the messages that its application got."""
    heard = []

    async def application(_scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] != "websocket.disconnect":
            heard.append(message.get("text", message.get("bytes")))

    config = uvicorn.Config(
        application, lifespan="off", log_config=None, ws_per_message_deflate=False
    )
    config.load()
    made, peer = SocketPings(config, ServerState(), {}), Peer()
    made.connection_made(peer)
    made.data_received(UPGRADE)
    await until(lambda: peer.written.endswith(b"\r\n\r\n"))
    yield made, peer, heard
    made.connection_lost(None)
    await until(lambda: not made.tasks)


async def test_l11_a_flood_of_small_frames_leaves_others_their_turns(opened):
    """L11: of many empty frames a slice is parsed, and nothing more is read before the end."""
    made, peer, _ = opened
    flood = frame(PING) * (4 * READ_BYTES // len(frame(PING)))
    made.data_received(flood)
    assert 0 < peer.pongs() <= READ_BYTES // len(frame(PING))
    assert not peer.reading
    await until(lambda: peer.reading)
    assert len(flood) // len(frame(PING)) == peer.pongs()


async def test_l11_who_takes_no_pongs_is_sent_the_newest(opened):
    """L11: a peer that reads nothing fills no memory with answers (RFC 6455, 5.5.3)."""
    made, peer, heard = opened
    before = len(peer.written)
    made.pause_writing()
    for _ in range(3):
        made.data_received(frame(PING, b"a") + frame(PING, b"b") + frame(TEXT, b"x"))
        await until(lambda: peer.reading)
    assert before == len(peer.written)
    made.resume_writing()
    assert b"\x8a\x01b" == peer.written[before:]
    made.data_received(frame(PING, b"c"))
    assert b"\x8a\x01b\x8a\x01c" == peer.written[before:]
    assert ["x"] * 3 == heard


@pytest.mark.parametrize(("opcode", "whole"), [(TEXT, "abcd"), (BINARY, b"abcd")])
async def test_l11_fragments_are_one_object(opened, opcode, whole):
    """L11: a frame of no data has six bytes, and as an object of its own it had a hundred."""
    made, _, heard = opened
    made.data_received(frame(opcode, b"a", last=False) + frame(MORE, last=False) * 1000)
    made.data_received(frame(MORE, b"b", last=False) + frame(PING) + frame(MORE, b"c", last=False))
    assert [b"abc"] == made.frames
    made.data_received(frame(MORE, b"d") + frame(opcode, b"e"))
    await until(lambda: len(heard) == 2)
    assert whole == heard[0]
    assert type(whole) is type(heard[0])


async def test_l11_after_a_frame_that_is_none_nothing_more_is_parsed(opened):
    """L11: of what follows a frame that cannot be read, no slice is parsed."""
    made, peer, _ = opened
    made.data_received(b"\x83\x80" + frame(PING) * READ_BYTES)
    await until(lambda: peer.reading)
    assert peer.written.endswith(b"invalid opcode")
