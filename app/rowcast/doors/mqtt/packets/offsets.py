"""``$stream/<filter>``: a subscription that starts at a position of the log (D55).

The user property ``stream-offset`` of SUBSCRIBE sets the start, also of a new shared subscription.
Otherwise it is an ordinary subscription to the filter: events have their own topics, and an
existing filter of the client continues at its position.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.kernel.kernel import Kernel
from rowcast.subscriptions.start_position import (
    START_WORDS,
    StartPosition,
    position,
    start_position,
    stream_offset,
)

STREAM_PREFIX: Final = "$stream/"
OFFSET: Final = "stream-offset"
"""The user property with the start of a stream."""
NEXT: Final = "next"
SYSTEM: Final = "$SYS/"
"""The server's own topics that are logged (F27)."""
WORDS: Final = tuple(word for word in START_WORDS if word not in {"since", "start"})
"""The user properties besides ``since`` with the start of any subscription."""


async def beginning(kernel: Kernel, topics: TopicFilter, offset: str) -> str | int | None:
    """Return the position, or cursor, after which a stream starts; None for now."""
    _check_history(kernel, topics)
    return await _position(kernel, topics, stream_offset(offset))


def start_of(kernel: Kernel, users: Mapping[str, str]) -> StartPosition | None:
    """Return the start position in the user properties of a SUBSCRIBE (C24).

    None if there is none, or only ``since``. Raises INVALID.
    """
    given = {name: users[name] for name in ("since", *WORDS) if name in users}
    start = start_position(given, kernel.now())
    return start if given.keys() - {"since"} else None


async def started(kernel: Kernel, topics: TopicFilter, start: StartPosition) -> str | int | None:
    """Return the position, or cursor, after which a subscription starts."""
    _check_history(kernel, topics)
    return await _position(kernel, topics, start)


async def _position(kernel: Kernel, topics: TopicFilter, start: StartPosition) -> str | int | None:
    reader = kernel.reader
    return start.since or await position(reader, [topics], reader.sources(topics), start)


def number_ahead(kernel: Kernel, since: str | None) -> int:
    """Return the number of a cursor beyond this process's end of the log; 0 for any other.

    Another node may have it. What is no cursor is refused with its filter.
    """
    if since is None:
        return 0
    with suppress(Error):
        cursor, reader = parse_cursor(since), kernel.reader
        if cursor.epoch == reader.epoch and cursor.seq > reader.reach():
            return cursor.seq
    return 0


def _check_history(kernel: Kernel, topics: TopicFilter) -> None:
    """Raise if the log can have no event that matches the filter."""
    text = topics.text
    if text.startswith("$") and not text.startswith(SYSTEM):
        raise Error(
            Code.NOT_FOUND, f"{text[:100]!r} has no history: the server's own is not logged"
        )
    if topics.exact:
        route = kernel.registry.route(text)
        if route.overrides("subscribe") or route.overrides("connect"):
            raise Error(
                Code.NOT_ALLOWED, f"{text[:100]!r} has no history: it streams by its own code"
            )
    declared = any(isinstance(item, Table) for item in kernel.reader.sources(topics))
    if not kernel.registry.undeclared and not declared:
        raise Error(Code.NOT_FOUND, f"{text[:100]!r} has no history: no table is declared there")
