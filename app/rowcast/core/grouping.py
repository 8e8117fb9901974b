"""Groups of records with their counts, sums, means and extremes: ``group(site,count(),avg(temp))``.

``Groups`` is the reference that every store agrees with. A missing value, a list and an object make
the group of null; numbers are one kind. ``sum`` and ``avg`` take numbers only, ``min`` and ``max``
what has an order, and all of them are null where there is none. Sums of integers and decimals are
exact; with floats among them they are floats. Groups come in the order of their values, null last.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from enum import StrEnum
from typing import Final

from rowcast.core.comparison import RANK_LAST, Place, rank_of
from rowcast.core.conditions import Path, reach
from rowcast.core.errors import Code, Error
from rowcast.core.limits import DECIMAL_DIGITS_MAX, DECIMAL_EXPONENT_MAX
from rowcast.core.scalars import is_number

Number = int | float | Decimal
_EXACT: Final = Context(prec=4 * DECIMAL_EXPONENT_MAX, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""More digits than a sum can have: twice the exponents, and those of counts."""
_MEAN: Final = Context(prec=DECIMAL_DIGITS_MAX, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""A mean has the digits that a Decimal may have."""
GroupRow = dict[str, object]
"""The values of a group by name: ``site``, ``count()``, ``avg(temp)``."""


class GroupFunction(StrEnum):
    """What is computed of a group; the value is its name in queries."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One function of a group; without a path it counts records."""

    function: GroupFunction
    path: Path | None = None

    @property
    def name(self) -> str:
        """Its name in results."""
        return f"{self.function}({'.'.join(self.path or ())})"


@dataclass(frozen=True, slots=True)
class Grouping:
    """The paths whose values make a group, and what is computed of each group.

    Without paths all records are one group, which exists even if it is empty.
    """

    paths: tuple[Path, ...]
    aggregates: tuple[Aggregate, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names in a row, in order."""
        return [".".join(path) for path in self.paths] + [item.name for item in self.aggregates]

    @property
    def used(self) -> tuple[Path, ...]:
        """All paths whose values it needs."""
        found = [*self.paths, *(item.path for item in self.aggregates if item.path is not None)]
        return tuple(dict.fromkeys(found))


@dataclass(slots=True)
class _Tally:
    """What is known of one aggregate of one group."""

    count: int = 0
    numbers: int = 0
    exact: Number = 0
    inexact: float = 0.0
    floats: bool = False
    least: object = None
    most: object = None

    def add(self, value: object) -> None:
        """Add a value that is not null."""
        self.count += 1
        if is_number(value):
            self.numbers += 1
            if isinstance(value, float):
                self.floats = True
                self.inexact += value
            elif isinstance(value, Decimal) or isinstance(self.exact, Decimal):
                self.exact = _EXACT.add(Decimal(self.exact), Decimal(value))
            else:
                self.exact += value
        if rank_of(value) == RANK_LAST:
            return
        if self.least is None or Place(value) < Place(self.least):
            self.least = value
        if self.most is None or Place(self.most) < Place(value):
            self.most = value

    @property
    def total(self) -> Number:
        """The sum of the numbers."""
        return float(self.exact) + self.inexact if self.floats else self.exact

    @property
    def mean(self) -> Number:
        """The mean of the numbers, of which there are some."""
        total = self.total
        if isinstance(total, Decimal):
            return _MEAN.divide(total, self.numbers)
        return total / self.numbers


_RESULTS: Final[Mapping[GroupFunction, Callable[[_Tally], object]]] = {
    GroupFunction.COUNT: lambda tally: tally.count,
    GroupFunction.SUM: lambda tally: tally.total if tally.numbers else None,
    GroupFunction.AVG: lambda tally: tally.mean if tally.numbers else None,
    GroupFunction.MIN: lambda tally: tally.least,
    GroupFunction.MAX: lambda tally: tally.most,
}


@dataclass(slots=True)
class _Group:
    """One group: its values, the tally of each path, and the number of its records."""

    values: tuple[object, ...]
    tallies: dict[Path, _Tally]
    records: int = 0


@dataclass(slots=True)
class Groups:
    """Groups being filled; at most ``most``."""

    grouping: Grouping
    most: int
    _found: dict[tuple[object, ...], _Group] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.grouping.paths:
            self._found[()] = self._group(())

    def _group(self, values: tuple[object, ...]) -> _Group:
        tallies = {
            item.path: _Tally() for item in self.grouping.aggregates if item.path is not None
        }
        return _Group(values, tallies)

    def add(self, value: object, record_id: object) -> None:
        """Count one record; raises INVALID when there are too many groups."""
        values = tuple(_ordered(reach(path, value, record_id)) for path in self.grouping.paths)
        key = tuple((rank_of(item), item) for item in values)
        group = self._found.get(key)
        if group is None:
            if len(self._found) == self.most:
                raise too_many_groups(self.most)
            group = self._found[key] = self._group(values)
        group.records += 1
        for path, tally in group.tallies.items():
            found = reach(path, value, record_id)
            if found is not None:
                tally.add(found)

    def rows(self) -> list[GroupRow]:
        """Return a row for each group, in order."""
        groups = sorted(self._found.values(), key=lambda group: tuple(map(Place, group.values)))
        return [self._row(group) for group in groups]

    def _row(self, group: _Group) -> GroupRow:
        found = [
            group.records
            if item.path is None
            else _RESULTS[item.function](group.tallies[item.path])
            for item in self.grouping.aggregates
        ]
        return dict(zip(self.grouping.names, [*group.values, *found], strict=True))


def _ordered(value: object) -> object:
    """Return a value by which records are grouped: null for what has no order."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return None if rank_of(value) == RANK_LAST else value


def in_order(rows: Sequence[GroupRow], grouping: Grouping) -> list[GroupRow]:
    """Return rows in the order of their groups."""
    names = grouping.names[: len(grouping.paths)]
    return sorted(rows, key=lambda row: tuple(Place(row[name]) for name in names))


def too_many_groups(most: int) -> Error:
    """Return the Error for more groups than may be."""
    return Error(
        Code.INVALID,
        f"that is more than {most} groups; group by an attribute with fewer values, or add "
        "conditions",
    )
