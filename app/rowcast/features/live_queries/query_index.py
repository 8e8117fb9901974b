"""The index of live queries on one table: which of them a record may match.

Each query is found by some terms, of which at least one holds whenever its conditions do: an
attribute that equals a value, or lies in an interval. Queries without such terms are compared with
every record. So the cost of a write grows with the queries that it matches, and not with those that
exist. What is found is a superset; ``conditions.holds`` decides.
"""

from typing import Final, NamedTuple

from rowcast.core.comparison import RANK_LAST, Place, comparable, rank_of
from rowcast.core.conditions import (
    ID_PATH,
    ComputedPath,
    Condition,
    Group,
    Operator,
    Path,
    Where,
    is_nan,
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
    """Return a value as a key, NaN as null; None for one that is no key, such as a list."""
    if value is None:
        return _NULL
    rank = rank_of(value)
    if rank == RANK_LAST:
        return _NULL if is_nan(value) else None
    return rank, comparable(value)


class _Values:
    """The queries that are found by the value at one path."""

    def __init__(self, path: Path) -> None:
        is_plain = len(path) == 1 and path != ID_PATH and not isinstance(path, ComputedPath)
        self._path = path
        self._name = path[0] if is_plain else None
        """That of the attribute, which most paths are: it is looked up without ``reach``."""
        self.equal: dict[Key, dict[str, None]] = {}
        self.within: dict[int, Intervals] = {}

    def of(self, value: object, record_id: object) -> object:
        """Return the value at the path."""
        if self._name is not None and isinstance(value, dict):
            return value.get(self._name)
        return reach(self._path, value, record_id)

    def find(self, value: object, found: set[str]) -> None:
        """Add the names of the queries that a value may match."""
        key = key_of(value)
        if key is None:
            return
        names = self.equal.get(key)
        if names is not None:
            found.update(names)
        intervals = self.within.get(key[0])
        if intervals is not None:
            found.update(intervals.find(key[1]))


class QueryIndex:
    """The queries of one table, by name."""

    def __init__(self) -> None:
        self._terms: dict[str, Terms] = {}
        self._paths: dict[Path, _Values] = {}
        self._rest: dict[str, None] = {}

    def add(self, name: str, where: Where | None) -> None:
        """Add a query."""
        terms = terms_of(where)
        if terms is None:
            self._rest[name] = None
            return
        self._terms[name] = terms
        for term in terms:
            at = self._paths.setdefault(term.path, _Values(term.path))
            if isinstance(term, Equal):
                at.equal.setdefault(term.key, {})[name] = None
            else:
                at.within.setdefault(term.rank, Intervals()).add(name, term.interval)

    def remove(self, name: str) -> None:
        """Remove a query."""
        self._rest.pop(name, None)
        for term in self._terms.pop(name, ()):
            at = self._paths.get(term.path)
            if at is None:
                continue
            if isinstance(term, Equal):
                names = at.equal.get(term.key, {})
                names.pop(name, None)
                if not names:
                    at.equal.pop(term.key, None)
            elif (intervals := at.within.get(term.rank)) is not None:
                intervals.remove(name)
                if not intervals:
                    del at.within[term.rank]
            if not (at.equal or at.within):
                del self._paths[term.path]

    def find(self, record_id: object, *values: object) -> set[str]:
        """Return the names of queries that a record may match in one of its values."""
        found = set(self._rest)
        for at in self._paths.values():
            before: object = self  # which no value is
            for value in values:
                here = at.of(value, record_id)
                if here is not before:
                    at.find(here, found)
                before = here
        return found
