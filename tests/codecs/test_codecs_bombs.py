"""Bombs: small payloads that would cost much to read, in every format (L11)."""

import struct

import cbor2
import msgpack
import orjson
import pytest

from rowcast import codecs
from rowcast.core.errors import Code, Error
from rowcast.core.limits import DECODE_POSITION_BYTES_MAX, ROWS_PARTS_MAX, VALUE_PARTS_MAX

MANY = VALUE_PARTS_MAX + 1
HEAD = struct.pack(">I", MANY)
BOMBS = {
    "json lists": (codecs.JSON, b"[" + b"[]," * MANY + b"0]"),
    "json maps": (codecs.JSON, b'{"a":[' + b"{}," * MANY + b"0]}"),
    "json members": (codecs.JSON, orjson.dumps({str(n): 0 for n in range(MANY)})),
    "json spread": (codecs.JSON, orjson.dumps([[0] * 9_999] * 11)),
    "cbor lists": (codecs.CBOR, b"\x9a" + HEAD + b"\x80" * MANY),
    "cbor decimals": (codecs.CBOR, b"\x9f" + b"\xc4\x82\x01\x01" * (MANY // 4 + 1) + b"\xff"),
    "cbor dates": (codecs.CBOR, b"\x9f" + b"\xc1\x01" * (MANY // 2 + 1) + b"\xff"),
    "cbor members": (codecs.CBOR, cbor2.dumps({str(n): 0 for n in range(MANY // 2)})),
    "cbor pieces": (codecs.CBOR, b"\x5f" + b"\x40" * MANY + b"\xff"),
    "cbor promised": (codecs.CBOR, b"\x9b" + b"\xff" * 8 + b"\x00" * MANY),
    "cbor after strings": (codecs.CBOR, b"\x82\x78\xff" + b"\x00" * 255 + b"\x80" * MANY),
    "cbor sequence": (codecs.CBOR_SEQ, b"\x00" * MANY),
    "messagepack lists": (codecs.MSGPACK, b"\xdd" + HEAD + b"\x90" * MANY),
    "messagepack maps": (codecs.MSGPACK, msgpack.packb([{"a": 0}] * (MANY // 2 + 1))),
    "messagepack spread": (codecs.MSGPACK, msgpack.packb([[0] * 9_999] * 11)),
    "ndjson lines": (codecs.NDJSON, b"0\n" * MANY),
    "ndjson blanks": (codecs.NDJSON, b"\n" * MANY),
    "ndjson spread": (codecs.NDJSON, (b"[" + b"0," * 9_999 + b"0]\n") * 11),
}


@pytest.mark.parametrize("name", BOMBS)
def test_l11_a_value_of_too_many_parts_is_refused(name):
    media_type, payload = BOMBS[name]
    with pytest.raises(Error) as caught:
        codecs.decode(payload, media_type)
    assert Code.TOO_LARGE is caught.value.code
    assert str(VALUE_PARTS_MAX) in caught.value.message


@pytest.mark.parametrize("media_type", [codecs.JSON, codecs.CBOR, codecs.MSGPACK])
def test_l11_as_many_parts_as_are_allowed_are_read(media_type):
    value = [[[n, ","] for n in range(8)] for _ in range(4_000)]  # 4,000 x (1 + 8 + 16)
    assert value[:-1] == codecs.decode(codecs.encode(value[:-1], media_type), media_type)


def test_l11_marks_within_a_text_are_no_parts():
    text = ",[{" * VALUE_PARTS_MAX
    assert [text] == codecs.decode(codecs.encode([text], codecs.JSON), codecs.JSON)


@pytest.mark.parametrize("media_type", [codecs.JSON, codecs.CBOR, codecs.MSGPACK, codecs.NDJSON])
def test_l11_a_batch_may_have_more_parts_than_one_value(media_type):
    rows = [[0] * 60] * (VALUE_PARTS_MAX // 50)
    assert rows == list(codecs.decode_rows(codecs.encode(rows, media_type), media_type))
    with pytest.raises(Error) as caught:
        list(codecs.decode_rows(codecs.encode(rows * 5, media_type), media_type))
    assert str(ROWS_PARTS_MAX) in caught.value.message


def test_l11_repeated_keys_fill_no_answer():
    one = b",".join(b'"%d":0' % n for n in range(50))
    with pytest.raises(Error, match=r'"0", "1", .*, \.\.\.; send') as caught:
        codecs.decode(b"{" + one + b"," + one + b"}", codecs.JSON)
    assert 200 > len(caught.value.message)
    many = b",".join(b'"%d":0' % n for n in range(DECODE_POSITION_BYTES_MAX // 8))
    with pytest.raises(Error, match="a key occurs twice in one object; send it once"):
        codecs.decode(b"{" + many + b"," + many + b"}", codecs.JSON)
