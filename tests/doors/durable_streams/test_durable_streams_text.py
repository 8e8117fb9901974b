"""Text of durable streams as Server-Sent Events, whose readers decode UTF-8 (V7)."""

import pytest
from test_durable_streams_door import open_edge

from asgi_streams import EventStream
from build import turns
from rowcast.doors.durable_streams.pieces import count_of_cut

TEXT = {"content_type": "text/plain"}
EURO = "€".encode()


@pytest.mark.parametrize(
    ("messages", "count"),
    [
        ([], 0),
        ([b"a"], 0),
        ([b"a", EURO], 0),
        ([b"a", EURO[:1]], 1),
        ([b"a", EURO[:2]], 1),
        ([b"a", EURO[:1], EURO[1:2]], 2),
        ([b"a", *(bytes([each]) for each in "🐕".encode()[:3])], 3),
        ([b"a", *(bytes([each]) for each in "🐕".encode())], 0),
        ([b"a", b"\xff"], 0),
        ([b"\xc3", b"\xc3"], 1),
    ],
)
def test_v7_a_character_is_cut_when_its_end_is_missing(messages, count):
    assert count == count_of_cut(messages)


class Reader(EventStream):
    """A reader of text."""

    def __init__(self, home):
        self.home = home
        self.open("/$streams/s/1", "offset=-1&live=sse")

    async def text(self):
        """Return all that it was sent: the data, decoded as a browser decodes it."""
        await turns(60)
        body = b"".join(message.get("body", b"") for message in self.sent).decode(errors="replace")
        events = (event.split("\n") for event in body.split("\n\n"))
        return "".join(lines[1][5:] for lines in events if lines[0] == "event: data")


@pytest.mark.parametrize("first", [b"a", b"a" + EURO[:1]])
async def test_v7_a_character_in_two_appends_is_in_one_event(first):
    """V7: each event is decoded on its own, to what stands for bytes that are no character."""
    edge, _ = open_edge()
    await edge.put("/$streams/s/1", first, **TEXT)
    reader = Reader(edge)
    assert await reader.text() == ("a" if first == b"a" else "")
    for at in range(len(first) - 1, len(EURO)):
        await edge.post("/$streams/s/1", EURO[at : at + 1], **TEXT)
    assert await reader.text() == "a€"
    await edge.post("/$streams/s/1", EURO[:2], stream_closed="true", **TEXT)
    assert await reader.text() == "a€\ufffd", "no more comes"
    await reader.task


async def test_v7_an_offset_is_before_what_was_held_back():
    """V7: who connects again gets it with its end."""
    edge, _ = open_edge()
    await edge.put("/$streams/s/1", b"a", **TEXT)
    offset = (await edge.post("/$streams/s/1", b"b", **TEXT)).headers["stream-next-offset"]
    await edge.post("/$streams/s/1", EURO[:1], **TEXT)
    reader = Reader(edge)
    assert await reader.text() == "ab"
    assert offset.encode() in reader.sent[-1]["body"]
    await reader.cut()
