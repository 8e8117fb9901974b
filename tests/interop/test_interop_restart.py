"""Durable sessions of many clients over their absence and over `kill -9` of the server (D16, D27).

mosquitto, MQTT.js, aiomqtt and gmqtt; what paho does with sessions is in `test_interop_sessions`.
"""

import asyncio
import socket

import aiomqtt
import gmqtt
import paho.mqtt.client as mqtt
import pytest
from clients import needs, run, stop_loop
from gmqtt.mqtt.constants import MQTTv50
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from test_interop_mqtt_js import MqttJs
from test_interop_mqtt_js import pytestmark as mqtt_js_marks

from amounts import amount
from serving import PATIENCE_SECONDS, Server, wait_until
from talking import Mqtt

MESSAGES = ["one", "two", "three"]
EXPIRY_SECONDS = 600
pytestmark = pytest.mark.slow


@pytest.fixture(params=["same", "killed", "stopped"])
def server(request, tmp_path):
    """Return a server whose ``again`` is what happens while a client is away."""
    with Server(tmp_path) as running:

        def again():
            if request.param == "same":
                return
            running.kill() if request.param == "killed" else running.stop()
            running.start()

        running.again = again
        yield running


def publish_all(server, topic, qos=1):
    """Publish the messages while the others are away."""
    with Mqtt(server.mqtt_port, client_id="publisher") as client:
        for text in MESSAGES:
            client.publish(topic, text.encode(), qos, retain=False)


# -- mosquitto -------------------------------------------------------------------------------------


@pytest.mark.interop
@needs("mosquitto_sub")
@needs("mosquitto_pub")
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
@pytest.mark.parametrize("qos", [1, 2])
def test_mosquitto_sub_c_gets_what_it_missed(server, version, qos):
    """D16, D27: QoS 2 from mosquitto_pub to mosquitto_sub, who was away."""
    to = ["-h", "127.0.0.1", "-p", server.mqtt_port, "-V", version, "-q", qos, "-t", "open/away"]
    stays = ["-c", "-i", "listener", *(["-x", EXPIRY_SECONDS] if version == "mqttv5" else [])]
    run("mosquitto_sub", *to, *stays, "-E")
    for text in MESSAGES[:2]:
        run("mosquitto_pub", *to, "-m", text)
    server.again()
    run("mosquitto_pub", *to, "-m", MESSAGES[2])
    heard = run("mosquitto_sub", *to, *stays, "-C", len(MESSAGES), "-F", "%q %p")
    assert [f"{qos} {text}" for text in MESSAGES] == heard.decode().splitlines()
    run("mosquitto_pub", *to, "-m", "last")
    assert b"last\n" == run("mosquitto_sub", *to, *stays, "-C", 1)


# -- MQTT.js ---------------------------------------------------------------------------------------


def _marked(test):
    for mark in mqtt_js_marks:
        test = mark(test)
    return test


@_marked
@pytest.mark.parametrize(
    ("version", "qos"), [(4, 1), (5, 2), *[(4, 2), (5, 1)][: amount(long=2, short=0)]]
)
def test_mqtt_js_gets_what_it_missed(server, version, qos):
    """D27: clean is false."""
    wishes = {"clean": False, "clientId": "listener"}
    if version == 5:
        wishes["properties"] = {"sessionExpiryInterval": EXPIRY_SECONDS}
    url = f"mqtt://127.0.0.1:{server.mqtt_port}"
    with MqttJs(url, version, **wishes) as client:
        client.do("subscribe", topic="open/away", qos=qos)
        client.hear("subscribed")
    with MqttJs(url, version) as other:
        for text in MESSAGES:
            other.do("publish", topic="open/away", payload=text, qos=qos)
            other.hear("published")
    server.again()
    with MqttJs(url, version, **wishes) as client:
        heard = [client.hear("heard") for _ in MESSAGES]
    assert [(text, qos) for text in MESSAGES] == [(x["payload"], x["qos"]) for x in heard]


# -- aiomqtt and gmqtt -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["V311", "V5"])
async def test_aiomqtt_gets_what_it_missed(server, version):
    """D16, D27."""
    stays = {"clean_session": False}
    if version == "V5":
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = EXPIRY_SECONDS
        stays = {"clean_start": False, "properties": properties}

    def client(name, **options):
        return aiomqtt.Client(
            "127.0.0.1", server.mqtt_port, identifier=name, timeout=PATIENCE_SECONDS,
            protocol=aiomqtt.ProtocolVersion[version], **options,
        )  # fmt: skip

    async with client("listener", **stays) as listener:
        await listener.subscribe("open/away", qos=2)
    async with client("publisher") as publisher:
        for text in MESSAGES:
            await publisher.publish("open/away", text, qos=2)
    await asyncio.to_thread(server.again)
    async with client("listener", **stays) as listener:
        messages = aiter(listener.messages)
        heard = [await asyncio.wait_for(anext(messages), PATIENCE_SECONDS) for _ in MESSAGES]
    assert [(text.encode(), 2) for text in MESSAGES] == [(x.payload, x.qos) for x in heard]


async def test_gmqtt_gets_what_it_missed(server):
    """D27."""
    heard = asyncio.Queue()

    async def visit():
        client = gmqtt.Client("listener", clean_session=False, session_expiry_interval=600)
        client.on_message = lambda *a: heard.put_nowait(a[2].decode()) or 0
        done = asyncio.get_running_loop().create_future()
        client.on_subscribe = lambda *_: done.done() or done.set_result(None)
        await client.connect("127.0.0.1", server.mqtt_port, version=MQTTv50)
        return client, done

    client, done = await visit()
    client.subscribe("open/away", qos=1)
    await asyncio.wait_for(done, PATIENCE_SECONDS)
    await client.disconnect()
    await asyncio.to_thread(publish_all, server, "open/away")
    await asyncio.to_thread(server.again)
    client, _ = await visit()
    assert MESSAGES == [await asyncio.wait_for(heard.get(), PATIENCE_SECONDS) for _ in MESSAGES]
    await client.disconnect()


# -- wills -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("returns", [False, True])
def test_the_delayed_will_of_a_paho_client(server, returns):
    """D31, MQTT-3.1.3-9: over a restart too; not when the client is back in time."""
    delay = 3_000 if returns else 1
    heir = Mqtt(server.mqtt_port, client_id="heir")
    heir.subscribe("open/will")
    client = _testator(server, delay)
    client.socket().shutdown(socket.SHUT_RDWR)
    stop_loop(client)
    if not returns:
        assert b"gone" == heir.message().payload
        heir.cut()
        return
    heir.cut()
    server.again()
    with Mqtt(server.mqtt_port, client_id="heir") as heir:
        heir.subscribe("open/#")
        again = _testator(server, delay)
        again.disconnect()
        stop_loop(again)
        heir.publish("open/after", b"x")
        assert "open/after" == heir.message().topic


def test_a_will_is_published_after_a_restart(tmp_path):
    """D31, D45: the server is killed while its client is connected."""
    with Server(tmp_path) as server:
        client = _testator(server, 1, retain=True)
        server.kill()
        stop_loop(client)
        server.start()
        wait_until(
            lambda: server.request("GET", "/open/will").status_code == 200, "the will is a record"
        )


def _testator(server, delay, *, retain=False):
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2, "testator", protocol=MQTTProtocolVersion.MQTTv5,
        reconnect_on_failure=False,
    )  # fmt: skip
    will, connect = Properties(PacketTypes.WILLMESSAGE), Properties(PacketTypes.CONNECT)
    will.WillDelayInterval = delay
    connect.SessionExpiryInterval = EXPIRY_SECONDS * 10
    client.will_set("open/will", "gone", 1, retain, will)
    client.connect("127.0.0.1", server.mqtt_port, clean_start=False, properties=connect)
    client.loop_start()
    wait_until(client.is_connected, "the client is connected")
    return client
