"""Positions in the log by what they are before: the first event, the last ones, those of a time.

A reader that begins at one of them gets that part of the log and all that follows through the same
door, without a seam. They are questions to the Reader, asked in pages, from its end backwards
where that is nearer. It does not know who reads.
"""

from collections.abc import Sequence

from rowcast.core.limits import LOG_PAGE_EVENTS, STREAM_LAST_NUMBERS_MAX
from rowcast.core.topic_tables import LogSource
from rowcast.core.topics import TopicFilter
from rowcast.features.history.places import Place
from rowcast.subscriptions.reader import Reader

Sources = Sequence[LogSource]


def before_first(reader: Reader, sources: Sources) -> int:
    """Return the position after which all of these sources' events are there."""
    return min(reader.trimmed(sources), reader.announced())


async def before_time(reader: Reader, sources: Sources, version: int) -> int:
    """Return the position before the first event of a time, as far back as all of it is kept."""
    position = min([await reader.since(source, version) for source in sources])
    return min(max(position, reader.trimmed(sources)), reader.announced())


async def before_last(
    reader: Reader, filters: Sequence[TopicFilter], sources: Sources, count: int
) -> int:
    """Return the position before the last ``count`` events that any filter selects.

    It looks no further back than STREAM_LAST_NUMBERS_MAX, and is before those that it found; the
    head, if there are none.
    """
    head = reader.announced()
    seeing = [reader.seeing(topics) for topics in filters]
    if len(filters) == 1 and filters[0].exact and reader.rows(filters[0]) is None:
        events = await reader.history(sources[0], filters[0].text, count)
        return min(events[0].seq - 1 if events else head, head)
    before, found, left = head + 1, head, count
    floor = max(before_first(reader, sources), head - STREAM_LAST_NUMBERS_MAX)
    while before > floor + 1:
        page = await reader.read_back(before, LOG_PAGE_EVENTS, sources)
        for event in page:
            if event.seq > floor and any(seen(event) is not None for seen in seeing):
                found, left = event.seq - 1, left - 1
                if not left:
                    return found
        if len(page) < LOG_PAGE_EVENTS:
            break
        before = page[-1].seq
    return found


async def before(
    reader: Reader, filters: Sequence[TopicFilter], sources: Sources, place: Place
) -> int | None:
    """Return the position before the events that a place begins with; None where it has none."""
    if place.previous:
        return await before_last(reader, filters, sources, place.previous)
    if place.version is not None:
        return await before_time(reader, sources, place.version)
    return None
