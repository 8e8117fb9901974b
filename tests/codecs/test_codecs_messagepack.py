"""MessagePack: the value model, its two extensions, and bad input."""

import struct
from datetime import UTC, datetime
from decimal import Decimal

import msgpack
import pytest
from codec_values import SAMPLE, nested, same, values
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import amount
from rowcast.codecs import messagepack, model
from rowcast.core import limits
from rowcast.core.errors import Code, Error


def unhex(text):
    return bytes.fromhex(text)


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        (datetime(2013, 3, 21, 20, 4, tzinfo=UTC), unhex("d6ff514b67b0")),
        (
            datetime(2013, 3, 21, 20, 4, 0, 1, UTC),
            b"\xd7\xff" + struct.pack(">Q", 1000 << 34 | 1363896240),
        ),
        (
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            b"\xc7\x0c\xff" + struct.pack(">Iq", 999999000, -1),
        ),
        (Decimal("1.10"), b"\xd6\x01" + b"1.10"),
        (b"a", unhex("c40161")),
        ("a", unhex("a161")),
        ({"a": [1, -1, 1.5, None, True]}, unhex("81a1619501ffcb3ff8000000000000c0c3")),
    ],
    ids=repr,
)
def test_a19_both_ways(value, payload):
    assert (payload, True) == (messagepack.encode(value), same(value, messagepack.decode(payload)))


@pytest.mark.heavy
@given(values)
def test_a19_what_was_decoded_once_is_decoded_again(value):
    payload = messagepack.encode(value)
    assert same(messagepack.decode(payload), messagepack.decode_again(payload))


@pytest.mark.parametrize("payload", ["9201", "0102", "d401ff", "81c40161c0", "cfffffffffffffffff"])
def test_bad_input_is_refused_again_in_the_same_words(payload):
    with pytest.raises(Error) as first:
        messagepack.decode(unhex(payload))
    with pytest.raises(Error) as again:
        messagepack.decode_again(unhex(payload))
    assert first.value.full == again.value.full


def test_a19_a_timestamp_finer_than_a_microsecond_is_cut():
    payload = b"\xd7\xff" + struct.pack(">Q", 1999 << 34)
    assert datetime(1970, 1, 1, 0, 0, 0, 1, UTC) == messagepack.decode(payload)


@pytest.mark.parametrize(
    ("payload", "code", "reason"),
    [
        ("", Code.INVALID, "ends too early, after 0 bytes"),
        ("9201", Code.INVALID, "ends too early, after 2 bytes"),
        ("dbffffffff", Code.INVALID, "ends too early"),
        ("c6ffffffff", Code.INVALID, "ends too early"),
        ("ddffffffff", Code.INVALID, "more items than"),
        ("dfffffffff", Code.INVALID, "more items than"),
        ("c9ffffffff01", Code.INVALID, ""),
        ("0102", Code.INVALID, "goes on after its value, at byte 1"),
        ("93c0c1c0", Code.INVALID, "at byte 2: 0xc1"),
        ("92c0a2ffff", Code.INVALID, "at byte 4: a text is not UTF-8"),
        ("a3eda080", Code.INVALID, "a text is not UTF-8"),
        ("810101", Code.INVALID, "at byte 2: a key of a map is text"),
        ("81c4016101", Code.INVALID, "not bytes"),
        ("81c00100", Code.INVALID, ""),
        ("82a16101a16102", Code.INVALID, "at byte 6: a key occurs twice"),
        ("cf8000000000000000", Code.INVALID, "64 bits"),
        ("81a16191cfffffffffffffffff", Code.INVALID, "at a[0]: "),
        ("92c0d405ff", Code.INVALID, "at byte 4: extension 5 is not taken"),
        ("d480ff", Code.INVALID, "extension -128 is not taken"),
        ("d4ff01", Code.INVALID, "timestamp"),
        ("d7fffffffffc00000005", Code.INVALID, "nanoseconds"),
        ("c70cff" + struct.pack(">Iq", 1, 2**62).hex(), Code.INVALID, "years 1 to 9999"),
        ("c70cff" + struct.pack(">Iq", 1, -(2**63)).hex(), Code.INVALID, "years 1 to 9999"),
        ("d501" + b"1x".hex(), Code.INVALID, "at byte 3: a decimal is text"),
        ("d401ff", Code.INVALID, "a decimal is text"),
        ("c70001", Code.INVALID, "a decimal is text"),
        ("c72301" + b"1".hex() * 35, Code.INVALID, "34 digits"),
        ("91" * 65 + "01", Code.TOO_LARGE, "64 deep"),
        ("91" * 500 + "01", Code.TOO_LARGE, "64 deep"),
        ("91" * 100_000, Code.TOO_LARGE, "64 deep"),
        ("81a161" * 100_000, Code.TOO_LARGE, "64 deep"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bad_input_is_refused_with_its_place_and_reason(payload, code, reason):
    with pytest.raises(Error) as refusal:
        messagepack.decode(unhex(payload))
    assert (code, True) == (refusal.value.code, reason in refusal.value.message)


def test_bad_input_the_place_is_not_looked_for_in_a_large_payload():
    filler = msgpack.packb("a" * limits.DECODE_POSITION_BYTES_MAX)
    with pytest.raises(Error, match=r"^The MessagePack cannot be read: 0xc1"):
        messagepack.decode(b"\x92" + filler + b"\xc1")


def test_l11_depth_is_exact():
    assert nested(64) == messagepack.decode(b"\x91" * 64 + b"\xc0")


def test_bad_input_truncated_at_every_byte():
    payload = messagepack.encode(SAMPLE)
    for end in range(len(payload)):
        with pytest.raises(Error):
            messagepack.decode(payload[:end])


@pytest.mark.slow
@settings(max_examples=amount(long=1000, short=250), deadline=None)
@given(
    st.binary() | st.lists(st.sampled_from([*range(0x80, 0xE0), 0, 0x61]), min_size=1).map(bytes)
)
def test_bad_input_random_bytes_give_a_value_or_an_error(payload):
    try:
        model.validate(messagepack.decode(payload))
    except Error as refusal:
        assert refusal.code in {Code.INVALID, Code.TOO_LARGE}


@pytest.mark.slow
@settings(max_examples=amount(long=300, short=75), deadline=None)
@given(values, st.data())
def test_bad_input_one_byte_changed(value, data):
    payload = bytearray(messagepack.encode(value))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        model.validate(messagepack.decode(bytes(payload)))
    except Error as refusal:
        assert refusal.code in {Code.INVALID, Code.TOO_LARGE}
