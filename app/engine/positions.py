"""Positions in the log by what they are before: the first event, the last ones, those of a time.

A reader that begins at one of them gets that part of the log and all that follows through the same
door, without a seam. They are questions to the Reader, asked in pages, from its end backwards
where that is nearer. It knows neither who reads nor how a place is spelt.
"""

from collections.abc import Sequence

from app.core.limits import LOG_PAGE_EVENTS, STREAM_LAST_NUMBERS_MAX
from app.core.topic_tables import Source
from app.core.topics import TopicFilter
from app.engine.reader import Reader

Sources = Sequence[Source]


def before_first(reader: Reader, sources: Sources) -> int:
    """Return the position after which all of these sources' events are there."""
    return min(reader.trimmed(sources), reader.announced())


async def before_time(reader: Reader, sources: Sources, version: int) -> int:
    """Return the position before the first event of a time, as far back as all of it is kept."""
    position = min([await reader.since(source, version) for source in sources])
    return min(max(position, reader.trimmed(sources)), reader.announced())


async def before_last(
    reader: Reader, only: TopicFilter | None, sources: Sources, count: int
) -> int:
    """Return the position before the last ``count`` events: of one topic, else of the sources."""
    announced = reader.announced()
    if only is not None and only.exact:
        found = [event.seq for event in await reader.history(sources[0], only.text, count)]
    else:
        page = await reader.read_back(announced + 1, count, sources)
        found = [event.seq for event in reversed(page)]
    return min(found[0] - 1 if found else announced, announced)


async def before_last_match(reader: Reader, topics: TopicFilter, sources: Sources) -> int:
    """Return the position before the last event that a filter selects; the head without one.

    It looks no further back than STREAM_LAST_NUMBERS_MAX.
    """
    if topics.exact:
        return await before_last(reader, topics, sources, 1)
    head = reader.announced()
    before, floor = head + 1, max(before_first(reader, sources), head - STREAM_LAST_NUMBERS_MAX)
    while before > floor + 1:
        page = await reader.read_back(before, LOG_PAGE_EVENTS, sources)
        for event in page:
            if event.seq > floor and topics.matches(event.topic):
                return event.seq - 1
        if len(page) < LOG_PAGE_EVENTS:
            break
        before = page[-1].seq
    return head
