"""Pages that many readers wait for together are sorted one in each turn of the loop."""

import asyncio

import pytest

from build import ANN, DOG, Server
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.reads.store_reader import StoreReader
from rowcast.store.store import Scan
from serving import PATIENCE_SECONDS

PAGE = 5


async def filled(**reading):
    """Return a server with a log of a page, which counts the turns that its reader waits for."""
    room = Server(reading=reading)
    for number in range(PAGE):
        await room.kernel.write(Event("Dog/1", MESSAGE, b"{}", qos=1), ANN)
        await room.put(f"u/{number}", b"1")
    taken, take = [], room.reader.turns.take

    async def counted():
        taken.append(await take())
        return taken[-1]

    room.reader.turns.take = counted
    return room, taken


@pytest.mark.parametrize(("turn_events", "turns"), [(PAGE, 3), (PAGE + 1, 0)])
async def test_readers_of_one_page_wait_for_a_turn_each(turn_events, turns):
    room, taken = await filled(turn_events=turn_events)
    pages = [room.reader.page(0, PAGE, [DOG]) for _ in range(3)]
    assert [PAGE] * 3 == [len(page.events) for page in await asyncio.gather(*pages)]
    assert len(taken) == turns


@pytest.mark.parametrize(("turn_events", "turns"), [(PAGE, 1), (PAGE + 1, 0)])
async def test_current_records_too(turn_events, turns):
    room, taken = await filled(turn_events=turn_events)
    (page,) = await room.reader.scan_all([Scan(None, TopicFilter("u/#"), "")], PAGE)
    assert (len(page.records), len(taken)) == (PAGE, turns)


async def test_one_turn_of_the_loop_has_one_slice():
    """The kernel's turns: two slices are never in one pass of the loop, whoever waits for them."""
    room, passes = Server(reading={"turn_events": 1}), []
    assert room.kernel.turns is room.reader.turns  # with the slices of SUBSCRIBE, for one
    await room.kernel.write(Event("Dog/1", MESSAGE, b"{}", qos=1), ANN)
    count, loop = 0, asyncio.get_running_loop()

    def tick():
        nonlocal count
        count += 1
        loop.call_soon(tick)

    async def read():
        await room.reader.page(0, PAGE, [DOG])
        passes.append(count)

    loop.call_soon(tick)
    reading = [asyncio.create_task(read()) for _ in range(9)]
    await asyncio.wait(reading)
    assert len(passes) == len(set(passes)) == 9


@pytest.mark.parametrize(("turn_scans", "at_once"), [(2, 1), (3, 3)])
async def test_reads_for_many_filters_are_in_single_file(turn_scans, at_once, monkeypatch):
    """Five threads with such reads would keep the writer thread from the interpreter's lock."""
    room, running, most = Server(), [], []
    room.reader.turn_scans = turn_scans
    read = StoreReader.scan_all

    async def scan_all(reader, scans, limit):
        running.append(scans)
        most.append(len(running))
        await asyncio.sleep(0)
        found = await read(reader, scans, limit)
        running.remove(scans)
        return found

    monkeypatch.setattr(StoreReader, "scan_all", scan_all)
    asked = [[Scan(None, TopicFilter(f"{n}/{m}/#"), "") for m in "ab"] for n in range(3)]
    pages = await asyncio.gather(*(room.reader.scan_all(scans, PAGE) for scans in asked))
    assert ([2, 2, 2], at_once) == ([len(found) for found in pages], max(most))


async def test_a_read_for_many_filters_that_is_given_up_lets_the_next_begin():
    room = Server()
    room.reader.turn_scans = 1
    scans = [Scan(None, TopicFilter("u/#"), "")]
    first, second = (asyncio.create_task(room.reader.scan_all(scans, PAGE)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert 1 == len(await asyncio.wait_for(second, PATIENCE_SECONDS))


async def test_long_work_rests_while_a_write_is_in_hand():
    room = Server()
    before = room.reader.turns.waited_for()
    writing = room.kernel.write(Event("Dog/1", MESSAGE, b"{}", qos=1), ANN)
    during = room.reader.turns.waited_for()
    await writing
    assert (False, True, False) == (before, during, room.reader.turns.waited_for())
