"""Silence on streams and in answers: stale, fresh, ``_stale`` (M4, C29)."""

import json
import time

import pytest

from http_server import TABLES, HttpServer, ask, hear
from rowcast.features.deadlines.deadlines import Deadlines


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        deadlines = Deadlines(running.kernel, TABLES, time.time)
        await deadlines.start()
        yield running
        deadlines.stop()


async def test_a_stream_of_a_table_hears_of_silence_and_of_its_end(doors):
    async with doors.sse("/Pulse/") as stream:
        (first,) = await stream.next()
        await doors.write("Pulse/1", value={"n": 1})
        events = await stream.next(2)
        await doors.write("Pulse/1", value={"n": 2})
        events += await stream.next(2)
    assert "current" == first["event"]
    told = [json.loads(event["data"]) for event in events]
    assert [None, "stale", None, "fresh"] == [event.get("event") for event in events]
    assert ["put", "stale", "put", "fresh"] == [item["kind"] for item in told]
    assert {"Pulse/1"} == {item["topic"] for item in told}
    assert {"last_seen", "deadline_seconds"} == set(told[1]["value"])
    assert all(event["id"] == item["cursor"] for event, item in zip(events, told, strict=True))


async def test_a_stream_that_begins_or_goes_on_later_knows_it_too(doors):
    async with doors.sse("/Pulse/1") as stream:
        await stream.next()
        await doors.write("Pulse/1", value={"n": 1})
        written, late = await stream.next(2)
    async with doors.sse(f"/Pulse/1?since={written['id']}") as stream:
        (again,) = await stream.next()
    async with doors.sse("/Pulse/") as stream:
        kinds = [json.loads(event["data"])["kind"] for event in await stream.next(3)]
    assert (late["data"], ["snapshot", "stale", "current"]) == (again["data"], kinds)


async def test_a_websocket_subscription_hears_it_under_its_number_until_it_ends(doors):
    async with doors.ws("/") as peer:
        number = (await ask(peer, id=1, op="subscribe", topic="Pulse/+"))["subscription"]
        await hear(peer, 1)  # current
        await doors.write("Pulse/1", value={"n": 1})
        told = await hear(peer, 2)
        assert [("put", number), ("stale", number)] == [
            (item["kind"], item["subscription"]) for item in told
        ]
        await ask(peer, id=2, op="unsubscribe", subscription=number)
    assert not doors.kernel.bus.match("$stale/Pulse/1")


@pytest.mark.parametrize("order", [("$stale/Pulse/+", "Pulse/+"), ("Pulse/+", "$stale/Pulse/+")])
@pytest.mark.parametrize("left", ["$stale/Pulse/+", "Pulse/+"])
async def test_silence_alone_and_beside_a_subscription_have_their_own_numbers(doors, order, left):
    """M4: in either order; when one ends, the other one goes on."""
    async with doors.ws("/") as peer:
        numbers = {}
        for currents, topic in enumerate(order, 1):
            said = await ask(peer, id=1, op="subscribe", topic=topic)
            numbers[topic] = said["subscription"]
            await hear(peer, currents)  # the second time for both, whose filter it is
        both = set(numbers.values())
        await doors.write("Pulse/1", value={"n": 1})
        put, *stale = await hear(peer, 3)
        assert ("put", numbers["Pulse/+"]) == (put["kind"], put["subscription"])
        assert {("stale", number) for number in both} == {
            (item["kind"], item["subscription"]) for item in stale
        }
        refused = await ask(peer, id=2, op="subscribe", topic=order[0])
        assert "conflict" == refused["error"]["code"]
        await ask(peer, id=3, op="unsubscribe", subscription=numbers.pop(left))
        (number,) = numbers.values()
        await doors.write("Pulse/1", value={"n": 2})
        expected = ["put", "fresh", "stale"] if "Pulse/+" in numbers else ["fresh", "stale"]
        told = await hear(peer, len(expected))
        assert sorted(expected) == sorted(item["kind"] for item in told)
        assert {number} == {item["subscription"] for item in told}
        await ask(peer, id=4, op="unsubscribe", subscription=number)
        assert not doors.kernel.bus.match("$stale/Pulse/1")


async def test_a_stream_without_a_deadline_is_as_before(doors):
    async with doors.sse("/Dog/") as stream:
        await stream.next()
        assert not doors.kernel.bus.match("$stale/Dog/1")


async def test_rest_answers_what_is_stale(doors):
    async with doors.sse("/Pulse/") as stream:
        await stream.next()
        await doors.write("Pulse/1", value={"n": 1})
        await stream.next(2)
    fresh = []
    while not fresh or fresh[0]["_stale"]:  # on a busy machine it may be stale before all is asked
        await doors.write("Pulse/2", value={"n": 2})
        stale, counted, fresh = [
            (await doors.http.get(f"/Pulse/?_stale={query}")).json()
            for query in ("true&meta=true", "true&count=true", "false&meta=true")
        ]
    assert [("1", True)] == [(item["id"], item["_stale"]) for item in stale]
    assert [("2", False)] == [(item["id"], item["_stale"]) for item in fresh]
    assert (await doors.http.get("/Pulse/1?meta=true")).json()["_stale"]
    assert {"count": 1} == counted
