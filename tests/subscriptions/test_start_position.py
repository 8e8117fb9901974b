"""Positions by what they are before: found, however the log lies (C10, D55)."""

import random

import pytest

from build import ANN, DOG, Server
from rowcast.core.clock import version_at, version_of
from rowcast.core.cursors import Cursor
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.store.store import Keep
from rowcast.subscriptions import start_position as positions
from rowcast.subscriptions.start_position import StartPosition

SMALL = {"log_page_events": 4}
"""Pages so small that a few events need several."""


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("text", ["Dog/+", "+/1", "#", "Note/#", "none/+", "Dog/1"])
@pytest.mark.parametrize("count", [1, 3, 50])
async def test_the_last_matches_are_found(seed, text, count):
    """D55, C24: so many events after the position that the filter selects, or all there are."""
    chance, room, topics = random.Random(seed), Server(reading=SMALL), TopicFilter(text)
    seqs = []
    for _ in range(chance.choice([0, 1, 7, 60])):
        topic = chance.choice(["Dog/1", "Note/1", "Note/2", "Note/3"])
        await room.kernel.write(Event(topic, MESSAGE, b"{}", qos=1), ANN)
        seqs.append((room.committer.announced, topic))
    sources = room.reader.sources(topics)
    found = await positions.before_last(room.reader, [topics], sources, count)
    matching = [seq for seq, topic in seqs if topics.matches(topic)][-count:]
    assert (matching[0] - 1 if matching else room.committer.announced) == found


async def test_the_last_match_is_not_looked_for_for_ever():
    room, topics = Server(reading=SMALL), TopicFilter("Dog/+")
    for topic in ["Dog/1", *["Note/1"] * 20]:
        await room.kernel.write(Event(topic, MESSAGE, b"{}", qos=1), ANN)
    found = await positions.before_last(room.reader, [topics], [DOG], 1, numbers_max=10)
    assert 21 == found


async def test_the_first_is_what_is_still_there():
    room = Server()
    for _ in range(9):
        await room.kernel.write(Event("Dog/1", MESSAGE, b"{}", qos=1), ANN)
    room.store.trim(DOG, Keep(events=4), room.time, 100)
    assert 5 == positions.before_first(room.reader, [DOG])


async def test_the_last_events_of_several_filters_are_those_of_any():
    """C24."""
    room = Server(reading=SMALL)
    for topic in ("Dog/1", "Note/1", "Dog/2", "Note/2", "Note/3", "Dog/3"):
        await room.kernel.write(Event(topic, MESSAGE, b"{}", qos=1), ANN)
    filters = [TopicFilter("Dog/#"), TopicFilter("Note/1")]
    sources = room.reader.sources(TopicFilter("#"))
    found = [await positions.before_last(room.reader, filters, sources, n) for n in (1, 2, 3, 9)]
    assert [5, 2, 1, 0] == found


@pytest.mark.parametrize(("seconds", "expected"), [(-5, 2), (0, 2), (20, 2), (25, 3), (99, 5)])
async def test_a_time_is_a_position(seconds, expected):
    """C10: as far back as all of it is kept."""
    room = Server()
    for _ in range(5):
        await room.kernel.write(Event("Dog/1", MESSAGE, b"{}", qos=1), ANN)
        room.time += 10
    room.store.trim(DOG, Keep(events=3), room.time, 100)
    version = version_of(int((room.time - 50 + seconds) * 1000))
    assert expected == await positions.before_time(room.reader, [DOG], version)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", version_of(1000)),
        ("1970-01-01T00:00:01", version_of(1000)),
        ("1970-01-01T01:00:00.5+01:00", version_of(500)),
        ("1970-01-02", version_of(86_400_000)),
        ("1969-12-31T23:59:59Z", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times_are_read(text, expected):
    assert expected == version_at(text)


# -- reading it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("first", StartPosition(first=True)),
        ("last", StartPosition(previous=1)),
        ("next", StartPosition(new=True)),
        ("0badcafe:7", StartPosition(since="0badcafe:7")),
        ("1970-01-01T00:00:01Z", StartPosition(version=version_of(1000))),
    ],
)
def test_d55_an_offset_is_a_start_position(text, start):
    assert start == positions.stream_offset(text)


def test_d55_another_offset_is_refused_with_all_that_it_may_be():
    with pytest.raises(Error, match="stream-offset is first, last, next, a cursor or a time"):
        positions.stream_offset("yesterday")


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        (Cursor("0badcafe", 7), ""),
        (Cursor("0badcafe", 8), "the cursor is beyond the end of the log"),
        (Cursor("0badcaff", 7), "the cursor is of another log"),
        (Cursor("0badcafe", 3), ""),
        (Cursor("0badcafe", 2), "no longer in the log"),
    ],
)
def test_c11_a_cursor_that_is_lost_says_why(cursor, reason):
    assert reason == positions.why_lost(cursor, "0badcafe", head=7, trimmed=3)
