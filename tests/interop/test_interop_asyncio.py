"""The asyncio clients aiomqtt and gmqtt against the whole program."""

import asyncio
import json

import aiomqtt
import gmqtt
import pytest
from gmqtt.mqtt.constants import MQTTv50, MQTTv311

from serving import PATIENCE_SECONDS


async def within(awaitable):
    """Return the result, or fail."""
    return await asyncio.wait_for(awaitable, PATIENCE_SECONDS)


# -- aiomqtt ---------------------------------------------------------------------------------------


@pytest.fixture(
    params=[
        (version, transport)
        for version in ("V31", "V311", "V5")
        for transport in ("tcp", "websockets")
    ],
    ids=" ".join,
)
def aio(request, server):
    """Return a maker of clients."""
    version, transport = request.param
    port = server.http_port if transport == "websockets" else server.mqtt_port
    return lambda: aiomqtt.Client(
        "127.0.0.1",
        port,
        protocol=aiomqtt.ProtocolVersion[version],
        transport=transport,
        websocket_path="/mqtt" if transport == "websockets" else None,
        identifier="" if version != "V31" else "aiomqtt",
        timeout=PATIENCE_SECONDS,
    )


async def test_aiomqtt_writes_reads_and_deletes_a_record(aio):
    async with aio() as client:
        await client.publish("Dog/1", json.dumps({"name": "Rex"}), qos=1, retain=True)
        await client.subscribe("Dog/#", qos=1)
        messages = aiter(client.messages)
        first = await within(anext(messages))
        await client.publish("Dog/1", b"", qos=1, retain=True)
        last = await within(anext(messages))
        assert ("Rex", True, b"") == (json.loads(first.payload)["name"], first.retain, last.payload)


# -- gmqtt -----------------------------------------------------------------------------------------


class Gmqtt:
    """A gmqtt client, connected, whose messages are a queue."""

    def __init__(self, name):
        self.messages = asyncio.Queue()
        self.client = gmqtt.Client(name)
        self.client.on_message = self._take
        self.subscribed = asyncio.Event()
        self.client.on_subscribe = lambda *_: self.subscribed.set()

    def _take(self, _client, topic, payload, qos, properties):
        self.messages.put_nowait((topic, payload, qos, properties))
        return 0


@pytest.fixture(params=[MQTTv311, MQTTv50], ids=["3.1.1", "5"])
async def gm(request, server):
    """Return a connected client."""
    made = Gmqtt(f"gmqtt-{request.param}")
    await within(made.client.connect("127.0.0.1", server.mqtt_port, version=request.param))
    yield made
    await within(made.client.disconnect())


async def test_gmqtt_writes_and_hears_a_record(gm):
    gm.client.subscribe("Dog/#", qos=1)
    await within(gm.subscribed.wait())
    gm.client.publish("Dog/1", {"name": "Rex"}, qos=1, retain=True)
    topic, payload, qos, _ = await within(gm.messages.get())
    assert ("Dog/1", "Rex", 1) == (topic, json.loads(payload)["name"], qos)


async def test_gmqtt_gets_the_retained_record(gm, server):
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    gm.client.subscribe("Dog/1", qos=0)
    topic, payload, _, properties = await within(gm.messages.get())
    assert ("Dog/1", "Rex", 1) == (topic, json.loads(payload)["name"], properties["retain"])


async def test_gmqtt_gets_a_burst_in_order(gm):
    gm.client.subscribe("burst", qos=1)
    await within(gm.subscribed.wait())
    for number in range(1_000):
        gm.client.publish("burst", str(number), qos=1)
    heard = [await within(gm.messages.get()) for _ in range(1_000)]
    assert list(range(1_000)) == [int(payload) for _, payload, _, _ in heard]


async def test_gmqtt_hears_where_in_the_log_an_event_is(server):
    """M1."""
    made = Gmqtt("gmqtt-seq")
    await within(made.client.connect("127.0.0.1", server.mqtt_port))
    made.client.subscribe("Dog/1", qos=1)
    await within(made.subscribed.wait())
    etag = server.request("PUT", "/Dog/1", json={"name": "Rex"}).headers["ETag"]
    _, _, _, properties = await within(made.messages.get())
    await within(made.client.disconnect())
    assert ("seq", etag.strip('"')) in properties["user_property"]
