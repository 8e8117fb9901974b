"""The output of a resource's own ``connect``: any asynchronous iterable, closed reliably.

It may yield plain values, which are sent unchanged, or the (event, interest) pairs of
``super().connect()``, which are sent as envelopes.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator
from typing import Any

from rowcast.codecs import encode_answer
from rowcast.core.errors import Error
from rowcast.core.events import Event
from rowcast.routes.resource import Stream


async def items_of(source: Any) -> AsyncGenerator[object, None]:
    """Iterate over a resource's output; always closes it.

    Others have their turn after each item: a source that never waits would hold the loop for good
    when its reader has gone, because then sending does not wait either.
    """
    iterator: Any = None
    try:
        if inspect.isawaitable(source):
            source = await source
        iterator = aiter(source)
        async for item in iterator:
            yield item
            await asyncio.sleep(0)
    finally:
        if isinstance(source, Stream):
            source.close()
        if hasattr(iterator, "aclose"):
            await iterator.aclose()


def encoded(item: object, media_type: str) -> bytes:
    """Encode a plain value; raises TypeError, because the client has made no mistake."""
    try:
        return encode_answer(item, media_type)
    except Error as error:
        raise TypeError(f"connect gave what cannot be sent: {error.message}") from error


def event_in(item: object) -> Event | None:
    """Return the event of an (event, interest) pair, None for a plain value."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], Event):
        return item[0]
    return item if isinstance(item, Event) else None
