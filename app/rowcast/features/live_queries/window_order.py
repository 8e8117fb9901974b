"""The first records of an order, and what a write changes about those in a window (M3).

More is known than the window has: some spare records behind it, up to a horizon. While enough are
known, a record that leaves is followed by the next one without a read of the store.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from operator import is_
from typing import Final, NamedTuple

from rowcast.core.comparison import Place
from rowcast.core.events import Record
from rowcast.core.query_limits import WINDOW_BYTES_MAX
from rowcast.core.query_windows import Extent
from rowcast.subscriptions.live_query import PARTS, Step

Key = tuple[Place, ...]
"""A record's place in the order (``evaluation.order_key``): no two are equal."""


class Entry(NamedTuple):
    """A record at its place."""

    key: Key
    record: Record


class WindowStep(NamedTuple):
    """What a write means to a window; ``record`` is the one that leaves, too."""

    step: Step
    record: Record


class WindowOrder:
    """The records that are known: all up to the horizon, or all that there are."""

    def __init__(
        self,
        extent: Extent,
        entries: Iterable[Entry],
        horizon: Key | None,
        most: int,
        bytes_max: int = WINDOW_BYTES_MAX,
    ) -> None:
        """Take entries in order; ``horizon`` is None when there are no others.

        At most ``most`` are kept, and spare ones only within ``bytes_max`` of payload.
        """
        self._extent: Final = extent
        self._entries = list(entries)
        self._keys = {entry.record.topic: entry.key for entry in self._entries}
        self._horizon = horizon
        self._most = most
        self._bytes = sum(len(entry.record.payload) for entry in self._entries)
        self._bytes_max = bytes_max
        self._shrink()

    def __len__(self) -> int:
        return len(self._entries)

    def copy(self, more: int = 0) -> "WindowOrder":
        """Return a copy that has room for some more."""
        most = self._most + more
        return WindowOrder(self._extent, self._entries, self._horizon, most, self._bytes_max)

    @property
    def fits(self) -> bool:
        """Whether the payloads of the window are within their bound."""
        return self._bytes <= self._bytes_max

    @property
    def is_enough(self) -> bool:
        """Whether the records of the window are known."""
        return self._horizon is None or len(self._entries) >= self._extent.end

    def reaches(self, records: int) -> bool:
        """Whether the window is known, and so many records, if there are so many."""
        return self.is_enough and (self._horizon is None or len(self._entries) >= records)

    @property
    def window(self) -> list[Entry]:
        """Return the records of the window, in order."""
        return self._entries[self._extent.begin : self._extent.end]

    @property
    def topics(self) -> list[str]:
        """Return the topics of the records that are known."""
        return list(self._keys)

    def has(self, topic: str) -> bool:
        """Whether a record is known."""
        return topic in self._keys

    def take(self, topic: str, entry: Entry | None) -> list[WindowStep] | None:
        """Take a record as it is now, None if it is not in the order; return the steps.

        None: too few are known to tell.
        """
        old = self.window
        self.put(topic, entry)
        return self.steps_since(old)

    def steps_since(self, old: list[Entry]) -> list[WindowStep] | None:
        """Return what has changed of the window; None: too few are known to tell."""
        if not self.is_enough:
            return None
        new = self.window
        if len(old) == len(new) and all(map(is_, old, new)):
            return []
        return _difference(old, new)

    def put(self, topic: str, entry: Entry | None) -> None:
        """Put a record at its place, or nowhere."""
        key = self._keys.pop(topic, None)
        if key is not None:
            left = self._entries.pop(bisect_left(self._entries, key, key=_key))
            self._bytes -= len(left.record.payload)
        horizon = self._horizon
        if entry is None or (horizon is not None and horizon < entry.key):
            return
        insort(self._entries, entry, key=_key)
        self._keys[topic] = entry.key
        self._bytes += len(entry.record.payload)
        self._shrink()

    def _shrink(self) -> None:
        """Forget the last spare records, while there are too many."""
        while len(self._entries) > self._extent.end and (
            len(self._entries) > self._most or self._bytes > self._bytes_max
        ):
            beyond = self._entries.pop()
            del self._keys[beyond.record.topic]
            self._bytes -= len(beyond.record.payload)
            self._horizon = beyond.key  # all before it are known


def _key(entry: Entry) -> Key:
    return entry.key


def _difference(old: list[Entry], new: list[Entry]) -> list[WindowStep]:
    """Return what leaves, and then what changes and enters."""
    was = {entry.record.topic: entry for entry in old}
    now = {entry.record.topic for entry in new}
    steps = [WindowStep(Step.LEAVE, it.record) for it in old if it.record.topic not in now]
    for entry in new:
        before = was.get(entry.record.topic)
        if before is None:
            steps.append(WindowStep(Step.ENTER, entry.record))
        elif before is not entry and not _is_told_alike(before.record, entry.record):
            steps.append(WindowStep(Step.CHANGE, entry.record))
    return steps


def _is_told_alike(before: Record, record: Record) -> bool:
    """Whether readers who are told selected parts of a record have them already."""
    parts = PARTS.of(before, False) and PARTS.of(record, False)
    return parts and before.payload == record.payload
