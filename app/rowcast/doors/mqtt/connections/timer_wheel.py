"""A timer wheel: one timer of the loop for many timeouts; one each would take half a kilobyte.

Times are rounded up to the next slot, so what rings in the same slot shares an entry of the wheel.
It knows nothing of connections.
"""

import asyncio
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

SLOTS_PER_SECOND: Final = 16
"""So late may something ring: short beside the shortest Keep Alive, which is a second."""
SLOTS_SPARE: Final = 64
"""Slots without entries that may be left over before they are cleared away."""


class Rings(Protocol):
    """What is called when its time has come."""

    def ring(self) -> None:
        """Hear that it is time."""


class TimerWheel:
    """What is to ring, by its time."""

    __slots__ = ("_loop", "_order", "_rings_at", "_slots", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots: dict[int, dict[Rings, None]] = {}
        self._order: list[int] = []
        """A heap of the slots; some may be empty by now."""
        self._rings_at = 0
        """The slot for which the timer is set."""
        self._timer: asyncio.TimerHandle | None = None

    def put(self, item: Rings, seconds: float) -> int:
        """Have an item ring after so many seconds; return its slot."""
        slot = int((self._loop.time() + seconds) * SLOTS_PER_SECOND) + 1
        entries = self._slots.get(slot)
        if entries is None:
            entries = self._slots[slot] = {}
            heappush(self._order, slot)
            if self._timer is None or slot < self._rings_at:
                self._set(slot)
        entries[item] = None
        return slot

    def remove(self, item: Rings, slot: int) -> None:
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
        self._rings_at = slot
        seconds = slot / SLOTS_PER_SECOND - self._loop.time()
        self._timer = self._loop.call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time() * SLOTS_PER_SECOND
        while self._order and self._order[0] <= now:
            for item in self._slots.pop(heappop(self._order), ()):
                self._loop.call_soon(item.ring)  # so that none fails for another
        if self._order:
            self._set(self._order[0])
