"""Values for the codec tests: a strategy for all of the model, and an equality that knows NaN."""

import math
import struct
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from hypothesis import strategies as st

from rowcast.core import limits

SAMPLE = {
    "id": "Dog/1",
    "name": "Réx 🐕",
    "age": 7,
    "weight": 21.5,
    "good": True,
    "owner": None,
    "born": datetime(2019, 5, 6, 7, 8, 9, 123456, UTC),
    "price": Decimal("1.10"),
    "chip": b"\x00\xff",
    "tags": ["a", {"$date": 5}, [], {}],
    "odd": [math.nan, math.inf, -math.inf, 2**63 - 1, -(2**63), 1e300, -0.0],
}


def same(left: object, right: object) -> bool:
    """Whether two values are one: of one type, digit for digit, NaN equal to NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, Decimal):
        return str(left or abs(left)) == str(right or abs(right))
    if isinstance(left, datetime):
        return left == right and right.utcoffset() == timedelta(0)
    return left == right


def nested(depth: int, innermost: object = None) -> object:
    """Lists, one in the other, so many deep."""
    value = innermost
    for _ in range(depth):
        value = [value]
    return value


zones = st.sampled_from(
    [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-9))]
)
datetimes = st.datetimes(timezones=zones).filter(lambda at: 1 < at.year < 9999)
digits = st.integers(-(10**limits.DECIMAL_DIGITS_MAX) + 1, 10**limits.DECIMAL_DIGITS_MAX - 1)
exponents = st.integers(-limits.DECIMAL_EXPONENT_MAX, limits.DECIMAL_EXPONENT_MAX)
decimals = st.builds(lambda number, power: Decimal(f"{number}E{power}"), digits, exponents)
integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]))
keys = texts | st.sampled_from(["$date", "$bytes", "$map", "$decimal", "$float", "$ref", "a", "b"])
scalars = (
    st.none()
    | st.booleans()
    | integers
    | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1, 0, -1])
    | st.floats()
    | texts
    | st.binary()
    | datetimes
    | decimals
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


class Dice:
    """Random values of the model, by a seed: many times faster than a strategy, and never smaller.

    Every kind of scalar and its limits come, as in ``values``.
    """

    def __init__(self, random):
        self._random = random
        self._makers = (
            lambda: None,
            lambda: random.random() < 0.5,
            lambda: random.getrandbits(64) - 2**63,
            lambda: random.choice((2**63 - 1, -(2**63), 2**53 + 1, 0, -1)),
            lambda: struct.unpack("<d", random.randbytes(8))[0],
            lambda: random.choice((math.nan, math.inf, -math.inf, -0.0, 5e-324, random.gauss())),
            self._text,
            lambda: random.randbytes(random.randrange(20)),
            self._datetime,
            self._decimal,
        )

    def value(self, depth=3):
        """Return a scalar, or a list or an object of values."""
        random = self._random
        kind = random.random()
        if not depth or kind < 0.4:
            return random.choice(self._makers)()
        if kind < 0.7:
            return [self.value(depth - 1) for _ in range(random.randrange(4))]
        return {self._key(): self.value(depth - 1) for _ in range(random.randrange(4))}

    def _text(self):
        """Return a text of any characters but surrogates, many of them of one byte."""
        random = self._random
        codes = [
            random.randrange(random.choice((128, 0xD800, 0x110000)))
            for _ in range(random.randrange(8))
        ]
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)

    def _key(self):
        known = ("$date", "$bytes", "$map", "$decimal", "$float", "$ref", "a", "b")
        return self._random.choice((*known, *(self._text() for _ in range(3))))

    def _datetime(self):
        random = self._random
        zone = timezone(timedelta(minutes=random.choice((0, 330, -540))))
        start = datetime(2, 1, 1, tzinfo=zone)
        return start + timedelta(microseconds=random.randrange(9_996 * 365 * 86_400 * 10**6))

    def _decimal(self):
        random = self._random
        digits = random.randrange(10 ** random.randrange(1, limits.DECIMAL_DIGITS_MAX + 1))
        power = random.randrange(-limits.DECIMAL_EXPONENT_MAX, limits.DECIMAL_EXPONENT_MAX + 1)
        return Decimal(f"{random.choice(('', '-'))}{digits}E{power}")
