"""Count, sum, mean and bounds of the readings of one value in one group. No I/O and no clock.

Sums are exact, so that taking a reading back leaves no trace: whole numbers as such, floats as
partial sums that do not overlap (Shewchuk, "Adaptive Precision Floating-Point Arithmetic", 1997),
decimals as whole numbers, one for each exponent, so that also the digits of the result are a
function of the readings alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from math import fsum
from typing import Final, Generic, TypeVar, cast

from rowcast.core.limits import DECIMAL_DIGITS_MAX, DECIMAL_EXPONENT_MAX
from rowcast.core.scalars import LONG_MAX, Mismatch, to_decimal

Number = int | float | Decimal
T = TypeVar("T", bound=Number)

_LARGEST: Final = 1e300
"""Beyond it, a sum of floats would not be finite."""
_COEFFICIENT_END: Final = 10**DECIMAL_DIGITS_MAX
_EXACT: Final = Context(
    prec=4 * DECIMAL_EXPONENT_MAX, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_HALF_EVEN
)
"""More digits than a sum can have: twice the exponents, and those of counts."""
_ROUNDED: Final = Context(
    prec=DECIMAL_DIGITS_MAX,
    rounding=ROUND_HALF_EVEN,
    Emax=DECIMAL_EXPONENT_MAX + DECIMAL_DIGITS_MAX - 1,
    Emin=-DECIMAL_EXPONENT_MAX + DECIMAL_DIGITS_MAX - 1,
    traps=[],
)
"""A mean has the digits and exponents that a Decimal may have (IEEE 754-2008, 5.4.1)."""


def binary(value: object) -> int | float | None:
    """Return a value as a number; None for what is none, or cannot be added up."""
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= _LARGEST else None  # nor is NaN


def decimal(value: object) -> Decimal | None:
    """Return a value as a decimal; None for what is none."""
    try:
        found = cast("Decimal", to_decimal(None if isinstance(value, str) else value))
    except Mismatch:
        return None
    return found or found.copy_abs()  # of zero there is one


class Total(ABC, Generic[T]):
    """Count, sum and bounds of one value in one group."""

    __slots__ = ("bounds", "count")

    def __init__(self) -> None:
        self.count = 0
        self.bounds: tuple[T, T] | None = None
        """Least and greatest; None: they have to be looked for."""

    def add(self, value: T, sign: int) -> None:
        """Add a value, or take it back."""
        if sign > 0 and not self.count:
            self.bounds = value, value
        elif self.bounds is not None and sign > 0:
            self.bounds = self.bounds_of((*self.bounds, value))
        elif self.bounds is not None and value in self.bounds:
            self.bounds = None
        self.count += sign
        self._sum_up(value, sign)

    @abstractmethod
    def bounds_of(self, values: Iterable[T]) -> tuple[T, T]:
        """Return the least and the greatest of some values, whatever their order is."""

    @abstractmethod
    def _sum_up(self, value: T, sign: int) -> None:
        """Add a value to the sum, or take it back."""

    @property
    @abstractmethod
    def sum(self) -> T | None:
        """The sum; None if it is larger than its type."""

    @property
    @abstractmethod
    def mean(self) -> Number:
        """The mean, correctly rounded."""


class BinaryTotal(Total[int | float]):
    """The total of whole numbers and floats."""

    __slots__ = ("_floats", "_whole")

    def __init__(self) -> None:
        super().__init__()
        self._whole = 0
        self._floats: list[float] = []

    def bounds_of(self, values: Iterable[int | float]) -> tuple[int | float, int | float]:
        """Return the least and the greatest of some values."""
        present = list(values)
        return min(present), max(present)

    def _sum_up(self, value: float, sign: int) -> None:
        if isinstance(value, int):
            self._whole += sign * value
            return
        rest, partials = sign * value, list[float]()
        for part in self._floats:
            high, low = (rest, part) if abs(rest) >= abs(part) else (part, rest)
            rest = high + low
            error = low - (rest - high)
            if error:
                partials.append(error)
        self._floats = [*partials, rest]

    @property
    def _exact(self) -> int | float:
        return fsum([*self._floats, self._whole]) if any(self._floats) else self._whole

    @property
    def sum(self) -> int | float | None:
        """The sum, correctly rounded; None for whole numbers of more than 64 bits."""
        found = self._exact
        return None if isinstance(found, int) and abs(found) > LONG_MAX else found

    @property
    def mean(self) -> float:
        """The mean."""
        return self._exact / self.count


class DecimalTotal(Total[Decimal]):
    """The total of decimals."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[int, tuple[int, int]] = {}
        """How many values have an exponent, and the sum of their coefficients."""

    def bounds_of(self, values: Iterable[Decimal]) -> tuple[Decimal, Decimal]:
        """Return the least and the greatest; of equal ones that with the most places."""
        present = list(values)
        return min(present, key=_ascending), max(present, key=_descending)

    def _sum_up(self, value: Decimal, sign: int) -> None:
        negative, digits, exponent = value.as_tuple()
        coefficient = int("".join(map(str, digits)))
        count, found = self._parts.pop(int(exponent), (0, 0))
        if count + sign:
            whole = found + sign * (-coefficient if negative else coefficient)
            self._parts[int(exponent)] = count + sign, whole

    @property
    def _exact(self) -> tuple[int, int]:
        """The sum, as a coefficient and the least exponent of the values."""
        whole, place = 0, max(self._parts)
        for exponent in sorted(self._parts, reverse=True):
            whole = whole * 10 ** (place - exponent) + self._parts[exponent][1]
            place = exponent
        return whole, place

    @property
    def sum(self) -> Decimal | None:
        """The exact sum; None where it has too many digits."""
        whole, exponent = self._exact
        while abs(whole) >= _COEFFICIENT_END and not whole % 10:
            whole, exponent = whole // 10, exponent + 1
        if abs(whole) >= _COEFFICIENT_END or exponent > DECIMAL_EXPONENT_MAX:
            return None
        return Decimal(whole).scaleb(exponent, _EXACT)

    @property
    def mean(self) -> Decimal:
        """The mean, rounded to the digits that a Decimal may have, half to even."""
        whole, exponent = self._exact
        exact = Decimal(whole).scaleb(exponent, _EXACT)
        return _ROUNDED.divide(exact, Decimal(self.count))


def _ascending(value: Decimal) -> tuple[Decimal, int]:
    return value, int(value.as_tuple().exponent)


def _descending(value: Decimal) -> tuple[Decimal, int]:
    return value, -int(value.as_tuple().exponent)
