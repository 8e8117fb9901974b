"""The past: every window has each of its events once (B13, E25)."""

import random

import pytest

from build import ANN, NOTE, NOW, Code, Server, refusal
from memory_store import MemoryStore
from rowcast.core.callers import Caller, Grants
from rowcast.core.clock import version_of
from rowcast.core.errors import Error
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.features.history.bounds import HistoryBounds
from rowcast.features.history.feature import History
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Keep

TOPICS = ("Note/1", "Note/2", "Dog/1", "home/temp", "home/hum", "alone")
FILTERS = ("Note/1", "Note/#", "home/temp", "home/#", "alone", "home/+", "Dog/#")


def small(**options):
    """Return a server whose pages are so small that a few events need several."""
    history = History(HistoryBounds(page_events=4, first_events=4))
    return Server(features=[history], **options)


@pytest.fixture
def store(seed, tmp_path):
    """Give one store on disk to odd seeds, and one in memory to even ones."""
    if seed % 2 == 0:
        yield MemoryStore("0badcafe")
        return
    on_disk = SqlStore(f"sqlite:///{tmp_path / 'log.db'}")
    yield on_disk
    on_disk.close()


async def filled(chance, count, **options):
    """Return a room in which things happened, a millisecond or more apart, and what."""
    room = small(**options)
    room.store.define(TopicTable("mqtt_home", TopicRoot("home")))
    events = []
    for _ in range(count):
        room.time = round(room.time + chance.choice([0.001, 0.5, 60]), 3)
        topic = chance.choice(TOPICS)
        if chance.random() < 0.2:
            receipt = await room.delete(topic)
        else:
            receipt = await room.put(topic, b'{"age": %d}' % chance.randrange(9))
        events.append(receipt.event)
    return room, [event for event in events if event.seq]


async def read(room, window, caller=ANN):
    """Return all events of a window."""
    return [e.seq async for page in room.past.pages(window, caller) for e in page]


def table_of(room, text):
    """Return the declared table of a filter."""
    route = room.registry.route(text.removesuffix("/#").removesuffix("/+"))
    return route.table


def a_moment(chance, room, events):
    """Return a moment as text, and the position that it is by the model."""
    event = chance.choice(events)
    if chance.random() < 0.4:
        return room.kernel.cursor(event.seq), event.seq
    milliseconds = event.version // 1000 + chance.choice([0, 0, 1, -1, 400])
    found = [e.seq for e in events if e.version >= version_of(milliseconds)]
    position = found[0] - 1 if found else room.committer.announced
    return chance.choice([str(milliseconds), milliseconds]), position


@pytest.mark.parametrize("seed", range(10))
async def test_e25_a_window_by_time_or_cursor_is_the_model_s(seed, store):
    """E25, B13: folded out of what happened, whatever the filter, the ends and the store."""
    chance = random.Random(seed)
    room, events = await filled(chance, 40, store=store)
    past = room.past
    for _ in range(15):
        text = chance.choice(FILTERS)
        topics, table = TopicFilter(text), table_of(room, text)
        (first, after), (last, until) = (a_moment(chance, room, events) for _ in range(2))
        start, end = past.moment(first, "from"), past.moment(last, "to")
        of_filter = [e.seq for e in events if topics.matches(e.topic)]
        inside = [seq for seq in of_filter if after < seq <= until]
        try:
            window = await past.window(topics, table, ANN, start, end)
        except Error as error:
            assert error.code is Code.INVALID
            assert [] == inside
            continue
        assert inside == await read(room, window)
        count = chance.choice([1, 3, 50])
        assert inside[-count:] == [e.seq for e in await past.last(window, ANN, count)]
        open_end = await past.window(topics, table, ANN, start)
        assert [seq for seq in of_filter if seq > after] == await read(room, open_end)


async def test_a_window_ends_where_the_log_was_when_it_was_asked_for():
    room, events = await filled(random.Random(1), 20)
    window = await room.past.window(TopicFilter("Note/#"), NOTE, ANN)
    await room.put("Note/1")
    assert [e.seq for e in events if e.topic.startswith("Note")] == await read(room, window)


async def test_only_what_is_wanted_counts_for_the_last():
    room, events = await filled(random.Random(2), 40)
    window = await room.past.window(TopicFilter("home/temp"), None, ANN)
    found = await room.past.last(window, ANN, 2, lambda event: event.kind == "put")
    wanted = [e.seq for e in events if (e.topic, e.kind) == ("home/temp", "put")]
    assert wanted[-2:] == [event.seq for event in found]


async def trimmed(count=10, keep=4):
    """Return a room whose table Note has only its last events."""
    room = small()
    for _ in range(count):
        room.time += 1
        await room.put("Note/1")
    room.store.trim(NOTE, Keep(events=keep), room.time, 100)
    return room


async def a_window(room, start, end=None):
    past = room.past
    first = past.moment(start, "from")
    last = None if end is None else past.moment(end, "to")
    return await past.window(TopicFilter("Note/#"), NOTE, ANN, first, last)


async def test_a_cursor_before_what_is_left_is_gone_and_the_oldest_is_told():
    room = await trimmed()
    with pytest.raises(Error) as caught:
        await a_window(room, "0badcafe:5")
    assert (Code.GONE, "0badcafe:6") == (caught.value.code, caught.value.detail["oldest"])
    assert [7, 8, 9, 10] == await read(room, await a_window(room, "0badcafe:6"))


async def test_a_time_before_what_is_left_gives_the_rest_and_says_so():
    room = await trimmed()
    window = await a_window(room, "-1h")
    assert (6, [7, 8, 9, 10]) == (window.trimmed, await read(room, window))
    complete = await a_window(room, int(NOW * 1000) + 8_000)
    assert (0, [8, 9, 10]) == (complete.trimmed, await read(room, complete))
    assert Code.GONE == await refusal(a_window(room, "-1h", int(NOW * 1000) + 3_000))


async def test_where_nothing_is_left_a_time_says_so_too():
    """B13: also when other parts of the log go on, so that the time is one of later events."""
    room = await trimmed()
    room.store.trim(NOTE, Keep(seconds=1), room.time + 60, 100)
    await room.put("Dog/1")
    window = await a_window(room, "-1h")
    assert (10, []) == (window.trimmed, await read(room, window))
    assert 0 == (await a_window(room, "0badcafe:10")).trimmed


@pytest.mark.parametrize("cursor", ["0badcafe:11", "deadbeef:9"])
async def test_a_cursor_of_nowhere_is_gone(cursor):
    room = await trimmed()
    assert Code.GONE == await refusal(a_window(room, cursor))


async def test_what_is_trimmed_while_it_is_read_is_told():
    room = await trimmed(20, 12)
    window = await a_window(room, 0)
    pages = room.past.pages(window, ANN)
    assert 4 == len(await anext(pages))
    room.store.trim(NOTE, Keep(events=1), room.time, 100)
    assert Code.GONE == await refusal(anext(pages))


async def test_the_last_events_are_those_that_are_left_when_the_log_is_trimmed_meanwhile():
    """Who asks for the last ten takes fewer; who asks for all since a point is told of a gap."""
    room = await trimmed(20, 12)
    windows = [
        await room.past.window(TopicFilter("Note/#"), NOTE, ANN),
        await a_window(room, "0badcafe:9"),
    ]
    room.store.trim(NOTE, Keep(events=3), room.time, 100)
    assert [18, 19, 20] == [event.seq for event in await room.past.last(windows[0], ANN, 10)]
    assert Code.GONE == await refusal(room.past.last(windows[1], ANN, 10))
    assert 2 == len(await room.past.last(windows[1], ANN, 2))


@pytest.mark.parametrize(
    ("first", "last"), [("now", "-1s"), ("0badcafe:9", "0badcafe:8"), ("now", "0badcafe:7")]
)
async def test_a_window_that_ends_before_it_begins_is_a_mistake(first, last):
    room = await trimmed()
    room.time += 9
    assert Code.INVALID == await refusal(a_window(room, first, last))


async def test_who_may_not_read_gets_no_history():
    """E25: the past is read with the rights of the present."""
    room = await trimmed()
    nobody = Caller("eve", Grants(read=False, write=True), "http")
    window = room.past.window(TopicFilter("Note/#"), NOTE, nobody)
    assert Code.DENIED == await refusal(window)


async def test_hooks_keep_back_the_past_too():
    """G6: of what a hook lets nobody read, nothing is in a window, and alone it is refused."""

    class Discreet(Hook):
        def can_read(self, _caller, topic):
            return topic != "Note/1"

    hooks = Hooks()
    hooks.add(Discreet())
    room, events = await filled(random.Random(3), 40, hooks=hooks)
    past = room.past
    window = await past.window(TopicFilter("Note/#"), NOTE, ANN)
    assert [e.seq for e in events if e.topic == "Note/2"] == await read(room, window)
    assert Code.DENIED == await refusal(past.window(TopicFilter("Note/1"), NOTE, ANN))


async def test_a_topic_is_known_by_its_record_or_by_what_happened_there():
    room = small()
    past = room.past
    await room.put("Note/1")
    await room.delete("Note/1")
    await room.put("home/x")
    known = [await past.known(TopicFilter(f"Note/{n}"), NOTE, ANN) for n in (1, 2)]
    assert [True, False] == known
    assert await past.known(TopicFilter("home/x"), None, ANN)
