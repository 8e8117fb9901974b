"""Values so often as a table declares, or a client asks for, on SSE and WebSocket (M4)."""

import json

import pytest

from http_server import HttpServer, ask, say
from rowcast.core.tables import Table

TABLES = (Table("Dog", "Dog"), Table("Tick", "Tick", delivers_latest=True, conflate_seconds=0.01))


@pytest.fixture
async def doors():
    async with HttpServer(tables=TABLES) as running:
        yield running


async def newest(stream, n):
    """Return how many values and conflated ones came until the newest."""
    came = passed = 0
    while True:
        for block in await stream.next():
            envelope = json.loads(block["data"])
            if envelope["kind"] == "gap":
                assert "conflated" == envelope["gap"]["reason"]
                passed += envelope["gap"]["count"]
            elif envelope["kind"] == "put":
                came += 1
                if envelope["value"]["n"] == n:
                    return came, passed


@pytest.mark.parametrize("url", ["/Tick/?start=new", "/Dog/?start=new&conflate=10ms"])
async def test_m4_the_newest_value_comes_and_all_others_are_counted(doors, url):
    """M4: where the table declares it, and where the client asks."""
    name = url.split("/")[1]
    async with doors.sse(url) as stream:
        await stream.next()
        await doors.writes(50, f"{name}/1")
        assert 50 == sum(await newest(stream, 49))


async def test_a_websocket_asks_for_each_of_its_subscriptions(doors):
    async with doors.ws("/Dog/?conflate=2s") as socket:
        await say(socket, id=1, op="subscribe", topic="Tick/+", conflate="3s")
        await say(socket, id=2, op="subscribe", topic="other/+")
        (subscription,) = doors.edge.watch.subscriptions()
        await doors.until(lambda: len(subscription.interests) == 3)
        asked = {it.topics.text: it.conflate for it in subscription.interests}
    assert {"Dog/#": 2.0, "Tick/+": 3.0, "other/+": 0.0} == asked


async def test_what_is_no_interval_is_refused(doors):
    got = await doors.http.get("/Dog/?conflate=often", headers={"accept": "text/event-stream"})
    assert (400, True) == (got.status_code, "conflate is a duration" in got.json()["detail"])
    async with doors.ws("/") as socket:
        answer = await ask(socket, id=1, op="subscribe", topic="Dog/+", conflate=3)
    assert "invalid" == answer["error"]["code"]
