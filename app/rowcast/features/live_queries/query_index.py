"""The index of live queries on one table: which of them a record may match.

Each query is found by some terms, of which at least one holds whenever its conditions do: an
attribute that equals a value, or lies in an interval. Queries without such terms are compared with
every record. So the cost of a write grows with the queries that it matches, and not with those that
exist. What is found is a superset; ``conditions.holds`` decides.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from rowcast.core.comparison import RANK_LAST, Place
from rowcast.core.conditions import (
    Condition,
    Group,
    Operator,
    Path,
    Where,
    reach,
)
from rowcast.features.live_queries.intervals import Interval, Intervals

Key = tuple[int, object]
"""A value as a key: its rank (``comparison.rank_of``), and itself."""

_NULL: Final[Key] = (RANK_LAST, None)
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class Equal(NamedTuple):
    """The value at a path equals that of the key."""

    path: Path
    key: Key


class Within(NamedTuple):
    """The value at a path has a rank, and lies in an interval."""

    path: Path
    rank: int
    interval: Interval


Terms = list["Equal | Within"]


def terms_of(where: Where | None) -> Terms | None:
    """Return terms of which one holds whenever the conditions do; None if there are none such."""
    if isinstance(where, Condition):
        return _terms_of_condition(where)
    if not isinstance(where, Group):
        return None
    parts = [terms_of(item) for item in where.items]
    known = [part for part in parts if part is not None]
    if not where.all_of:
        return [term for part in known for term in part] if len(known) == len(parts) else None
    return min(_joined(known), key=_cost, default=None)


def _terms_of_condition(where: Condition) -> Terms | None:
    values = where.value if isinstance(where.value, tuple) else (where.value,)
    match where.operator:
        case Operator.EQ | Operator.IN:
            keys = [key_of(value) for value in values]
            found: Terms = [Equal(where.path, key) for key in keys if key is not None]
            return found if len(found) == len(keys) else None
        case Operator.GT | Operator.GE:
            return _ordered(where, low=True)
        case Operator.LT | Operator.LE:
            return _ordered(where, low=False)
        case Operator.STARTS_WITH:
            text = str(where.value)
            place = Place(text)
            return [Within(where.path, place.rank, Interval(text, _after(text)))]
        case _:
            return None


def _ordered(where: Condition, *, low: bool) -> Terms:
    place = Place(where.value)
    if place.rank == RANK_LAST:
        return []  # never true
    interval = Interval(place.value, None) if low else Interval(None, place.value)
    return [Within(where.path, place.rank, interval)]


def _after(prefix: str) -> str | None:
    """Return a text at or after all texts with a prefix; None if there is none."""
    text = prefix.rstrip(chr(_LAST_CHARACTER))
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def _joined(parts: list[Terms]) -> list[Terms]:
    """Join single intervals of one path, such as the two ends of a range."""
    joined: dict[tuple[Path, int], Within] = {}
    others: list[Terms] = []
    for part in parts:
        first = part[0] if len(part) == 1 else None
        if not isinstance(first, Within):
            others.append(part)
            continue
        known = joined.get((first.path, first.rank))
        interval = first.interval if known is None else first.interval.within(known.interval)
        joined[first.path, first.rank] = Within(first.path, first.rank, interval)
    others.extend([one] for one in joined.values())
    return others


def _cost(terms: Terms) -> int:
    """Return an estimate of how many records terms select: the less, the better to find by."""
    return sum(
        1 if isinstance(term, Equal) else 20 if None not in term.interval else 1_000
        for term in terms
    )


def key_of(value: object) -> Key | None:
    """Return a value as a key; None for one that is no key, such as a list."""
    if value is None:
        return _NULL
    place = Place(value)
    return None if place.rank == RANK_LAST else (place.rank, place.value)


class QueryIndex:
    """The queries of one table, by name."""

    def __init__(self) -> None:
        self._terms: dict[str, Terms] = {}
        self._equal: dict[Path, dict[Key, dict[str, None]]] = {}
        self._within: dict[Path, dict[int, Intervals]] = {}
        self._rest: dict[str, None] = {}

    def add(self, name: str, where: Where | None) -> None:
        """Add a query."""
        terms = terms_of(where)
        if terms is None:
            self._rest[name] = None
            return
        self._terms[name] = terms
        for term in terms:
            if isinstance(term, Equal):
                self._equal.setdefault(term.path, {}).setdefault(term.key, {})[name] = None
            else:
                ranks = self._within.setdefault(term.path, {})
                ranks.setdefault(term.rank, Intervals()).add(name, term.interval)

    def remove(self, name: str) -> None:
        """Remove a query."""
        self._rest.pop(name, None)
        for term in self._terms.pop(name, ()):
            if isinstance(term, Equal):
                self._remove_equal(term, name)
            elif (intervals := self._within.get(term.path, {}).get(term.rank)) is not None:
                intervals.remove(name)
                if not intervals:
                    del self._within[term.path][term.rank]
                    if not self._within[term.path]:
                        del self._within[term.path]

    def _remove_equal(self, term: Equal, name: str) -> None:
        keys = self._equal.get(term.path, {})
        names = keys.get(term.key, {})
        names.pop(name, None)
        if not names:
            keys.pop(term.key, None)
        if not keys:
            self._equal.pop(term.path, None)

    def find(self, value: object, record_id: object) -> Iterator[str]:
        """Yield the names of queries that a record may match; some twice."""
        yield from self._rest
        for path, keys in self._equal.items():
            key = key_of(reach(path, value, record_id))
            if key is not None:
                yield from keys.get(key, ())
        for path, ranks in self._within.items():
            place = Place(reach(path, value, record_id))
            intervals = ranks.get(place.rank)
            if intervals is not None:
                yield from intervals.find(place.value)
