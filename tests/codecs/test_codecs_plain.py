"""Plain JSON: what a reader who knows the type sees."""

import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from rowcast import codecs
from rowcast.core.errors import Error

SPELLINGS = [
    (b"\x00\xff", "AP8="),
    (datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), "2026-01-02T03:04:05.678901Z"),
    (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
    (Decimal("1.10"), "1.10"),
    (math.nan, None),
    (-math.inf, None),
    (1.5, 1.5),
    (True, True),
    ("text", "text"),
    ({"a": [b"a", {"$date": 1}]}, {"a": ["YQ==", {"$date": 1}]}),
]


@pytest.mark.parametrize(("value", "expected"), SPELLINGS, ids=repr)
def test_a19_plain_spells_one_value(value, expected):
    assert expected == codecs.plain(value)


@pytest.mark.parametrize(("value", "expected"), SPELLINGS, ids=repr)
def test_a19_encode_plain_writes_the_same(value, expected):
    assert codecs.encode(expected, codecs.JSON).replace(
        b'{"$map":{"$date":1}}', b'{"$date":1}'
    ) == codecs.encode_plain(value)


@pytest.mark.parametrize(
    "value", ["\ud800", 2**64, {1: 1}, object()], ids=["str", "int", "dict", "other"]
)
def test_what_has_no_spelling_is_refused(value):
    with pytest.raises(Error):
        codecs.encode_plain(value)
