"""The readings of the open periods of one roll-up, and what they add up to. No I/O and no clock.

A reading is what a record said of one time: its key is the record's id and that time. A later write
of the record with the same time replaces it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rowcast.core.rollups import RollupRule, column
from rowcast.features.rollups.totals import (
    BinaryTotal,
    DecimalTotal,
    Number,
    Total,
    binary,
    decimal,
)

Key = tuple[str, int]
"""The id of a record, and the time of a reading in microseconds since 1970."""
Group = tuple[object, ...]
"""The values of the attributes by which a roll-up groups."""
Values = tuple[Number | None, ...]
"""The numbers of a reading, in the order of the rule; None for none."""
Row = dict[str, object]

_NONE: Final = None


class Totals:
    """The readings of one group in one period."""

    __slots__ = ("readings", "totals")

    def __init__(self, decimals: Sequence[bool]) -> None:
        self.readings: dict[Key, Values] = {}
        self.totals: list[Total[Any]] = [DecimalTotal() if it else BinaryTotal() for it in decimals]

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

    def answer(self, place: int, function: str) -> object:
        """Return a function of one of the values."""
        total: Total[Any] = self.totals[place]
        if function == "count":
            return total.count
        if not total.count:
            return None
        if function == "sum":
            return total.sum
        if function == "avg":
            return total.mean
        if total.bounds is None:
            found = (values[place] for values in self.readings.values())
            total.bounds = total.bounds_of(value for value in found if value is not None)
        least, greatest = total.bounds
        return least if function == "min" else greatest


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
        self._decimals = [name in rule.decimals for name, _ in rule.values]

    def values(self, found: Sequence[object]) -> Values:
        """Return the numbers of a reading; None for what cannot be added up."""
        return tuple(
            decimal(value) if is_decimal else binary(value)
            for value, is_decimal in zip(found, self._decimals, strict=True)
        )

    def put(self, key: Key, group: Group, values: Values) -> Iterator[tuple[int, Group]]:
        """Add or replace a reading; yields the periods and groups that change."""
        yield from self.take(key)
        start = self.rule.period(key[1])
        period = self.open.setdefault(start, Period())
        totals = period.groups.get(group)
        if totals is None:
            totals = period.groups[group] = Totals(self._decimals)
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
