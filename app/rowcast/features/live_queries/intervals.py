"""Intervals of comparable values, found by a value: centred interval trees.

The trees are never changed. A few added intervals are compared one by one; then they become a tree,
together with the trees that have no more intervals than they (the logarithmic method: Bentley and
Saxe, Decomposable searching problems I, 1980). So there is a logarithm of trees, of which a lookup
takes a logarithm each, and the intervals that it finds; and an interval is moved to another tree a
logarithm of times.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from rowcast.core.query_limits import QUERY_INDEX_SINGLE_MAX


class Interval(NamedTuple):
    """Values from ``low`` to ``high``, both included; None: without an end."""

    low: Any
    high: Any

    def has(self, value: Any) -> bool:
        """Whether a value is in it."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    @property
    def is_empty(self) -> bool:
        """Whether no value is in it."""
        return self.low is not None and self.high is not None and self.high < self.low

    def within(self, other: "Interval") -> "Interval":
        """Return what both have in common."""
        lows = [one for one in (self.low, other.low) if one is not None]
        highs = [one for one in (self.high, other.high) if one is not None]
        return Interval(max(lows, default=None), min(highs, default=None))


Item = tuple[Interval, str]


class _Node:
    """The intervals around a centre, those below, and those above."""

    __slots__ = ("_above", "_below", "_by_high", "_by_low", "_centre", "_greatest", "_least")

    def __init__(self, items: list[Item]) -> None:
        ends = sorted(end for interval, _ in items for end in interval if end is not None)
        centre = self._centre = ends[len(ends) // 2] if ends else None
        self._least = None if any(one.low is None for one, _ in items) else ends[0]
        self._greatest = None if any(one.high is None for one, _ in items) else ends[-1]
        here: list[Item] = []
        below: list[Item] = []
        above: list[Item] = []
        for item in items:
            low, high = item[0]
            if high is not None and high < centre:
                below.append(item)
            elif low is not None and low > centre:
                above.append(item)
            else:
                here.append(item)
        self._by_low = [item for item in here if item[0].low is None]
        self._by_low += sorted(
            (item for item in here if item[0].low is not None), key=lambda item: item[0].low
        )
        self._by_high = [item for item in here if item[0].high is None]
        self._by_high += sorted(
            (item for item in here if item[0].high is not None),
            key=lambda item: item[0].high,
            reverse=True,
        )
        self._below = _Node(below) if below else None
        self._above = _Node(above) if above else None

    def find(self, value: Any, found: list[str]) -> None:
        """Append the names of the intervals that have a value."""
        node: _Node | None = self
        while node is not None:
            if (node._least is not None and value < node._least) or (
                node._greatest is not None and node._greatest < value
            ):
                return
            down = node._centre is not None and value < node._centre
            for interval, name in node._by_low if down else node._by_high:
                if not interval.has(value):
                    break
                found.append(name)
            node = node._below if down else node._above


class Intervals:
    """Named intervals of values of one kind; ``single_max`` are compared one by one."""

    def __init__(self, single_max: int = QUERY_INDEX_SINGLE_MAX) -> None:
        self._single_max = single_max
        self._items: dict[str, list[Interval]] = {}
        self._single: list[Item] = []
        self._trees: list[tuple[_Node, list[Item]]] = []
        """The largest first; they may have intervals that were removed."""
        self._removed = 0
        """Intervals that were removed and may be in trees."""

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, name: str, interval: Interval) -> None:
        """Add an interval, unless it is empty; a name may have several."""
        if interval.is_empty:
            return
        self._items.setdefault(name, []).append(interval)
        self._single.append((interval, name))
        if len(self._single) > self._single_max:
            self._plant(self._single)
            self._single = []

    def _plant(self, items: list[Item]) -> None:
        """Make a tree of intervals, and of the trees that are no larger."""
        while self._trees and len(self._trees[-1][1]) <= len(items):
            _, others = self._trees.pop()
            items = others + items
        self._trees.append((_Node(items), items))

    def remove(self, name: str) -> None:
        """Remove all intervals of a name."""
        self._removed += len(self._items.pop(name, ()))
        self._single = [item for item in self._single if item[1] != name]
        if self._removed > len(self._items) + self._single_max:
            items = [(one, name) for name, those in self._items.items() for one in those]
            self._removed, self._single, self._trees = 0, [], []
            if items:
                self._plant(items)

    def find(self, value: Any) -> Iterable[str]:
        """Return names, of all intervals that have a value, and maybe of others."""
        found = [name for interval, name in self._single if interval.has(value)]
        for tree, _ in self._trees:
            tree.find(value, found)
        return [name for name in found if name in self._items] if self._removed else found
