"""Splits long work on the event loop into slices, so that it does not block.

A request may have ten thousand records, and each costs some fifty microseconds before the disk: at
once, that would block the loop for half a second.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

LOOP_TURN_ITEMS: Final = 100
"""Records per turn of the loop: some milliseconds."""


async def in_turns(items: Sequence[T], size: int = LOOP_TURN_ITEMS) -> AsyncIterator[Sequence[T]]:
    """Yield slices of the items, one per turn of the loop."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]
