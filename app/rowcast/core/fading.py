"""A table whose entries fade: each lasts a fixed time, and there is a most of them.

It is what may be remembered about strangers. Entries end in the order in which they were put in,
so what is over is always at the front, and a flood costs each entry once (D56). It must
not know clocks: the time is given.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlMap(Generic[K, V]):
    """Values by key for ``seconds``; beyond ``most`` of them the oldest makes room."""

    __slots__ = ("_entries", "_most", "_seconds", "forgotten")

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self.forgotten = 0
        """Entries that made room before their time."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: float) -> V | None:
        """Return the value, unless its time is over."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0] > now else None

    def put(self, key: K, value: V, now: float) -> None:
        """Keep a value from now on; the time of an older one of this key does not count."""
        entries = self._entries
        entries.pop(key, None)
        self._clean(now)
        if len(entries) >= self._most:
            entries.popitem(last=False)
            self.forgotten += 1
        entries[key] = now + self._seconds, value

    def drop(self, key: K) -> None:
        """Forget a key."""
        self._entries.pop(key, None)

    def left(self, now: float) -> Iterator[tuple[K, V, float]]:
        """Give key, value and the seconds left of all that is not over."""
        self._clean(now)
        for key, (end, value) in self._entries.items():
            yield key, value, end - now

    def _clean(self, now: float) -> None:
        entries = self._entries
        while entries:
            first = next(iter(entries))
            if entries[first][0] > now:
                return
            entries.popitem(last=False)
