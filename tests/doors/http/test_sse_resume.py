"""Where an event stream begins, and how it goes on (C9-C11, C24, M1)."""

import json

import pytest

from http_server import HttpServer, hear
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT
from rowcast.store.store import Keep


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        yield running


def told(envelopes):
    return [(each["kind"], each["topic"]) for each in envelopes]


# -- coming back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["header", "last_event_id", "since"])
async def test_a_reader_goes_on_after_its_cursor(doors, how):
    """C9, C10."""
    events = await doors.writes(10)
    cursor = doors.cursor(events[3].seq)
    headers = {"last_event_id": cursor} if how == "header" else {}
    url = "/Dog/1" if how == "header" else f"/Dog/1?{how}={cursor}"
    async with doors.sse(url, **headers) as stream:
        assert "true" == stream.response.headers["rowcast-resumed"]
        assert cursor == stream.response.headers["rowcast-position"]
        values = [each["value"]["n"] for each in await stream.values(6)]
    assert [4, 5, 6, 7, 8, 9] == values


@pytest.mark.heavy
async def test_a_cut_after_any_event_is_continued_without_gap_or_double(doors):
    """C9: of 200 events, cut after each."""
    await doors.write("Dog/0")
    kinds = (PUT, PATCH, MESSAGE, DELETE)
    for number in range(200):
        topic = f"{'Dog' if number % 2 else 'Cat'}/{number % 7}"
        await doors.write(topic, kinds[number % 4], {"n": number})
    async with doors.sse(f"/?topic=%23&since={doors.cursor(1)}") as stream:
        whole = await stream.next(200)
    for k in range(0, 200, 7):
        async with doors.sse("/?topic=%23", last_event_id=whole[k]["id"]) as stream:
            assert whole[k + 1 : k + 6] == await stream.next(min(5, 199 - k))


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [("deadbeef:1", "another log"), ("0badcafe:99", "beyond the end"), ("0badcafe:2", "no longer")],
    ids=["epoch", "future", "trimmed"],
)
async def test_a_cursor_that_cannot_be_continued_gives_one_reset_then_the_records(
    doors, cursor, reason
):
    """C10, C11."""
    await doors.writes(10)
    doors.store.trim(doors.registry.route("Dog/1").table, Keep(events=3), 0, 100)
    async with doors.sse("/Dog/", last_event_id=cursor) as stream:
        assert "false" == stream.response.headers["rowcast-resumed"]
        blocks = await stream.next(3)
        await doors.write("Dog/2")
        blocks += await stream.next(1)
    envelopes = [json.loads(block["data"]) for block in blocks]
    assert ["reset", "snapshot", "current", "put"] == [each["kind"] for each in envelopes]
    assert cursor == envelopes[0]["value"]["from"]
    assert reason in envelopes[0]["value"]["reason"]
    assert ["reset", None, "current", None] == [block.get("event") for block in blocks]
    assert [False, False, True, True] == ["id" in block for block in blocks]


async def test_several_filters_share_one_reset_and_one_mark(doors):
    """C11, C12."""
    await doors.write("Dog/1")
    await doors.write("Cat/1")
    url = "/?topic=Dog/%23&topic=Cat/%23"
    async with doors.sse(url, last_event_id="deadbeef:1") as stream:
        kinds = [each["kind"] for each in await stream.values(4)]
    assert ["reset", "snapshot", "snapshot", "current"] == kinds


async def test_the_position_of_a_get_is_continued(doors):
    """M1: one cursor everywhere."""
    await doors.write("Dog/1")
    answer = await doors.http.get("/Dog/")
    await doors.write("Dog/1", value={"n": 2})
    async with doors.sse("/Dog/", last_event_id=answer.headers["rowcast-position"]) as stream:
        assert [("put", "Dog/1")] == told(await stream.values())


@pytest.mark.parametrize(
    ("url", "numbers"),
    [
        ("/Dog/1?previousCount=3", [27, 28, 29]),
        ("/Dog/?previousCount=3", [27, 28, 29]),
        ("/Dog/?previousCount=1000", list(range(30))),
        ("/?topic=Dog/%23&topic=Cat/%23&previousCount=2", [29, 30]),
    ],
)
async def test_the_last_events_come_first(doors, url, numbers):
    """C24."""
    await doors.writes(30)
    await doors.write("Cat/1", value={"n": 30})
    async with doors.sse(url) as stream:
        values = [each["value"]["n"] for each in await stream.values(len(numbers))]
        await doors.write("Dog/1", value={"n": 99})
        assert 99 == (await stream.values())[0]["value"]["n"]
    assert numbers == values


@pytest.mark.heavy
async def test_the_last_events_of_a_table_are_found_among_those_of_others(doors):
    """C24: the numbers of a quiet table lie far apart."""
    await doors.writes(5, "Cat/1")
    await doors.writes(300, "Dog/1")
    await doors.writes(2, "Cat/2")
    await doors.writes(300, "Dog/1")
    async with doors.sse("/Cat/?previousCount=4") as stream:
        topics = [each["topic"] for each in await stream.values(4)]
    assert ["Cat/1", "Cat/1", "Cat/2", "Cat/2"] == topics


async def test_a_quiet_table_has_no_last_events(doors):
    await doors.writes(3, "Dog/1")
    async with doors.sse("/Cat/?previousCount=4") as stream:
        await doors.write("Cat/1")
        assert [("put", "Cat/1")] == told(await stream.values())


async def test_a_stream_may_begin_at_a_time(doors):
    """C24."""
    events = await doors.writes(3)
    await doors.until(lambda: doors.committer._clock.tick() // 1_000 > events[-1].version // 1_000)
    later = await doors.write("Dog/1", value={"n": 9})
    async with doors.sse(f"/Dog/?startTime={later.version // 1_000}") as stream:
        assert 9 == (await stream.values())[0]["value"]["n"]


async def test_a_time_before_all_that_is_kept_is_no_reset(doors):
    """C24."""
    await doors.writes(10)
    doors.store.trim(doors.registry.route("Dog/1").table, Keep(events=3), 0, 100)
    async with doors.sse("/Dog/?startTime=1") as stream:
        gap, *rest = await stream.values(4)
        assert ("gap", "trimmed") == (gap["kind"], gap["gap"]["reason"])
        assert [7, 8, 9] == [each["value"]["n"] for each in rest]


@pytest.mark.parametrize("door", ["sse", "ws"])
async def test_c24_a_stream_from_a_time_that_was_trimmed_says_so_first(doors, door):
    """C24, M4: and not where all events of that time are there."""
    events = await doors.writes(10)
    for keep in (None, 3):
        if keep is not None:
            table = doors.registry.route("Dog/1").table
            doors.store.trim(table, Keep(events=keep), 0, 100)
        for version in (0, events[8].version):
            asked = version // 1000
            url = f"/Dog/1?startTime={asked}"
            seen = [each for each in events[-(keep or 10) :] if each.version >= asked * 1000]
            if door == "sse":
                async with doors.sse(url) as stream:
                    found = await stream.values(2)
            else:
                async with doors.ws(url) as socket:
                    found = await hear(socket, 2)
            gap = {"from": None, "to": None, "count": None, "reason": "trimmed"}
            if keep and len(seen) == keep:
                assert gap == found.pop(0)["gap"]
            cursors = [doors.cursor(event.seq) for event in seen]
            assert cursors[: len(found)] == [each["cursor"] for each in found]
