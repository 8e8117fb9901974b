"""Positions in the log by what they are before: the first event, the last ones, those of a time.

A reader that begins at one of them gets that part of the log and all that follows through the same
door, without a seam. They are questions to the Reader, asked in pages; the log is read forwards
only, so what is sought from its end is found by going back in growing steps. It knows neither who
reads nor how a place is spelt.
"""

from collections.abc import Sequence

from app.core.limits import (
    LOG_PAGE_EVENTS,
    STREAM_LAST_NUMBERS_MAX,
    STREAM_PREVIOUS_STEPS_MAX,
)
from app.core.tables import Table
from app.core.topics import TopicFilter
from app.engine.reader import Reader

Tables = Sequence[Table | None]


def before_first(reader: Reader, tables: Tables) -> int:
    """Return the position after which all of these tables' events are there."""
    return min(reader.trimmed(tables), reader.announced())


async def before_time(reader: Reader, tables: Tables, version: int) -> int:
    """Return the position before the first event of a time, as far back as all of it is kept."""
    position = min([await reader.since(table, version) for table in tables])
    return min(max(position, reader.trimmed(tables)), reader.announced())


async def before_last(reader: Reader, only: TopicFilter | None, tables: Tables, count: int) -> int:
    """Return the position before the last ``count`` events: of one topic, else of the tables."""
    if only is not None and only.exact:
        found = [event.seq for event in await reader.history(tables[0], only.text, count)]
    else:
        found = sorted([seq for table in tables for seq in await _last_of(reader, table, count)])[
            -count:
        ]
    return min(found[0] - 1 if found else reader.announced(), reader.announced())


async def before_last_match(reader: Reader, topics: TopicFilter, tables: Tables) -> int:
    """Return the position before the last event that a filter selects; the head without one.

    It looks no further back than STREAM_LAST_NUMBERS_MAX.
    """
    if topics.exact:
        return await before_last(reader, topics, tables, 1)
    head = high = reader.announced()
    floor = max(before_first(reader, tables), head - STREAM_LAST_NUMBERS_MAX)
    span = LOG_PAGE_EVENTS
    while high > floor:
        low = max(floor, high - span)
        found = await _last_match(reader, topics, tables, low, high)
        if found:
            return found - 1
        high, span = low, span * 2
    return head


async def _last_match(
    reader: Reader, topics: TopicFilter, tables: Tables, after: int, until: int
) -> int:
    """Return the number of the last event between two positions that a filter selects, or 0."""
    found = 0
    while after < until:
        page = await reader.read(after, LOG_PAGE_EVENTS, tables)
        for event in page:
            if event.seq <= until and topics.matches(event.topic):
                found = event.seq
        after = page[-1].seq if len(page) == LOG_PAGE_EVENTS else until
    return found


async def _last_of(reader: Reader, table: Table | None, count: int) -> list[int]:
    """Return the numbers of a table's last events, at most ``count``.

    The log is read forwards only, so the place to read from is found by going back in growing steps
    and then halving: each step moves over numbers, of which any may be another table's.
    """
    head = reader.announced()
    floor = low = min(reader.trimmed([table]), head)
    high, back, found_more = head, count, False
    after = max(floor, head - back)
    numbers: list[int] = []
    for _ in range(STREAM_PREVIOUS_STEPS_MAX):
        page = await reader.read(after, count + 1, [table])
        numbers = [event.seq for event in page]
        if len(numbers) == count or (len(numbers) < count and after == floor):
            break
        if len(numbers) > count:
            low, found_more = after, True
        else:
            high = after
        if found_more:
            after = (low + high) // 2
        else:
            back *= 4
            after = max(floor, head - back)
    return numbers[-count:]
