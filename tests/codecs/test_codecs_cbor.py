"""CBOR: the value model and nothing else, whatever the sender tags."""

import math
from datetime import UTC, datetime
from decimal import Decimal

import cbor2
import pytest
from codec_values import SAMPLE, nested, same, values
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import amount
from rowcast.codecs import cbor, model
from rowcast.core import limits
from rowcast.core.errors import Code, Error

TAKEN = {0, 1, 2, 3, 4}
LIVE = [5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799]


def unhex(text):
    return bytes.fromhex(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            datetime(2013, 3, 21, 20, 4, 0, 1, UTC),
            b"\xc0\x78\x1b" + b"2013-03-21T20:04:00.000001Z",
        ),
        (Decimal("273.15"), unhex("c48221196ab3")),
        (b"\x01", unhex("4101")),
        (1.5, unhex("fb3ff8000000000000")),
        ({"a": None}, unhex("a16161f6")),
    ],
    ids=repr,
)
def test_a19_encode(value, expected):
    assert expected == cbor.encode(value)


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ("f7", None),
        ("82a16161f700", [{"a": None}, 0]),
        ("c11a514b67b0", datetime(2013, 3, 21, 20, 4, tzinfo=UTC)),
        ("c1fb41d452d9ec200000", datetime(2013, 3, 21, 20, 4, 0, 500000, UTC)),
        ("c120", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (
            "c0" + "7819" + b"2013-03-21T22:04:00+02:00".hex(),
            datetime(2013, 3, 21, 20, 4, tzinfo=UTC),
        ),
        ("c48220c24d0f951a9fa3a286c94f0e766c39", Decimal("123456789012345678901234567890.5")),
        ("c48220c34d0f951a9fa3a286c94f0e766c38", Decimal("-123456789012345678901234567890.5")),
        ("c24101", 1),
        ("c34100", -1),
        ("c2580a" + "00" * 9 + "07", 7),
        ("1b7fffffffffffffff", 2**63 - 1),
        ("3b7fffffffffffffff", -(2**63)),
        ("9f01820203ff", [1, [2, 3]]),
        ("bf616101ff", {"a": 1}),
        ("7f61616162ff", "ab"),
        ("5f41014102ff", b"\x01\x02"),
        ("f97e00", math.nan),
        ("fa3fc00000", 1.5),
    ],
)
def test_a19_decode(payload, value):
    assert same(value, cbor.decode(unhex(payload)))


@pytest.mark.parametrize("tag", LIVE)
@pytest.mark.parametrize("content", ["a", 1, ["a", 1], b"\x7f\x00\x00\x01", {"a": 1}], ids=repr)
def test_bad_input_live_objects_are_refused(tag, content):
    with pytest.raises(Error, match=rf"at byte \d+: tag {tag} is not taken"):
        cbor.decode(cbor2.dumps({"a": [cbor2.CBORTag(tag, content)]}))


@pytest.mark.slow
def test_bad_input_every_other_tag_is_refused():
    refused = set()
    for tag in range(70_000):
        try:
            cbor.decode(cbor2.dumps(cbor2.CBORTag(tag, 1)))
        except Error as refusal:
            refused |= {tag} if "not taken" in refusal.message else set()
    assert set(range(70_000)) - TAKEN == refused


def test_the_tags_taken_are_a_mapping_of_few():
    assert (TAKEN, 5) == (set(cbor._TAGS), len(cbor._TAGS))


@pytest.mark.parametrize(
    ("payload", "code", "reason"),
    [
        ("", Code.INVALID, "ends too early, after 0 bytes"),
        ("8301", Code.INVALID, "ends too early, after 2 bytes"),
        ("5b7fffffffffffffff", Code.INVALID, "ends too early"),
        ("9bffffffffffffffff", Code.INVALID, "ends too early"),
        ("ba7fffffff", Code.INVALID, "ends too early"),
        ("9f01", Code.INVALID, "ends too early"),
        ("0102", Code.INVALID, "goes on after its value, at byte 1"),
        ("ff", Code.INVALID, "at byte 0: break"),
        ("82011c", Code.INVALID, "at byte 2: "),
        ("f818", Code.INVALID, "at byte 1: "),
        ("8262ffff", Code.INVALID, "at byte 3: a text is not UTF-8"),
        ("a2616101616102", Code.INVALID, "at byte 6: "),
        ("a10101", Code.INVALID, "not int"),
        ("a1416101", Code.INVALID, "not bytes"),
        ("a1f701", Code.INVALID, "not UndefinedType"),
        ("a2f97e0001f97e0002", Code.INVALID, "not float"),
        ("a1810101", Code.INVALID, "not tuple"),
        ("a1a001", Code.INVALID, "a key of a map is text"),
        ("a1c11a514b67b001", Code.INVALID, "not datetime"),
        ("f0", Code.INVALID, "CBORSimpleValue"),
        ("1b8000000000000000", Code.INVALID, "64 bits"),
        ("811bffffffffffffffff", Code.INVALID, "at [0]: "),
        ("3b8000000000000000", Code.INVALID, "64 bits"),
        ("c249010000000000000000", Code.INVALID, "64 bits"),
        ("c2488000000000000000", Code.INVALID, "64 bits"),
        ("c25818" + "ff" * 24, Code.INVALID, "64 bits"),
        ("c201", Code.INVALID, "64 bits"),
        ("c06161", Code.INVALID, "at byte 2: a date is text such as"),
        ("c06a" + b"2013-03-21".hex(), Code.INVALID, "offset"),
        ("c001", Code.INVALID, "tag 0, a date, holds text"),
        ("c16161", Code.INVALID, "tag 1, a date, holds a number"),
        ("c1f5", Code.INVALID, "tag 1, a date, holds a number"),
        ("c1f97e00", Code.INVALID, "finite"),
        ("c1f97c00", Code.INVALID, "finite"),
        ("c11bffffffffffffffff", Code.INVALID, "years 1 to 9999"),
        ("c46161", Code.INVALID, "an exponent and a mantissa"),
        ("c4820102ff", Code.INVALID, "goes on"),
        ("c4830102f6", Code.INVALID, "an exponent and a mantissa"),
        ("c482f401", Code.INVALID, "an exponent and a mantissa"),
        ("c4821b7fffffffffffffff01", Code.INVALID, "exponent over 6144"),
        ("c482203903e7", None, None),
        ("c48200c250" + "ff" * 16, Code.INVALID, "34 digits"),
        ("81" * 65 + "01", Code.TOO_LARGE, "64 deep"),
        ("81" * 50_000, Code.TOO_LARGE, "64 deep"),
        ("9f" * 50_000, Code.TOO_LARGE, "64 deep"),
        ("a16161" * 30_000, Code.TOO_LARGE, "64 deep"),
        ("c1" * 50_000, Code.TOO_LARGE, "64 deep"),
        ("d81c" * 50_000, Code.TOO_LARGE, "64 deep"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bad_input_is_refused_with_its_place_and_reason(payload, code, reason):
    if code is None:
        assert Decimal("-100.0") == cbor.decode(unhex(payload))
        return
    with pytest.raises(Error) as refusal:
        cbor.decode(unhex(payload))
    assert (code, True) == (refusal.value.code, reason in refusal.value.message)


def test_bad_input_the_place_is_not_looked_for_in_a_large_payload():
    filler = cbor2.dumps("a" * limits.DECODE_POSITION_BYTES_MAX)
    with pytest.raises(Error, match=r"^The CBOR cannot be read: tag 35"):
        cbor.decode(b"\x82" + filler + unhex("d8236161"))


def test_l11_depth_is_exact_and_a_decimal_costs_none():
    value = nested(64, Decimal("123456789012345678901234567890.5"))
    assert value == cbor.decode(cbor.encode(value))


def test_b20_a_sequence_is_read_one_value_at_a_time():
    rows = cbor.decode_sequence(unhex("01820203ff"))
    assert [1, [2, 3]] == [next(rows), next(rows)]
    with pytest.raises(Error, match="at byte 4"):
        next(rows)


def test_bad_input_truncated_at_every_byte():
    payload = cbor.encode(SAMPLE)
    for end in range(len(payload)):
        with pytest.raises(Error):
            cbor.decode(payload[:end])


@pytest.mark.slow
@settings(max_examples=amount(long=1000, short=250), deadline=None)
@given(
    st.binary()
    | st.lists(st.sampled_from([*range(0x80, 0x100), 0, 0x61, 0x41]), min_size=1).map(bytes)
)
def test_bad_input_random_bytes_give_a_value_or_an_error(payload):
    try:
        model.validate(cbor.decode(payload))
    except Error as refusal:
        assert refusal.code in {Code.INVALID, Code.TOO_LARGE}


@pytest.mark.slow
@settings(max_examples=amount(long=300, short=75), deadline=None)
@given(values, st.data())
def test_bad_input_one_byte_changed(value, data):
    payload = bytearray(cbor.encode(value))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        model.validate(cbor.decode(bytes(payload)))
    except Error as refusal:
        assert refusal.code in {Code.INVALID, Code.TOO_LARGE}
