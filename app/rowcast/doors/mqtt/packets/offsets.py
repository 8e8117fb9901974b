"""``$stream/<filter>``: a subscription that begins somewhere in the log (D55).

Where, the user property ``stream-offset`` of SUBSCRIBE says; a new shared subscription begins
there too. It is a subscription to the filter like any other but for its beginning: what is
delivered has its own topic, and a filter that the client has already goes on where it is.
"""

from collections.abc import Mapping
from typing import Final

from rowcast.core.clock import version_at
from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.history.places import FROM, Place
from rowcast.features.history.places import LAST as PREVIOUS
from rowcast.features.history.positions import before, before_first, before_last, before_time
from rowcast.kernel.kernel import Kernel

STREAM_PREFIX: Final = "$stream/"
OFFSET: Final = "stream-offset"
"""The user property that says where a stream begins."""
FIRST, LAST, NEXT = "first", "last", "next"
SYSTEM: Final = "$SYS/"
"""The server's own topics that are logged (F27)."""
WORDS: Final = (*PREVIOUS, *FROM)
"""The user properties that say where any subscription begins."""


async def beginning(kernel: Kernel, topics: TopicFilter, offset: str) -> str | int | None:
    """Return the position, or cursor, after which a stream begins; None for now."""
    _check_history(kernel, topics)
    reader = kernel.reader
    sources = reader.sources(topics)
    if offset == NEXT:
        return None
    if offset == FIRST:
        return before_first(reader, sources)
    if offset == LAST:
        return await before_last(reader, [topics], sources, 1)
    version = version_at(offset)
    if version is not None:
        return await before_time(reader, sources, version)
    try:
        return str(parse_cursor(offset))
    except Error:
        raise Error(
            Code.INVALID,
            f"stream-offset is first, last, next, a cursor or a time such as 2026-01-02T03:04:05Z, "
            f"not {offset[:80]!r}",
        ) from None


def place_of(kernel: Kernel, users: Mapping[str, str]) -> Place | None:
    """Return where the user properties of a SUBSCRIBE say that it begins (C24).

    None if they do not, or only with ``since``. Raises INVALID.
    """
    given = {name: users[name] for name in ("since", *WORDS) if name in users}
    place = kernel.past.place(given)
    return place if given.keys() - {"since"} else None


async def placed(kernel: Kernel, topics: TopicFilter, place: Place) -> str | int | None:
    """Return the position, or cursor, after which a subscription begins."""
    _check_history(kernel, topics)
    sources = kernel.reader.sources(topics)
    return place.since or await before(kernel.reader, [topics], sources, place)


def _check_history(kernel: Kernel, topics: TopicFilter) -> None:
    """Raise where there is nothing to read: the log has no event that the filter could select."""
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
