"""Start positions: where a subscription begins, in the words that every door has for it.

The words are parameters of a URL, members of a WebSocket's ``subscribe`` and user properties of
MQTT's SUBSCRIBE. They exclude one another:

- ``since``: after a cursor. SSE's ``Last-Event-ID`` is one that the client kept.
- ``start``: ``new``, or ``current``.
- ``previousCount`` or ``last``: with the last so many events.
- ``startTime`` or ``from``: at a time, so long ago, or after a cursor.
- none of them: with the records as they are.

MQTT has the user property ``stream-offset`` besides, with words of its own.

Every door reads them here, so each refuses the same mistake with the same sentence. ``position``
then finds the place in the log, a position after which the reader goes on: it gets that part of the
log and all that follows without a seam. The finders ask the Reader, in pages, from the end
backwards where that is nearer. This knows no protocol, and not who reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rowcast.core.clock import version_at
from rowcast.core.cursors import Cursor, parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.limits import (
    STREAM_LAST_NUMBERS_MAX,
    STREAM_PREVIOUS_EVENTS_MAX,
)
from rowcast.core.moments import moment_of
from rowcast.core.topic_tables import LogSource
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.live_query import LiveQuery
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscribed_filter import SubscribedFilter

_LAST: Final = ("previousCount", "last")
_FROM: Final = ("startTime", "from")
START_WORDS: Final = ("since", "start", *_LAST, *_FROM)
"""The parameters that say where a subscription begins."""

Sources = Sequence[LogSource]


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where a subscription begins; all empty: with the records as they are."""

    since: str | None = None
    """A cursor, as its client wrote it."""
    new: bool = False
    """With what happens from now on."""
    previous: int = 0
    """With the last so many events."""
    version: int | None = None
    """With the first event of a time."""
    first: bool = False
    """With all that the log still has."""


# -- reading what is asked for ---------------------------------------------------------------------


def start_position(fields: Mapping[str, object], now_seconds: float) -> StartPosition:
    """Read the words, which may say how long ago; raises INVALID."""
    given = [name for name in START_WORDS if fields.get(name) is not None]
    if len(given) > 1:
        raise Error(Code.INVALID, f"{given[0]} and {given[1]} exclude each other; give one of them")
    if not given:
        return StartPosition()
    name, value = given[0], fields[given[0]]
    if name == "since":
        return StartPosition(since=_cursor(value))
    if name == "start":
        return StartPosition(new=_is_new(value))
    if name in _LAST:
        return StartPosition(previous=_count(name, value))
    moment = moment_of(value, name, now_seconds)
    if moment.cursor is not None:
        return StartPosition(since=str(moment.cursor))
    return StartPosition(version=moment.version)


def stream_offset(text: str) -> StartPosition:
    """Read the user property ``stream-offset`` of MQTT; raises INVALID."""
    known = _OFFSETS.get(text)
    if known is not None:
        return known
    version = version_at(text)
    if version is not None:
        return StartPosition(version=version)
    try:
        return StartPosition(since=str(parse_cursor(text)))
    except Error:
        raise Error(
            Code.INVALID,
            f"stream-offset is first, last, next, a cursor or a time such as 2026-01-02T03:04:05Z, "
            f"not {text[:80]!r}",
        ) from None


_OFFSETS: Final = {
    "first": StartPosition(first=True),
    "last": StartPosition(previous=1),
    "next": StartPosition(new=True),
}


def _cursor(value: object) -> str:
    if not isinstance(value, str):
        raise Error(Code.INVALID, f"since is text, not {type(value).__name__}")
    parse_cursor(value)
    return value


def _is_new(value: object) -> bool:
    if not isinstance(value, str) or value not in {"new", "current"}:
        raise Error(
            Code.INVALID,
            f"start is 'new' (only what happens from now on) or 'current', not {str(value)[:80]!r}",
        )
    return value == "new"


def _count(name: str, value: object) -> int:
    number = value if type(value) is int else 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        number = int(value)
    if not 1 <= number <= STREAM_PREVIOUS_EVENTS_MAX:
        raise Error(Code.INVALID, f"{name} is a number from 1 to {STREAM_PREVIOUS_EVENTS_MAX}")
    return number


def check_start(interests: Iterable[SubscribedFilter], start: StartPosition) -> None:
    """Raise INVALID for a live query that begins where its set of records is not known."""
    within = start.previous or start.first or start.version is not None
    if within and any(interest.query is not None for interest in interests):
        raise Error(
            Code.INVALID,
            "a live query begins with the records that match now, or after a cursor (since)",
        )


# -- cursors ---------------------------------------------------------------------------------------


def resumed(since: str | int, query: LiveQuery | None, epoch: str, reach: int) -> tuple[int, str]:
    """Return the position to continue after, and why nobody can; empty if that is possible.

    ``since`` is a client's cursor, or the position of a session. Raises INVALID for malformed text.
    """
    if isinstance(since, int):
        return since, "" if query is None else query.redefined(since)
    cursor = parse_cursor(since)
    lost = why_lost(cursor, epoch, reach)
    if not lost and query is not None:
        lost = query.lost(cursor.seq)
    return cursor.seq, lost


def why_lost(cursor: Cursor, epoch: str, head: int, trimmed: int = 0) -> str:
    """Return why a cursor cannot be continued without a gap; empty when it can.

    ``epoch`` names the log, ``head`` is the greatest number that a cursor of it can have, and
    ``trimmed`` up to where the reader's part of the log was removed.
    """
    if cursor.epoch != epoch:
        return "the cursor is of another log"
    if cursor.seq > head:
        return "the cursor is beyond the end of the log"
    return "no longer in the log" if trimmed > cursor.seq else ""


# -- finding it in the log -------------------------------------------------------------------------


async def position(
    reader: Reader, filters: Sequence[TopicFilter], sources: Sources, start: StartPosition
) -> int | None:
    """Return the position before the events that a subscription begins with; None if with none.

    Not of a cursor, which is a position already if it is not lost.
    """
    if start.first:
        return before_first(reader, sources)
    if start.previous:
        return await before_last(reader, filters, sources, start.previous)
    if start.version is not None:
        return await before_time(reader, sources, start.version)
    return None


async def missing(
    reader: Reader, sources: Sources, start: StartPosition, interest: SubscribedFilter
) -> list[Gap]:
    """Return the mark that is told first if events since a start may have been trimmed.

    Nobody knows how many they are.
    """
    for source in sources if start.version is not None else ():
        if trimmed := reader.trimmed([source]):
            kept = await reader.read(trimmed, 1, [source])
            if not kept or kept[0].version >= (start.version or 0):
                return [Gap(GapCause.TRIMMED, None, interest)]
    return []


def before_first(reader: Reader, sources: Sources) -> int:
    """Return the position after which all of these sources' events are there."""
    return min(reader.trimmed(sources), reader.announced())


async def before_time(reader: Reader, sources: Sources, version: int) -> int:
    """Return the position before the first event of a time, as far back as all of it is kept."""
    position = min([await reader.since(source, version) for source in sources])
    return min(max(position, reader.trimmed(sources)), reader.announced())


async def before_last(
    reader: Reader,
    filters: Sequence[TopicFilter],
    sources: Sources,
    count: int,
    numbers_max: int = STREAM_LAST_NUMBERS_MAX,
) -> int:
    """Return the position before the last ``count`` events that any filter selects.

    It looks no further back than ``numbers_max``, and is before those that it found; the head, if
    there are none.
    """
    head = reader.announced()
    seeing = [reader.seeing(topics) for topics in filters]
    if len(filters) == 1 and filters[0].exact and reader.rows(filters[0]) is None:
        events = await reader.history(sources[0], filters[0].text, count)
        return min(events[0].seq - 1 if events else head, head)
    before, found, left = head + 1, head, count
    most = reader.log_page_events
    floor = max(before_first(reader, sources), head - numbers_max)
    while before > floor + 1:
        page = await reader.read_back(before, most, sources)
        for event in page:
            if event.seq > floor and any(seen(event) is not None for seen in seeing):
                found, left = event.seq - 1, left - 1
                if not left:
                    return found
        if len(page) < most:
            break
        before = page[-1].seq
    return found
