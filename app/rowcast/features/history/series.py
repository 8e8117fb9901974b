"""Time series: aggregates of events' numbers per time bucket.

Buckets are aligned to UTC, those of whole weeks to Mondays; empty ones are left out. Aggregated are
the numbers in a value's attributes, or the value itself if it is a number or, in plain bytes, the
text of one. Events may be in any order; the rows are sorted by time, then by topic. All rows are in
memory, so their number is bounded.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from rowcast.core.clock import milliseconds_of
from rowcast.core.errors import Code, Error
from rowcast.core.limits import HISTORY_BUCKETS_MAX

Number = int | float | Decimal
Path = tuple[str, ...]

BARE: Final = "value"
"""The name of a number that is no attribute."""
_WEEK: Final = 7 * 86_400_000
_MONDAY: Final = 4 * 86_400_000
"""The first Monday of 1970."""
_TEXT: Final = re.compile(r"\s*[+-]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?\s*")


@dataclass(slots=True)
class Tally:
    """Aggregates of numbers."""

    first: Number
    last: Number
    least: Number
    most: Number
    total: Number
    count: int = 1

    def add(self, number: Number) -> None:
        """Add a number."""
        self.last = number
        self.least = min(self.least, number)
        self.most = max(self.most, number)
        self.total = _sum(self.total, number)
        self.count += 1


def _sum(one: Number, other: Number) -> Number:
    if isinstance(one, Decimal) != isinstance(other, Decimal) and (
        isinstance(one, float) or isinstance(other, float)
    ):
        return float(one) + float(other)
    return one + other  # type: ignore[operator] # what is left of the mixtures can be added


FUNCTIONS: Final[dict[str, Callable[[Tally], Number]]] = {
    "avg": lambda tally: tally.total / tally.count,
    "max": lambda tally: tally.most,
    "min": lambda tally: tally.least,
    "count": lambda tally: tally.count,
    "sum": lambda tally: tally.total,
    "first": lambda tally: tally.first,
    "last": lambda tally: tally.last,
}
"""The aggregate functions."""


class Series:
    """Buckets being filled."""

    def __init__(
        self,
        every_ms: int,
        functions: Sequence[str],
        paths: Sequence[Path] | None,
        buckets_max: int = HISTORY_BUCKETS_MAX,
    ) -> None:
        self._every = every_ms
        self._offset = _MONDAY if every_ms % _WEEK == 0 else 0
        self._functions = [(name, FUNCTIONS[name]) for name in functions]
        self._paths = paths
        self._buckets_max = buckets_max
        self._buckets: dict[tuple[int, str], dict[str, Tally]] = {}
        self._events: dict[tuple[int, str], int] = {}
        self._tallies = 0

    def add(self, topic: str, version: int, value: object) -> None:
        """Count one event; raises INVALID when there are too many buckets."""
        since = milliseconds_of(version) - self._offset
        key = (since - since % self._every + self._offset, topic)
        tallies = self._buckets.get(key)
        if tallies is None:
            tallies = self._buckets[key] = {}
            self._events[key] = 0
        self._events[key] += 1
        for name, number in self._numbers(value):
            tally = tallies.get(name)
            if tally is not None:
                tally.add(number)
                continue
            tallies[name] = Tally(number, number, number, number, number)
            self._tallies += 1
        if len(self._buckets) + self._tallies > self._buckets_max:
            raise Error(
                Code.INVALID,
                f"that is more than {self._buckets_max} buckets, counted for each topic and "
                "attribute; ask for a longer 'every', a shorter time, or fewer with select",
            )

    def _numbers(self, value: object) -> Iterator[tuple[str, Number]]:
        if self._paths is not None:
            for path in self._paths:
                number = number_of(_reach(value, path))
                if number is not None:
                    yield ".".join(path), number
        elif isinstance(value, dict):
            for name, item in value.items():
                number = number_of(item)
                if number is not None:
                    yield name, number
        else:
            number = number_of(_number_in_text(value) if isinstance(value, str) else value)
            if number is not None:
                yield BARE, number

    @property
    def missing(self) -> list[Path]:
        """The attributes that were asked for and had no number in any event."""
        found = {name for tallies in self._buckets.values() for name in tallies}
        return [path for path in self._paths or () if ".".join(path) not in found]

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield the rows, sorted by time and then by topic."""
        for start, topic in sorted(self._buckets):
            tallies = self._buckets[start, topic]
            yield {
                "topic": topic,
                "from": _time(start),
                "to": _time(start + self._every),
                "events": self._events[start, topic],
                "values": {
                    name: {
                        word: _for_all_formats(function(tallies[name]))
                        for word, function in self._functions
                    }
                    for name in sorted(tallies)
                },
            }


def number_of(value: object) -> Number | None:
    """Return a value that is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def _for_all_formats(number: Number) -> int | float:
    """Return a number that every format supports."""
    exact = isinstance(number, int) and number.bit_length() < 64
    return int(number) if exact else float(number)


def _number_in_text(text: str) -> Number | None:
    """Parse the number in plain text, as in published metrics."""
    if len(text) > 80 or _TEXT.fullmatch(text) is None:
        return None
    stripped = text.strip()
    return int(stripped) if stripped.lstrip("+-").isdigit() else float(stripped)


def _reach(value: object, path: Path) -> object:
    if path == (BARE,) and not isinstance(value, dict):
        return _number_in_text(value) if isinstance(value, str) else value
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
