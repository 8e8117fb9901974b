"""Frames of Server-Sent Events in pieces of any size, and topics as paths (O10, A11)."""

import json
from base64 import b64encode

import pytest

from rowcast.codecs import CBOR, encode
from rowcast.core.errors import Code, Error
from rowcast_client.calls import topic_path
from rowcast_client.events import Frame, Frames, read_fields

STREAM = (
    ": hello\nretry: 2000\n\nid: a:1\nevent: delete\ndata: {\ndata:}\n\n:\n\n"
    "id: a:2\r\ndata: x\r\n\r\ndata: \u2028\n\n"
).encode()
FRAMES = [Frame("delete", "a:1", "{\n}"), Frame("", "a:2", "x"), Frame("", "a:2", "\u2028")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(STREAM)])
def test_frames_are_read_from_pieces_of_any_size(size):
    frames = Frames()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert FRAMES == [frame for piece in pieces for frame in frames.feed(piece)]
    assert 2.0 == frames.retry_seconds


def test_an_unfinished_frame_is_not_given():
    assert [] == list(Frames().feed(b"data: x\n"))


def test_a_line_without_end_is_refused():
    frames = Frames(line_bytes_max=10)
    assert [] == list(frames.feed(b"data: "))
    with pytest.raises(Error) as caught:
        list(frames.feed(b"x" * 10))
    assert Code.TOO_LARGE == caught.value.code


def test_fields_are_json_or_base64_of_another_format():
    fields = {"kind": "put", "value": b"\x00"}
    data = b64encode(encode(fields, CBOR)).decode()
    assert fields == read_fields(data, CBOR)
    assert {"kind": "put"} == read_fields(json.dumps({"kind": "put"}))
    with pytest.raises(Error, match="is no event"):
        read_fields("7")


@pytest.mark.parametrize(
    ("topic", "path"),
    [
        ("Dog/1", "/Dog/1"),
        ("/a//b/", "//a//b/"),
        ("a/../b/.", "/a/%2E%2E/b/%2E"),
        ("a?b/c#d/50%", "/a%3Fb/c%23d/50%25"),
        ("ä", "/%C3%A4"),
    ],
)
def test_a_topic_is_spelt_as_a_path(topic, path):
    """A11."""
    assert path == topic_path(topic)
