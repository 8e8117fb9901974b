"""A19: one value model over JSON, CBOR and MessagePack."""

import itertools
import math
import random
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum

import pytest
from codec_values import SAMPLE, Dice, nested, same, values
from hypothesis import given, settings

from amounts import amount
from rowcast import codecs
from rowcast.codecs import model
from rowcast.core import limits
from rowcast.core.errors import Code, Error

FORMATS = (codecs.JSON, codecs.CBOR, codecs.MSGPACK)
PAIRS = list(itertools.product(FORMATS, FORMATS))


class Colour(IntEnum):
    RED = 1


def through(value, media_type):
    return codecs.decode(codecs.encode(value, media_type), media_type)


def check_all_pairs(value):
    for first in FORMATS:
        once = through(value, first)
        assert [True] * 3 == [same(value, through(once, second)) for second in FORMATS]


@pytest.mark.slow
def test_a19_ten_thousand_values_are_equal_across_all_nine_pairs():
    dice = Dice(random.Random(19))
    for _ in range(10_000):
        check_all_pairs(dice.value())


@pytest.mark.slow
@settings(max_examples=amount(long=500, short=125), deadline=None)
@given(values)
def test_a19_values_are_equal_across_all_nine_pairs(value):
    check_all_pairs(value)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a19_a_record_of_every_type(first, second):
    assert same(SAMPLE, through(through(SAMPLE, first), second))


@pytest.mark.parametrize("media_type", FORMATS)
@pytest.mark.parametrize(
    "value",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2262, 4, 11, 23, 47, 16, 854776, UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2026, 1, 2, 3, 4, 5, 1, timezone(timedelta(hours=2))),
        Decimal("1.10"),
        Decimal("-0.00"),
        Decimal("9" * 34 + "E-6144"),
        Decimal("1E+6144"),
        2**63 - 1,
        -(2**63),
        2**53 + 1,
        5e-324,
        -0.0,
        math.nan,
        "\x00\x7f\u2028\uffff\U0010ffff",
        b"",
        {"": None},
        {"$date": 1},
        {"$map": {"$map": {}}},
        {"$bytes": "YQ==", "more": 1},
        {"$other": 1},
        {"a": {"$float": "NaN"}},
        nested(64),
        nested(63, {}),
        nested(63, {"$date": Decimal(1)}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a19_edges_come_back_exactly(media_type, value):
    assert same(value, through(value, media_type))


@pytest.mark.parametrize("media_type", FORMATS)
@pytest.mark.parametrize(
    ("value", "code", "reason"),
    [
        (2**63, Code.INVALID, "64 bits"),
        ({"a": [1, -(2**63) - 1]}, Code.INVALID, "at a[1]: "),
        ((1, 2), Code.INVALID, "tuple"),
        ({1: 2}, Code.INVALID, "a key of a map is text, not int"),
        ({"a": {1, 2}}, Code.INVALID, "at a: set"),
        (Colour.RED, Code.INVALID, "Colour"),
        (date(2026, 1, 2), Code.INVALID, "date"),
        (bytearray(b"a"), Code.INVALID, "bytearray"),
        (datetime(2026, 1, 2), Code.INVALID, "time zone"),  # noqa: DTZ001
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), Code.INVALID, "years 1 to 9999"),
        (Decimal("NaN"), Code.INVALID, "finite"),
        (Decimal("Infinity"), Code.INVALID, "finite"),
        (Decimal("1" * 35), Code.INVALID, "34 digits"),
        (Decimal("1E+6145"), Code.INVALID, "6144"),
        ("\ud800", Code.INVALID, "surrogate"),
        ({"\udfff": 1}, Code.INVALID, "surrogate"),
        (nested(65), Code.TOO_LARGE, "64 deep"),
        (nested(64, {}), Code.TOO_LARGE, "64 deep"),
        ({"a" * 500: object()}, Code.INVALID, "aaa...: object"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a19_a_value_outside_the_model_is_refused_by_every_format(media_type, value, code, reason):
    with pytest.raises(Error) as refusal:
        codecs.encode(value, media_type)
    assert (code, True) == (refusal.value.code, reason in refusal.value.message)


def test_simple_is_exact_about_depth():
    assert (True, False) == (
        model.simple(nested(limits.VALUE_DEPTH_MAX)),
        model.simple(nested(limits.VALUE_DEPTH_MAX + 1)),
    )


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 2**63, b"", {"$map": 1}, {1: 1}, [Decimal(1)], Colour.RED, (1,)]
)
def test_simple_is_false_for_what_needs_a_second_look(value):
    assert not model.simple(value)


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "a", [], {}, {"a": [{"b": 2}]}])
def test_simple_is_true_for_ordinary_values(value):
    assert model.simple(value)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1.000001, datetime(1970, 1, 1, 0, 0, 1, 1, UTC)),
        (-0.5, datetime(1969, 12, 31, 23, 59, 59, 500000, UTC)),
    ],
)
def test_seconds_since_1970_are_an_instant(seconds, expected):
    assert expected == model.datetime_after(seconds)


def test_a_shorter_fraction_is_read_and_a_longer_one_cut():
    assert [
        datetime(2026, 1, 2, 3, 4, 5, 500000, UTC),
        datetime(2026, 1, 2, 3, 4, 5, 123456, UTC),
    ] == [
        model.datetime_of("2026-01-02T03:04:05.5Z"),
        model.datetime_of("2026-01-02T05:04:05.123456789+02:00"),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "1_0", " 1", "1 ", "NaN", "Infinity", "0x1", "\u0661", "1" * 101, "1E+9999999999", "."],
)
def test_a_decimal_is_ascii_digits(text):
    with pytest.raises(model.ModelMismatch):
        model.decimal_of(text)
