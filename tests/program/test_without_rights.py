"""M9: a server without the rights feature refuses everything, on every door, to anybody."""

import asyncio
import json

import pytest
from websockets.exceptions import ConnectionClosed

from http_clients import http_client
from rowcast.core.callers import SERVER
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.mqtt.packets import Disconnect
from rowcast.mqtt.reasons import Reason
from serving import PATIENCE_SECONDS, application, features_without
from talking import Events, Mqtt, open_websocket

OTHERS = features_without("rights")
SECRET = b"the secret of Rex"
DOG = {"name": "Rex"}
KEPT = {"session_expiry_interval": 600}


class Doors:
    """Where the program listens."""

    def __init__(self, running):
        self.http_port, self.mqtt_port = running.http_port, running.mqtt_port


def _subscribed(running):
    """Leave a session behind that is owed what is written from now on."""
    with Mqtt(running.mqtt_port, client_id="away", properties=KEPT) as client:
        assert (1,) == tuple(client.subscribe("home/#").reasons)


@pytest.fixture
async def closed(tmp_path):
    """A server without rights that has a record, a retained message and history of before."""
    async with application(tmp_path) as open_to_all:
        url = f"http://127.0.0.1:{open_to_all.http_port}"
        async with http_client(base_url=url) as client:
            assert 201 == (await client.put("/Dog/1", json={"name": SECRET.decode()})).status_code
        await asyncio.to_thread(_subscribed, open_to_all)
        await open_to_all.kernel.write(Event("home/1", PUT, SECRET, None, 1, True), SERVER)
    async with asyncio.timeout(PATIENCE_SECONDS), application(tmp_path, features=OTHERS) as running:
        yield running
        events = await running.kernel.reader.read(0, 1_000, None)
        assert {"Dog/1", "home/1"} == {item.topic for item in events if item.topic[0] != "$"}
        assert 2 == sum(item.topic[0] != "$" for item in events)


REQUESTS = [
    ("GET", "/Dog/1", None),
    ("GET", "/Dog/none", None),
    ("GET", "/Dog/", None),
    ("GET", "/Dog/?name==Rex", None),
    ("GET", "/Dog/1?last=5", None),
    ("GET", "/Dog/1?asof=now", None),
    ("GET", "/Dog/?from=-1h", None),
    ("GET", "/home/1", None),
    ("GET", "/mqtt_home/", None),
    ("GET", "/$SYS/rules/", None),
    ("GET", "/$SYS/sessions/", None),
    ("GET", "/metrics", None),
    ("PUT", "/Dog/2", DOG),
    ("PATCH", "/Dog/1", DOG),
    ("DELETE", "/Dog/1", None),
    ("POST", "/Dog/", DOG),
    ("POST", "/home/1?retain=false", DOG),
    ("POST", "/Dog/", [DOG, DOG]),
    ("POST", "/Dog/?atomic=true", [DOG, DOG]),
    ("PUT", "/home/2", DOG),
    ("PUT", "/$delayed/1/home/2", DOG),
    ("DELETE", "/$SYS/sessions/x", None),
]


@pytest.mark.heavy
async def test_http_is_refused(closed):
    url = f"http://127.0.0.1:{closed.http_port}"
    found = {}
    async with http_client(base_url=url) as client:
        for method, path, body in REQUESTS:
            answer = await client.request(method, path, json=body)
            found[f"{method} {path}"] = answer.status_code
            assert SECRET not in answer.content
    assert {} == {request: status for request, status in found.items() if status != 403}


async def test_sse_is_refused(closed):
    def statuses():
        found = []
        for path in ("/Dog/1", "/Dog/", "/home/", "/$SYS/"):
            with Events(Doors(closed), path) as events:
                found.append(events.status)
                assert SECRET not in events.response.read()
        return found

    assert [403] * 4 == await asyncio.to_thread(statuses)


COMMANDS = [
    {"op": "subscribe", "topic": "Dog/#"},
    {"op": "put", "topic": "Dog/2", "value": DOG},
    {"op": "publish", "topic": "home/1", "value": 1},
]


@pytest.mark.slow
async def test_a_websocket_is_closed_before_any_command(closed):
    def ended(path, command):
        with open_websocket(Doors(closed), path) as socket:
            socket.send(json.dumps({"id": 1, **command}))
            return socket.recv(PATIENCE_SECONDS)

    codes = []
    for path in ("/", "/Dog/", "/home/1"):
        for command in COMMANDS:
            with pytest.raises(ConnectionClosed) as refused:
                await asyncio.to_thread(ended, path, command)
            codes.append(refused.value.rcvd.code)
    assert [4403] * 9 == codes


@pytest.mark.heavy
async def test_mqtt_is_refused(closed):
    def asked():
        with Mqtt(closed.mqtt_port) as client:
            found = [
                client.publish(topic, b'{"name":"Rex"}', retain=retain).reason
                for topic in ("Dog/2", "home/1", "home/2", "$delayed/1/home/2")
                for retain in (True, False)
            ]
            for topics in ("Dog/#", "#", "home/1", "$share/g/Dog/#", "$SYS/#"):
                found += client.subscribe(topics).reasons
            client.publish("Dog/1", b"", qos=0)
            return found, client.ready()

    found, heard = await asyncio.to_thread(asked)
    assert ([Reason.NOT_AUTHORIZED] * 13, False) == (found, heard)


@pytest.mark.heavy
async def test_a_session_of_before_is_given_nothing(closed):
    def resumed():
        with Mqtt(closed.mqtt_port, client_id="away", properties=KEPT, clean_start=False) as client:
            assert client.connack.session_present
            return client.receive()

    farewell = await asyncio.to_thread(resumed)
    assert (Disconnect, Reason.NOT_AUTHORIZED) == (type(farewell), farewell.reason)


@pytest.mark.heavy
async def test_the_server_itself_is_refused(closed):
    """A feature that writes by itself is no exception."""
    with pytest.raises(Error) as refused:
        await closed.kernel.write(Event("Dog/2", PUT, b'{"name":"Rex"}', None, 1, True), SERVER)
    assert Code.DENIED is refused.value.code
    with pytest.raises(Error) as refused:
        await closed.kernel.read("Dog/1", SERVER)
    assert Code.DENIED is refused.value.code
