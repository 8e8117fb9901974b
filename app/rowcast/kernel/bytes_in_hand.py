"""Writes in hand: how many bytes each caller has here that are not answered, and who is slowed.

One client that sends faster than the disk takes would fill the memory, and its writes would go
before everybody else's. So bytes are counted, in sum and for each caller: a connection that has too
many of them is not read from until half of them are answered, and when all together are too many,
those that have more than the mean are not. A caller that cannot be made to wait is refused.

It knows neither connections nor the disk: ``commit.py`` counts, the doors ask.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.memory_limits import (
    COMMIT_BACKLOG_BYTES_HIGH,
    COMMIT_BACKLOG_BYTES_MAX,
    COMMIT_BATCH_BYTES_MAX,
    COMMIT_CLIENT_BYTES_HIGH,
    COMMIT_CLIENT_BYTES_MAX,
)

log = logging.getLogger("rowcast.commit")


@dataclass(frozen=True, slots=True)
class WriteBounds:
    """Bounds of writes in hand, in bytes."""

    client_high: int = COMMIT_CLIENT_BYTES_HIGH
    """Of one client before it is not read from."""
    client_max: int = COMMIT_CLIENT_BYTES_MAX
    """Of one caller before it is refused."""
    high: int = COMMIT_BACKLOG_BYTES_HIGH
    """Of all before those with more than the mean are not read from."""
    most: int = COMMIT_BACKLOG_BYTES_MAX
    """Of all before writes are refused."""
    batch: int = COMMIT_BATCH_BYTES_MAX
    """Of one transaction."""


class BytesInHand(dict[Caller, int]):
    """Callers and how many bytes of theirs are in hand; who has none is not in it."""

    __slots__ = ("_bounds", "high", "size", "slowed")

    def __init__(self, bounds: WriteBounds) -> None:
        super().__init__()
        self._bounds = bounds
        self.size = 0
        """All of them together."""
        self.high = bounds.high
        """How many are too many for what can wait."""
        self.slowed: dict[Caller, list[Callable[[], None]]] = {}
        """Callers that are not read from, and what to call when they may be again."""

    def check(self, caller: Caller, size: int) -> None:
        """Raise BUSY if so many bytes more would be too many."""
        bounds = self._bounds
        own = self.get(caller, 0)
        if own and own + size > bounds.client_max:
            raise _too_many(own, "of yours ")
        if self and self.size + size > bounds.most:
            raise _too_many(self.size, "")

    def slows(self, caller: Caller, *, crowded: bool) -> bool:
        """Tell whether a caller should not be read from for now."""
        own = self.get(caller, 0)
        return own >= self._bounds.client_high or (
            crowded and own > 0 and own * len(self) >= self.size
        )

    def when_room(self, caller: Caller, call: Callable[[], None]) -> None:
        """Call once, when the caller may be read from again."""
        self.slowed.setdefault(caller, []).append(call)

    def let_go(self, *, crowded: bool) -> None:
        """Let those be read from again that have little enough in hand."""
        low = self._bounds.client_high // 2
        for caller in list(self.slowed):
            if self.get(caller, 0) <= low and not self.slows(caller, crowded=crowded):
                for call in self.slowed.pop(caller):
                    relieve(call)


def relieve(call: Callable[[], None]) -> None:
    """Call who waited for room; a failure is that one's alone."""
    try:
        call()
    except Exception:
        log.exception("a connection failed to read again")


def _too_many(size: int, whose: str) -> Error:
    return Error(
        Code.BUSY,
        f"{size} bytes {whose}are waiting for the disk; try again in a second",
        retry_after_seconds=1,
    )
