"""Pages of the log that readers share: D28, C2."""

import asyncio

import pytest

from build import ANN, DOG, NOTE, Server, turns
from rowcast.core.events import MESSAGE, Event
from rowcast.core.memory_limits import RECORD_BYTES
from rowcast.reads.log_pages import Pages
from rowcast.store.store import Keep


def events(*seqs, payload=b"x"):
    return [Event("u", MESSAGE, payload, seq=seq) for seq in seqs]


def numbers(page):
    return None if page is None else ([event.seq for event in page.events], page.upto)


@pytest.mark.parametrize(
    ("after", "until", "found"),
    [
        (2, 0, ([3, 5], 7)),
        (3, 9, ([5], 7)),
        (5, 7, ([], 7)),
        (5, 8, None),  # there may be one that this reader needs
        (1, 0, None),  # before its beginning
        (8, 0, None),
    ],
)
def test_what_a_page_answers(after, until, found):
    known = Pages()
    known.keep("", 2, events(3, 5), 7)
    assert found == numbers(known.find("", after, until))


def test_a_page_of_another_part_is_no_answer():
    known = Pages()
    known.keep("Dog", 0, events(1), 1)
    assert known.find("", 0, 0) is None


def test_a_later_page_takes_the_place_of_a_shorter_one():
    known = Pages()
    known.keep("", 0, events(1), 1)
    known.keep("", 0, events(1, 2), 2)
    assert ([1, 2], 2) == numbers(known.find("", 0, 2))


@pytest.mark.parametrize("limit", ["events_max", "pages_max"])
def test_the_page_that_was_not_used_for_longest_goes(limit):
    known = Pages(**{limit: 2})
    known.keep("", 0, events(1), 1)
    known.keep("", 1, events(2), 2)
    known.find("", 0, 0)
    known.keep("", 2, events(3), 3)
    assert ([True, False, True]) == [known.find("", at, 9) is not None for at in (0, 1, 2)]


def test_a_page_over_the_bound_is_not_kept():
    known = Pages(bytes_max=RECORD_BYTES + 10)
    known.keep("", 0, events(1, payload=b"x" * 11), 1)
    known.keep("", 1, events(2, payload=b"x" * 10), 2)
    assert [None, ([2], 2)] == [numbers(known.find("", at, 9)) for at in (0, 1)]


async def filled(count=5):
    room = Server()
    for _ in range(count):
        await room.kernel.write(Event("Dog/1", MESSAGE, b"{}", qos=1), ANN)
    return room


async def test_the_second_reader_costs_no_trip_to_the_disk():
    room = await filled()
    first = await room.reader.page(0, 3, [DOG])
    room.readers.held = True
    second = await room.reader.page(1, 3, [DOG])
    assert (([1, 2, 3], 3), ([2, 3], 3)) == (numbers(first), numbers(second))
    assert first.events[1] is second.events[0]


async def test_readers_that_come_together_read_once():
    room = await filled()
    room.readers.held = True
    reads = [asyncio.ensure_future(room.reader.page(0, 10, [DOG])) for _ in range(9)]
    await turns()
    assert 1 == len(room.readers.waiting)
    room.readers.release()
    assert [([1, 2, 3, 4, 5], 5)] * 9 == [numbers(page) for page in await asyncio.gather(*reads)]


async def test_a_reader_that_goes_takes_nothing_from_the_others():
    room = await filled()
    room.readers.held = True
    first, second = (asyncio.ensure_future(room.reader.page(0, 10, [DOG])) for _ in range(2))
    await turns()
    first.cancel()
    room.readers.waiting.popleft()
    await turns()
    room.readers.release()
    assert ([1, 2, 3, 4, 5], 5) == numbers(await second)


async def test_a_short_page_is_read_again_when_more_was_announced():
    room = await filled(2)
    await room.reader.page(0, 10, [DOG])
    await room.kernel.write(Event("Dog/1", MESSAGE, b"{}", qos=1), ANN)
    assert ([3], 3) == numbers(await room.reader.page(2, 10, [DOG]))


async def test_a_read_that_began_before_is_not_taken_for_one_of_now():
    """C2: what is announced between the two would be in neither page nor queue."""
    room = await filled(1)
    room.readers.held = True
    early = asyncio.ensure_future(room.reader.page(1, 10, [DOG]))
    await turns()
    room.readers.step()  # it has read, and is not back yet
    await room.kernel.write(Event("Dog/1", MESSAGE, b"{}", qos=1), ANN)
    late = asyncio.ensure_future(room.reader.page(1, 10, [DOG]))
    await turns()
    room.readers.release()
    assert [([], 1), ([2], 2)] == [numbers(await early), numbers(await late)]


async def test_what_was_trimmed_is_told_also_beside_a_known_page():
    room = await filled()
    await room.reader.page(0, 3, [DOG])
    room.store.trim(DOG, Keep(events=1), room.time, 100)
    assert ({DOG: 4}, {NOTE: 0}) == (
        room.reader.lost({DOG: 3, NOTE: 0}),
        {NOTE: room.reader.trimmed([NOTE])},
    )
