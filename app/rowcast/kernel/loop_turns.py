"""Long work on the event loop in parts, between which everybody else has a turn.

A request may bring ten thousand records, and each costs some fifty microseconds before it waits for
the disk: done at once, nobody else would be answered for half a second.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

LOOP_TURN_ITEMS: Final = 100
"""Records that are worked on in one turn of the loop: some milliseconds."""


async def in_turns(items: Sequence[T], size: int = LOOP_TURN_ITEMS) -> AsyncIterator[Sequence[T]]:
    """Give the items in their order, at most ``size`` in each turn of the loop."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]
