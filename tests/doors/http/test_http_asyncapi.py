"""The AsyncAPI document: valid, of the same tables as OpenAPI's, and true (B15)."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from test_http_openapi import Lamp, references

from asgi import asgi
from http_clients import http_client
from rowcast.doors.http.documents.asyncapi import AsyncDocument
from rowcast.doors.http.documents.servers import servers_at
from rowcast.routes.registry import Registry
from rowcast.schema import parse_schema
from serving import application

SCHEMA = json.loads((Path(__file__).parent / "vendored" / "asyncapi-3.0.0.json").read_text())
PORTS = {"http": 1, "https": 2, "mqtt": 3, "mqtts": 4}


@pytest.fixture
async def documents():
    """Both documents of a server with everything open."""
    async with asgi(resources=[Lamp], ports=lambda: PORTS) as rest:
        asked = [await rest.get(f"/{name}.json") for name in ("asyncapi", "openapi")]
        yield [one.value for one in asked]


@pytest.fixture
def document(documents):
    return documents[0]


def test_it_keeps_to_the_official_schema(document):
    """B15: AsyncAPI 3.0.0, by the schema of its authors."""
    errors = jsonschema_rs.Draft7Validator(SCHEMA).iter_errors(document)
    assert [] == [f"{error.instance_path}: {error.message[:300]}" for error in errors]
    assert "3.0.0" == document["asyncapi"]


def test_the_official_schema_notices(document):
    broken = [
        document | {"asyncapi": "3"},
        document | {"servers": {"x": {"protocol": "mqtt"}}},
        document | {"operations": {"x": {"action": "hear"}}},
        document | {"unknown": 1},
    ]
    validator = jsonschema_rs.Draft7Validator(SCHEMA)
    assert [False] * 4 == [validator.is_valid(one) for one in broken]


def test_every_reference_leads_somewhere(document):
    for reference in references(document):
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_schemas_are_those_of_openapi(documents):
    """B15: a record is the same thing in both, under the same name."""
    one, other = (item["components"]["schemas"] for item in documents)
    tables = [name for name in other if f"{name}Patch" in other and f"{name}Patch" in one]
    assert {"Dog", "Note", "TopicRow"} <= set(tables)
    assert [] == [name for name in tables if one[name] != other[name]]
    assert one["Problem"] == other["Problem"]


def test_a_table_has_a_channel_for_records_and_streams(document):
    channels = document["channels"]
    addresses = {name: channel["address"] for name, channel in channels.items()}
    assert ("Dog/{id}", "/Dog/{id}", "/Dog/") == (
        addresses["DogRecord"], addresses["DogRecordEvents"], addresses["DogEvents"],
    )  # fmt: skip
    assert {"id"} == set(channels["DogRecord"]["parameters"])
    assert ["mqtt", "mqtts"] == spoken(document, "DogRecord")
    assert ["http", "ws", "https", "wss"] == spoken(document, "DogEvents")
    payload = document["components"]["messages"]["Dog"]["payload"]
    assert {"$ref": "#/components/schemas/Dog"} == payload
    actions = {
        name: operation["action"]
        for name, operation in document["operations"].items()
        if operation["channel"]["$ref"] == "#/channels/DogRecord"
    }
    assert {"writeDog": "receive", "tellDog": "send"} == actions
    assert "Lamp/{id}" == addresses["LampResource"]


def test_a_door_that_a_table_is_not_at_is_not_told():
    """A7: what @export says counts here too."""
    schema = "type Quiet @table @export(mqtt: false, sse: false) { id: ID @primaryKey }"
    registry = Registry(parse_schema(schema).tables, undeclared=False)
    document = AsyncDocument(registry, "t", "1").made(servers_at("http", "a.example", PORTS))
    assert "QuietRecord" not in document["channels"]
    assert ["ws", "wss"] == spoken(document, "QuietEvents")
    assert "undeclared" not in document["channels"]
    assert [] == [name for name in document["operations"] if name in {"tellQuiet", "writeQuiet"}]


def spoken(document, channel):
    """Return the servers that have a channel."""
    return [one["$ref"].split("/")[-1] for one in document["channels"][channel]["servers"]]


def test_servers_are_seen_from_whoever_asks():
    """Behind a port of a container or a proxy, HTTP is where it was asked for."""
    hosts = {
        name: server["host"]
        for name, (_, server) in servers_at("http", "a.example:8080", PORTS).items()
    }
    assert hosts == {
        "http": "a.example:8080", "ws": "a.example:8080", "https": "a.example:2",
        "wss": "a.example:2", "mqtt": "a.example:3", "mqtts": "a.example:4",
    }  # fmt: skip
    assert "[::1]:3" == servers_at("http", "[::1]:1", PORTS)["mqtt"][1]["host"]
    assert ["https", "wss"] == list(servers_at("https", "a.example", {}))


async def test_what_streams_bring_is_as_it_says(tmp_path):
    """B15: envelopes, marks, answers and refusals of a real server fit their schemas."""
    from websockets.asyncio.client import connect

    async with application(tmp_path) as program:
        host = f"127.0.0.1:{program.http_port}"
        async with connect(f"ws://{host}/") as socket:
            said = []
            for commands, answers in ((COMMANDS[:2], 2), (COMMANDS[2:3], 3), (COMMANDS[3:], 2)):
                for command in commands:
                    await socket.send(json.dumps(command))
                said += [json.loads(await socket.recv()) for _ in range(answers)]
        document = await _fetched(host)
    assert {"mqtt", "http", "ws"} == set(document["servers"])
    assert f"127.0.0.1:{program.mqtt_port}" == document["servers"]["mqtt"]["host"]
    fitting = {"kind": ["DogEvent", "mark"], "ack": ["acknowledgement"], "error": ["refusal"]}
    kinds = set()
    for one in said:
        word = next(word for word in fitting if word in one)
        kinds.add(one.get("kind", word))
        assert any(_fits(document, name, one) for name in fitting[word]), one
    assert {"put", "delete", "current", "snapshot", "ack", "error"} == kinds


COMMANDS = [
    {"id": 1, "op": "put", "topic": "Dog/1", "value": {"name": "Rex"}},
    {"id": 2, "op": "put", "topic": "Dog/2", "value": {"name": 7}},
    {"id": 3, "op": "subscribe", "topic": "Dog/#"},
    {"op": "put", "topic": "Dog/1", "value": {"name": "Max"}},
    {"op": "delete", "topic": "Dog/1"},
]


async def _fetched(host):
    async with http_client() as client:
        return (await client.get(f"http://{host}/asyncapi.json")).json()


def _fits(document, message, value):
    schema = document["components"]["messages"][message]["payload"] | {
        "components": document["components"]
    }
    return jsonschema_rs.Draft7Validator(schema).is_valid(value)


@pytest.mark.parametrize("host", ["[", "[::1", "a b"])
async def test_it_is_given_whatever_name_is_asked_for(host):
    """B15: a Host that is none is no failure of the server."""
    async with asgi(ports=lambda: PORTS) as rest:
        assert 200 == (await rest.get("/asyncapi.json", host=host)).status
