"""A timer wheel: one timer of the loop for many timeouts; one each would take half a kilobyte.

Times are rounded up to the next slot, so what expires in one slot shares an entry of the wheel. It
knows nothing of connections.
"""

import asyncio
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

SLOTS_PER_SECOND: Final = 16
"""So late may a callback be: short beside the shortest Keep Alive, which is a second."""
SLOTS_SPARE: Final = 64
"""Slots without entries that may be left over before they are cleared away."""


class TimerCallback(Protocol):
    """An object whose ``on_timer`` is called when its time has come."""

    def on_timer(self) -> None:
        """Called when its time has come."""


class TimerWheel:
    """Timed objects, by their time."""

    __slots__ = ("_expires_at", "_loop", "_order", "_slots", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots: dict[int, dict[TimerCallback, None]] = {}
        self._order: list[int] = []
        """A heap of the slots; some may be empty by now."""
        self._expires_at = 0
        """The slot for which the timer is set."""
        self._timer: asyncio.TimerHandle | None = None

    def put(self, item: TimerCallback, seconds: float) -> int:
        """Call an item after so many seconds; return its slot."""
        slot = int((self._loop.time() + seconds) * SLOTS_PER_SECOND) + 1
        entries = self._slots.get(slot)
        if entries is None:
            entries = self._slots[slot] = {}
            heappush(self._order, slot)
            if self._timer is None or slot < self._expires_at:
                self._set(slot)
        entries[item] = None
        return slot

    def remove(self, item: TimerCallback, slot: int) -> None:
        """Forget an item; ignored if it has rung."""
        entries = self._slots.get(slot)
        if entries is None:
            return
        entries.pop(item, None)
        if not entries:
            del self._slots[slot]
        if not self._slots and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if len(self._order) > 2 * len(self._slots) + SLOTS_SPARE:
            self._order = list(self._slots)
            heapify(self._order)

    def _set(self, slot: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._expires_at = slot
        seconds = slot / SLOTS_PER_SECOND - self._loop.time()
        self._timer = self._loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time() * SLOTS_PER_SECOND
        while self._order and self._order[0] <= now:
            for item in self._slots.pop(heappop(self._order), ()):
                self._loop.call_soon(item.on_timer)  # so that none fails for another
        if self._order:
            self._set(self._order[0])
