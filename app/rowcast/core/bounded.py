"""Caches with a bound: what the server remembers, whatever strangers send.

The class is the eviction rule; the bound is an argument, in entries:

- ``ClearedCache`` forgets everything when it is full. It is the smallest and fastest, for answers
  that are cheap to work out again.
- ``BoundedCache`` evicts the oldest entry, or the least recently used one where readers ``use`` it.
- ``TtlMap`` ends each entry after a fixed time, and evicts the oldest when it is full.

The first two are dictionaries: a read (``get``, ``in``) calls no Python function, so they may stand
on hot paths. Only ``put`` keeps the bound. They must not know clocks: the time is given.

By hand remain ``reads/record_cache.py`` and ``reads/log_pages.py``, which also count bytes.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ClearedCache(dict[K, V]):
    """A dict that forgets everything when an entry is put in beyond ``entries_max``."""

    __slots__ = ("entries_max",)

    def __init__(self, entries_max: int) -> None:
        super().__init__()
        self.entries_max = entries_max

    def put(self, key: K, value: V) -> V:
        """Keep and return a value of a new key."""
        if len(self) >= self.entries_max:
            self.clear()
        self[key] = value
        return value


class BoundedCache(OrderedDict[K, V]):
    """A dict of at most ``entries_max``; the first in order makes room for a new one.

    ``evicted`` is called with a value that made room. It is an OrderedDict because the first key of
    a plain dict costs a search past all that were removed before it, with 65,536 entries 50
    microseconds each time.
    """

    __slots__ = ("_evicted", "entries_max")

    def __init__(self, entries_max: int, evicted: Callable[[V], object] | None = None) -> None:
        super().__init__()
        self.entries_max = entries_max
        self._evicted = evicted

    def put(self, key: K, value: V) -> V:
        """Keep and return a value; its key becomes the newest."""
        if key in self:
            self.move_to_end(key)
        elif len(self) >= self.entries_max:
            _, gone = self.popitem(last=False)
            if self._evicted is not None:
                self._evicted(gone)
        self[key] = value
        return value

    def use(self, key: K) -> V | None:
        """Return the value of a key, if any, which becomes the newest: least recently used goes."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value


class TtlMap(Generic[K, V]):
    """Values by key for ``seconds``; beyond ``entries_max`` of them the oldest makes room.

    Entries end in the order in which they were put in, so expired ones are always at the front,
    and a flood costs each entry once (D56).
    """

    __slots__ = ("_entries", "_seconds", "entries_max", "forgotten")

    def __init__(self, seconds: float, entries_max: int) -> None:
        self._seconds = seconds
        self.entries_max = entries_max
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
        if len(entries) >= self.entries_max:
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
