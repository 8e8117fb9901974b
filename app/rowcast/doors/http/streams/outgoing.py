"""What a resource's own ``connect`` sends: any asynchronous iterable, closed with care.

It may yield plain values, which go out as they are, or the (event, interest) pairs of a stream
that it took from ``super().connect()``, which go out as envelopes.
"""

import inspect
from collections.abc import AsyncGenerator
from typing import Any

from rowcast.core.events import Event
from rowcast.kernel.resource import Stream


async def items_of(source: Any) -> AsyncGenerator[object, None]:
    """Iterate what a resource sends; close it whatever happens."""
    iterator: Any = None
    try:
        if inspect.isawaitable(source):
            source = await source
        iterator = aiter(source)
        async for item in iterator:
            yield item
    finally:
        if isinstance(source, Stream):
            source.close()
        if hasattr(iterator, "aclose"):
            await iterator.aclose()


def event_in(item: object) -> Event | None:
    """Return the event of an (event, interest) pair, None for a plain value."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], Event):
        return item[0]
    return item if isinstance(item, Event) else None
