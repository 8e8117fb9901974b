"""The readings of the open periods of one roll-up, and what they add up to. No I/O and no clock.

A reading is what a record said of one time: its key is the record's id and that time. A later write
of the record with the same time replaces it. Sums are exact, so that taking a reading back leaves
no trace: whole numbers as such, floats as partial sums that do not overlap (Shewchuk, "Adaptive
Precision Floating-Point Arithmetic", 1997).
"""

from collections.abc import Iterator
from math import fsum
from typing import Final

from rowcast.core.rollups import RollupRule, column
from rowcast.core.scalars import LONG_MAX

Key = tuple[str, int]
"""The id of a record, and the time of a reading in microseconds since 1970."""
Group = tuple[object, ...]
"""The values of the attributes by which a roll-up groups."""
Number = int | float
Values = tuple[Number | None, ...]
"""The numbers of a reading, in the order of the rule; None for none."""
Row = dict[str, object]

_LARGEST: Final = 1e300
"""Beyond it, a sum would not be finite."""
_NONE: Final = None


def number(value: object) -> Number | None:
    """Return a value as a number; None for what is none, or cannot be added up."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= _LARGEST else None  # nor is NaN


class Total:
    """Count, sum and bounds of one value in one group."""

    __slots__ = ("_floats", "_whole", "bounds", "count")

    def __init__(self) -> None:
        self.count = 0
        self.bounds: tuple[Number, Number] | None = None
        """Least and greatest; None: they have to be looked for."""
        self._whole = 0
        self._floats: list[float] = []

    def add(self, value: Number, sign: int) -> None:
        """Add a value, or take it back."""
        self._note(value, sign)
        self.count += sign
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

    def _note(self, value: Number, sign: int) -> None:
        if sign > 0 and not self.count:
            self.bounds = value, value
        elif self.bounds is not None and sign > 0:
            self.bounds = min(value, self.bounds[0]), max(value, self.bounds[1])
        elif self.bounds is not None and value in self.bounds:
            self.bounds = None

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return not any(self._floats)

    @property
    def sum(self) -> Number:
        """The sum, correctly rounded."""
        if self.whole:
            return self._whole
        return fsum([*self._floats, self._whole])


class Totals:
    """The readings of one group in one period."""

    __slots__ = ("readings", "totals")

    def __init__(self, values: int) -> None:
        self.readings: dict[Key, Values] = {}
        self.totals = [Total() for _ in range(values)]

    def put(self, key: Key, values: Values) -> None:
        """Add a reading."""
        self.readings[key] = values
        self._add(values, 1)

    def take(self, key: Key) -> None:
        """Take a reading back."""
        self._add(self.readings.pop(key), -1)

    def _add(self, values: Values, sign: int) -> None:
        for total, value in zip(self.totals, values, strict=True):
            if value is not None:
                total.add(value, sign)

    def answer(self, place: int, function: str) -> Number | None:
        """Return a function of one of the values."""
        total = self.totals[place]
        if function == "count":
            return total.count
        if not total.count:
            return None
        if function == "sum":
            return total.sum if abs(total.sum) <= LONG_MAX or not total.whole else None
        if function == "avg":
            return total.sum / total.count
        if total.bounds is None:
            found = (values[place] for values in self.readings.values())
            present = [value for value in found if value is not None]
            total.bounds = min(present), max(present)
        return total.bounds[0 if function == "min" else 1]


class Period:
    """The readings of one period."""

    __slots__ = ("groups", "of")

    def __init__(self) -> None:
        self.groups: dict[Group, Totals] = {}
        self.of: dict[Key, Group] = {}
        """The group of each reading."""


class Periods:
    """The open periods of a roll-up, by their start in microseconds since 1970."""

    def __init__(self, rule: RollupRule) -> None:
        self.rule = rule
        self.open: dict[int, Period] = {}
        self.readings = 0

    def put(self, key: Key, group: Group, values: Values) -> Iterator[tuple[int, Group]]:
        """Add or replace a reading; yields the periods and groups that change."""
        yield from self.take(key)
        start = self.rule.period(key[1])
        period = self.open.setdefault(start, Period())
        totals = period.groups.get(group)
        if totals is None:
            totals = period.groups[group] = Totals(len(values))
        totals.put(key, values)
        period.of[key] = group
        self.readings += 1
        yield start, group

    def take(self, key: Key) -> Iterator[tuple[int, Group]]:
        """Take a reading back, if there is one; yields what changes."""
        start = self.rule.period(key[1])
        period = self.open.get(start)
        group = period.of.pop(key, _NONE) if period is not None else _NONE
        if period is None or group is None:
            return
        period.groups[group].take(key)
        if not period.groups[group].readings:
            del period.groups[group]
        self.readings -= 1
        yield start, group

    def close(self, start: int) -> None:
        """Forget the readings of a period, which changes no more."""
        self.readings -= len(self.open.pop(start).of)

    def row(self, start: int, group: Group) -> Row | None:
        """Return the functions of a group in a period; None if it has no readings."""
        period = self.open.get(start)
        totals = period.groups.get(group) if period is not None else None
        if totals is None:
            return None
        return {
            column(name, function): totals.answer(place, function)
            for place, (name, functions) in enumerate(self.rule.values)
            for function in functions
        }
