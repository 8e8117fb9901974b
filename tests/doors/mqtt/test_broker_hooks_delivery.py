"""What hooks let readers have over MQTT, and the order of the whole flow (G6-G10, D65)."""

import asyncio

import pytest

from mqtt_server import MqttServer, payloads
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.hook import DROP, Hook
from rowcast.mqtt.packets import Puback, Subscription
from rowcast.mqtt.window import Window
from rowcast.routes.registry import Registry
from rowcast.subscriptions.subscribed_filters import SubscribedFilters
from rowcast.subscriptions.subscription import Subscription as Cursor

VERSIONS = [4, 5]


# -- delivery --------------------------------------------------------------------------------------


class Editor(Hook):
    """Hides, drops and rewrites for the client s."""

    def can_read(self, caller, topic):
        return caller.client_id != "s" or topic != "hidden"

    def on_publish_deliver(self, caller, event):
        if caller.client_id != "s":
            return None
        if event.topic == "noise":
            return DROP
        return event.changed(
            payload=b"for s: " + event.payload,
            properties={"user_property": [["for", caller.client_id]]},
        )


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_g6_g8_each_reader_gets_its_own(world, qos):
    world.kernel.hooks.add(Editor())
    one, two = await world.subscribed("#", qos=qos), await world.subscribed("#", client_id="t")
    for topic in ("hidden", "noise", "plain"):
        await world.say(topic, b"x")
    (packet,) = await one.hear()
    assert (b"for s: x", "s", qos if qos < 2 else 1) == (
        packet.payload, dict(packet.properties["user_property"])["for"], packet.qos
    )  # fmt: skip
    others = await two.hear()
    assert [b"x"] * 3 == payloads(others)
    assert all(packet.properties is None for packet in others)


@pytest.mark.parametrize("killed", [False, True])
async def test_g8_a_flight_is_sent_again_as_it_was(killed):
    """The log has the original, which this reader must not see."""
    world = MqttServer()
    world.kernel.hooks.add(Editor())
    options = {"clean_start": False, "properties": {"session_expiry_interval": 60}}
    peer = await world.connected("s", **options)
    await peer.subscribe("#", qos=1)
    other = await world.connected("o")
    other.publish("plain", b"x", 1)
    assert [b"for s: x"] == payloads(await peer.hear())
    await world.pass_time(5)  # flights are on disk
    peer.lose()
    if killed:
        world = await world.killed()
        world.kernel.hooks.add(Editor())
    again = await world.connected("s", **options)
    await world.turn()
    assert [b"for s: x"] == payloads([*again.later, *again.heard()])


# -- D65 -------------------------------------------------------------------------------------------


class Witness(Hook):
    """Writes down the points that it passes."""

    def __init__(self, trace):
        self.trace = trace

    def on_publish(self, caller, event):
        self.trace.append("OnPublish")

    def on_publish_received(self, caller, event):
        self.trace.append("OnPublishReceived")

    def can_read(self, caller, topic):
        self.trace.append("CanRead")
        return True

    def on_publish_deliver(self, caller, event):
        self.trace.append(f"min QoS {event.qos}, OnPublishDeliver")


@pytest.mark.interpreted
async def test_d65_the_order_of_the_whole_flow_of_qos_1(world, monkeypatch):
    """PUBACK after the commit (X9)."""
    trace = []

    def note(owner, name, step, *, unless=lambda *_: False):
        original = getattr(owner, name)

        def noted(*arguments, **options):
            if not unless(*arguments):
                trace.append(step(*arguments) if callable(step) else step)
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, noted)

    reader = await world.subscribed(Subscription("Dog/+", 1, no_local=True), Subscription("Dog/1"))
    writer = await world.connected("w")
    world.kernel.hooks.add(Witness(trace))
    window = reader.client.session.window
    reader.client.session.subscription.stage = world.kernel.stage(reader.client.caller)
    note(Registry, "route", "validate", unless=lambda *_: "validate" in trace)
    note(world.store, "commit", "commit")
    note(Cursor, "offer", "match")
    note(SubscribedFilters, "wanting", "NoLocal")
    note(Window, "begin", "packet id")
    note(writer.transport, "write", lambda data: f"to publisher {data[0]:02x}")
    note(reader.transport, "write", lambda data: f"send {data[0]:02x}")
    note(Window, "acknowledge", lambda *_: f"ack, of {len(window)} tracked")
    writer.publish("Dog/1", b'{"name": "Rex"}', 1)
    await world.turn()
    (packet,) = reader.heard()
    reader.send(Puback(packet.packet_id))
    await world.turn()
    expected = [
        "validate",
        "OnPublish",
        "OnPublishReceived",
        "commit",
        "match",
        "NoLocal",
        "CanRead",
        "min QoS 1, OnPublishDeliver",
        "packet id",
        "send 32",
        "ack, of 1 tracked",
    ]
    assert expected == [step for step in trace if not step.startswith("to publisher")]
    answered = trace.index("to publisher 40")
    assert trace.index("commit") < answered < trace.index("ack, of 1 tracked")
    assert 0 == len(window)


# -- retained values -------------------------------------------------------------------------------


class Cellar(Hook):
    """Keeps retained values elsewhere."""

    def __init__(self):
        self.values = {}

    async def store_retained(self, topic, event):
        await asyncio.sleep(0)
        self.values[topic] = event
        return True

    async def get_retained(self, text):
        await asyncio.sleep(0)
        wanted = TopicFilter(text)
        return [
            event for topic, event in self.values.items() if wanted.matches(topic) and event.payload
        ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_g10_a_value_that_a_hook_keeps_is_retained_like_any_other(world, version):
    """X20; D32: the live one has no RETAIN, the one at the start of a subscription has."""
    world.kernel.hooks.add(Cellar())
    reader = await world.subscribed("a/#", qos=1, version=version)
    writer = await world.connected("w", version)
    writer.publish("a/1", b"x", 1, retain=True)
    (answer,) = await writer.hear()
    assert 1 == answer.packet_id
    (live,) = await reader.hear()
    later = await world.connected("l", version)
    await later.subscribe("a/#", qos=1)
    (current,) = [*later.later, *await later.hear()]
    told = [(packet.payload, packet.qos, packet.retain) for packet in (live, current)]
    assert [(b"x", 1, False), (b"x", 1, True)] == told
    writer.publish("a/1", b"", 1, retain=True, packet_id=2)
    await writer.hear()
    assert [b""] == payloads(await reader.hear())
    last = await world.connected("z", version)
    await last.subscribe("a/#", qos=1)
    assert [] == [*last.later, *await last.hear()]


async def test_g10_a_durable_session_misses_nothing_that_a_hook_keeps(world):
    world.kernel.hooks.add(Cellar())
    options = {"clean_start": False, "properties": {"session_expiry_interval": 60}}
    peer = await world.connected(**options)
    await peer.subscribe("a/#", qos=1)
    peer.lose()
    writer = await world.connected("w")
    for number in range(3):
        writer.publish("a/1", b"%d" % number, 1, retain=True, packet_id=number + 1)
    await writer.hear()
    again = await world.connected(**options)
    assert [b"0", b"1", b"2"] == payloads([*again.later, *await again.hear()])
