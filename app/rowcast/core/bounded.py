"""Bounded caches, safe for data from untrusted clients.

The class is the eviction rule; the bound is an argument, in entries:

- ``ClearedCache`` is cleared when it is full. It is the smallest and fastest, for values that are
  cheap to recompute.
- ``BoundedCache`` evicts the oldest entry, or the least recently used one where readers ``use`` it.
- ``TtlMap`` expires each entry after a fixed time, and evicts the oldest when it is full.

The first two are dictionaries: a read (``get``, ``in``) calls no Python function, so they can be
used on hot paths. Only ``put`` enforces the bound. They have no clock: calls pass the time.

``reads/record_cache.py`` and ``reads/log_pages.py`` have their own caches, which also count bytes.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ClearedCache(dict[K, V]):
    """A dict that is cleared when ``put`` would exceed ``entries_max``."""

    __slots__ = ("entries_max",)

    def __init__(self, entries_max: int) -> None:
        super().__init__()
        self.entries_max = entries_max

    def put(self, key: K, value: V) -> V:
        """Store and return the value of a new key."""
        if len(self) >= self.entries_max:
            self.clear()
        self[key] = value
        return value


class BoundedCache(OrderedDict[K, V]):
    """A dict of at most ``entries_max`` entries; the first in order is evicted.

    ``evicted`` is called with an evicted value. It is an OrderedDict because finding the first key
    of a plain dict scans past all removed ones, with 65,536 entries for 50 microseconds each time.
    """

    __slots__ = ("_evicted", "entries_max")

    def __init__(self, entries_max: int, evicted: Callable[[V], object] | None = None) -> None:
        super().__init__()
        self.entries_max = entries_max
        self._evicted = evicted

    def put(self, key: K, value: V) -> V:
        """Store and return a value; its key becomes the newest."""
        if key in self:
            self.move_to_end(key)
        elif len(self) >= self.entries_max:
            _, gone = self.popitem(last=False)
            if self._evicted is not None:
                self._evicted(gone)
        self[key] = value
        return value

    def use(self, key: K) -> V | None:
        """Return the value of a key, if any, and make it the newest, for LRU eviction."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value


class TtlMap(Generic[K, V]):
    """Values by key for ``seconds``; beyond ``entries_max`` the oldest is evicted.

    Entries expire in insertion order, so expired ones are always at the front, and each entry is
    removed once, even in a flood (D56).
    """

    __slots__ = ("_entries", "_seconds", "entries_max", "forgotten")

    def __init__(self, seconds: float, entries_max: int) -> None:
        self._seconds = seconds
        self.entries_max = entries_max
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self.forgotten = 0
        """Entries evicted before their expiry."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: float) -> V | None:
        """Return the value, or None if it is missing or expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0] > now else None

    def put(self, key: K, value: V, now: float) -> None:
        """Store a value; its lifetime starts now, even if the key existed."""
        entries = self._entries
        entries.pop(key, None)
        self._clean(now)
        if len(entries) >= self.entries_max:
            entries.popitem(last=False)
            self.forgotten += 1
        entries[key] = now + self._seconds, value

    def drop(self, key: K) -> None:
        """Remove a key."""
        self._entries.pop(key, None)

    def left(self, now: float) -> Iterator[tuple[K, V, float]]:
        """Yield key, value and remaining seconds of all entries that have not expired."""
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
