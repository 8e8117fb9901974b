"""Tables that the schema excludes from SSE or WebSocket are not there for these protocols."""

import pytest

from http_server import STREAM, TABLES, HttpServer, ask, hear, say
from rowcast.core.tables import Table
from rowcast.routes.resource import Resource

QUIET = Table("Quiet", "Quiet", hidden_from=frozenset({"sse", "ws"}))
UNSOCKETED = Table("Unsocketed", "Unsocketed", hidden_from=frozenset({"ws"}))


class Digest(Resource):
    """Tells by its own code what the table's clients may not stream themselves."""

    path = "digest"

    async def connect(self, incoming=None):
        yield await self.kernel.read_value("Quiet/1", self.caller, None)


@pytest.fixture
async def doors():
    async with HttpServer(resources=[Digest], tables=(*TABLES, QUIET, UNSOCKETED)) as running:
        for topic in ("Quiet/1", "Unsocketed/1", "Dog/1"):
            await running.write(topic)
        yield running


def topics(envelopes):
    return [item["topic"] for item in envelopes if item["topic"]]


async def read_until_mark(peer):
    """Return what a WebSocket brings up to the mark behind the current records."""
    found = []
    while not found or found[-1].get("kind") != "current":
        found += await hear(peer)
    return found


@pytest.mark.parametrize(
    "path", ["/Quiet/", "/Quiet/1", "/?topic=Quiet/%23", "/?topic=Dog/1&topic=Quiet/1"]
)
async def test_sse_refuses_a_path_of_an_excluded_table(doors, path):
    answer = await doors.http.get(path, headers=STREAM)
    assert (answer.status_code, answer.json()["detail"]) == (404, "Quiet is not offered over SSE")


async def test_sse_withholds_events_of_an_excluded_table(doors):
    async with doors.sse("/?topic=%23") as stream:
        assert ["Dog/1", "Unsocketed/1"] == sorted(topics(await stream.values(3)))
        for topic in ("Quiet/1", "Quiet/2", "Dog/2"):
            await doors.write(topic)
        assert ["Dog/2"] == topics(await stream.values(1))


async def test_a_table_is_excluded_from_the_named_protocol_alone(doors):
    async with doors.sse("/Unsocketed/") as stream:
        assert ["Unsocketed/1"] == topics(await stream.values(1))


async def test_a_websocket_refuses_and_withholds(doors):
    async with doors.ws("/?topic=%23") as peer:
        assert ["Dog/1"] == topics(await read_until_mark(peer))
        for number, fields in enumerate(
            (
                {"op": "get", "topic": "Quiet/1"},
                {"op": "subscribe", "topic": "Unsocketed/+"},
                {"op": "put", "topic": "Quiet/1", "value": {}},
            )
        ):
            said = await ask(peer, id=number, **fields)
            assert (said["id"], said["error"]["status"]) == (number, 404)
        await say(peer, op="put", topic="Dog/2", value={})
        await doors.write("Unsocketed/2")
        await doors.write("Dog/3")
        heard = await hear(peer, 2)
    assert {"Dog/2", "Dog/3"} == set(topics(heard))


async def test_a_resource_may_stream_what_its_table_does_not(doors):
    async with doors.sse("/digest") as stream:
        assert (await stream.next())[0]["data"] == "{}"
