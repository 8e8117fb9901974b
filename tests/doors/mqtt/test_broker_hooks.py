"""Hooks and listeners at the MQTT door (G2-G9, G17, G18, X2, D65)."""

import asyncio

import pytest

from mqtt_server import MqttServer, Publish, payloads
from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.hook import DROP, Hook, Refusal
from rowcast.features.hooks.hooks import HAPPENINGS
from rowcast.mqtt.packets import Disconnect, Subscribe, Subscription, Unsubscribe, Will
from rowcast.mqtt.reasons import Reason

VERSIONS = [4, 5]


class Diary(Hook):
    """Writes down what it hears."""

    def __init__(self):
        self.lines = []

    def on_connect(self, caller, packet):
        self.lines.append(("connect", caller.client_id, packet.client_id))

    def on_connected(self, caller):
        self.lines.append(("connected", caller.client_id))

    def on_disconnect(self, caller, error):
        self.lines.append(("disconnect", caller.client_id, error))

    def on_session_created(self, caller):
        self.lines.append(("created", caller.client_id))

    def on_session_resumed(self, caller):
        self.lines.append(("resumed", caller.client_id))

    def on_session_ended(self, client_id):
        self.lines.append(("ended", client_id))

    def take(self):
        """Return what was written since the last time."""
        lines, self.lines = self.lines, []
        return lines


@pytest.fixture
def diary(world):
    diary = Diary()
    world.kernel.hooks.add(diary)
    return diary


# -- connections and sessions --------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_g3_g9_a_clean_session_from_connect_to_disconnect(world, diary, version):
    peer = await world.connected(version=version)
    assert [("connect", "c", "c"), ("created", "c"), ("connected", "c")] == diary.take()
    await peer.ask(Disconnect())
    peer.lose()
    await world.turn()
    assert [("disconnect", "c", None), ("ended", "c")] == diary.take()


async def test_g3_the_reason_of_an_end_is_told_once(world, diary):
    lost = await world.connected("lost")
    lost.lose()
    breaking = await world.connected("breaking")
    breaking.send_bytes(b"\xff\xff")
    await breaking.hear()
    old = await world.connected("c")
    await world.connected("c")
    await old.hear()
    ends = [line[1:] for line in diary.take() if line[0] == "disconnect"]
    assert ("lost", "the connection was lost") == ends[0]
    assert "breaking" == ends[1][0]
    assert ends[1][1]
    assert ("c", "another connection uses this client identifier") == ends[2]
    assert 3 == len(ends)


async def test_g9_a_durable_session_is_resumed_and_ends_when_its_time_is_over(world, diary):
    options = {"clean_start": False, "properties": {"session_expiry_interval": 60}}
    first = await world.connected(**options)
    first.lose()
    again = await world.connected(**options)
    again.lose()
    told = [line[0] for line in diary.take()]
    first_stay = ["connect", "created", "connected", "disconnect"]
    assert [*first_stay, "connect", "resumed", "connected", "disconnect"] == told
    await world.pass_time(61)
    assert [("ended", "c")] == diary.take()


@pytest.mark.parametrize(
    ("refusal", "reason", "code"),
    [
        (Refusal(0x8A, "banned"), Reason.BANNED, 5),
        (Refusal(0x9F, "not so fast"), Reason.CONNECTION_RATE_EXCEEDED, 3),
        (Refusal(0x92, "no reason of a CONNACK"), Reason.NOT_AUTHORIZED, 5),
        (Error(Code.UNAUTHENTICATED, "who?"), Reason.BAD_USER_NAME_OR_PASSWORD, 4),
        (Error(Code.BUSY, "later"), Reason.SERVER_BUSY, 3),
        (ZeroDivisionError(), Reason.UNSPECIFIED_ERROR, 3),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
async def test_g2_on_connect_refuses_with_the_reason_of_its_choice(
    world, diary, refusal, reason, code, waits
):
    class Doorman(Hook):
        if waits:

            async def on_connect(self, caller, packet):
                await asyncio.sleep(0)
                raise refusal

        else:

            def on_connect(self, caller, packet):
                raise refusal

    world.kernel.hooks.add(Doorman())
    failed = []
    world.kernel.hooks.on("auth-failed", lambda session, socket: failed.append(socket.error))
    peer = world.peer()
    assert (reason, True) == ((await peer.connect()).reason, peer.closed)
    old = world.peer(4)
    await old.connect()
    assert bytes((0x20, 2, 0, code)) == old.transport.sent[0]
    assert {"connect"} == {line[0] for line in diary.take()}
    denied = reason in {
        Reason.BANNED, Reason.NOT_AUTHORIZED, Reason.BAD_USER_NAME_OR_PASSWORD
    }  # fmt: skip
    assert (2 if denied else 0) == len(failed)


# -- what happens ----------------------------------------------------------------------------------


async def test_x2_mqtt_tells_of_all_that_happens(world):
    heard = []
    for name in HAPPENINGS:
        world.kernel.hooks.on(name, lambda *given, name=name: heard.append((name, *given)))
    peer = await world.connected()
    await peer.subscribe("a/+", "b")
    peer.publish("a/1", b"x", 1)
    await world.turn()
    await peer.ask(Unsubscribe(3, ("b",)))
    peer.lose()
    await world.turn()
    names = [item[0] for item in heard]
    assert [
        "connection", "connected", "subscribe", "subscribe", "publish", "unsubscribe",
        "disconnected", "unsubscribe",
    ] == names  # fmt: skip
    assert ("anonymous", "", "mqtt") == (heard[0][1].user, heard[0][1].client_id, heard[0][2].door)
    assert ("c", "127.0.0.1") == (heard[1][1].client_id, heard[1][2].peer)
    (interest,) = heard[2][1]
    assert ("a/+", "c") == (interest.topics.text, heard[2][2].client_id)
    assert ("a/1", b"x", "c") == (heard[4][1].topic, heard[4][1].payload, heard[4][2].client_id)
    assert [["b"], ["a/+"]] == [item[1] for item in heard if item[0] == "unsubscribe"]


async def test_x5_a_filter_of_a_durable_session_ends_with_the_session(world):
    heard = []
    world.kernel.hooks.on("unsubscribe", lambda texts, who: heard.append((*texts, who.client_id)))
    peer = await world.connected(
        clean_start=False, properties={"session_expiry_interval": 60}
    )  # fmt: skip
    await peer.subscribe("a/+", "$share/g/b", qos=1)
    peer.lose()
    await world.turn()
    assert [] == heard
    await world.pass_time(61)
    assert [("a/+", "c"), ("b", "c")] == heard


# -- subscribing -----------------------------------------------------------------------------------


class Usher(Hook):
    """Refuses, lowers and renames filters."""

    def on_subscribe(self, caller, interest):
        text = interest.topics.text
        if text == "secret":
            raise Error(Code.DENIED, "not that one")
        if text == "many":
            raise Refusal(0x97, "too many")
        if text == "broken":
            raise ZeroDivisionError
        if text.startswith("mine/"):
            interest.topics = TopicFilter(f"{caller.client_id}/{text[5:]}")
        interest.qos = min(interest.qos, 1)


class Slow(Usher):
    async def on_subscribe(self, caller, interest):
        await asyncio.sleep(0)
        super().on_subscribe(caller, interest)


BOTH = pytest.mark.parametrize("usher", [Usher, Slow])


@BOTH
async def test_g4_each_filter_gets_its_own_code(world, usher):
    world.kernel.hooks.add(usher())
    peer = await world.connected()
    filters = ("a", "secret", "many", "broken", "mine/b", "$share/g/secret")
    reasons = await peer.subscribe(*filters, qos=2)
    assert (
        Reason.GRANTED_QOS_1,
        Reason.NOT_AUTHORIZED,
        Reason.QUOTA_EXCEEDED,
        Reason.UNSPECIFIED_ERROR,
        Reason.GRANTED_QOS_1,
        Reason.NOT_AUTHORIZED,
    ) == reasons
    await world.say("c/b", b"1")
    await world.say("mine/b", b"2")
    assert [b"1"] == payloads(await peer.hear())


@BOTH
@pytest.mark.parametrize("killed", [False, True])
async def test_g4_a_renamed_filter_is_found_by_its_own_name(usher, killed):
    world = MqttServer()
    world.kernel.hooks.add(usher())
    options = {"clean_start": False, "properties": {"session_expiry_interval": 60}}
    peer = await world.connected(**options)
    await peer.subscribe("mine/b", qos=1)
    await peer.subscribe("mine/b", qos=1)
    if killed:
        peer.lose()
        world = await world.killed()
        world.kernel.hooks.add(usher())
        peer = await world.connected(**options)
    assert 1 == world.kernel.bus.subscriptions
    (answer,) = await peer.ask(Unsubscribe(3, ("mine/b", "mine/b")))
    assert (Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED) == answer.reasons
    assert 0 == world.kernel.bus.subscriptions


async def test_g4_what_comes_behind_a_slow_subscribe_waits_for_it(world):
    """The order of a client's packets is kept (MQTT-4.6.0-1)."""
    world.kernel.hooks.add(Slow())
    peer = await world.connected()
    peer.send(
        Subscribe(7, (Subscription("a", 1),)),
        Unsubscribe(8, ("a",)),
        Subscribe(9, (Subscription("a", 1),)),
    )
    peer.publish("a", b"x")
    kinds = [type(packet).__name__ for packet in await peer.hear()]
    assert ["Suback", "Unsuback", "Suback", "Publish"] == kinds


async def test_g4_a_client_that_leaves_while_a_hook_thinks_leaves_nothing(world):
    class Endless(Hook):
        async def on_subscribe(self, caller, interest):
            await thinking.wait()

    thinking = asyncio.Event()
    world.kernel.hooks.add(Endless())
    peer = await world.connected()
    peer.send(Subscribe(7, (Subscription("a"),)))
    await world.turn()
    peer.lose()
    await world.turn()
    thinking.set()
    await world.turn()
    assert 0 == world.kernel.bus.subscriptions


@BOTH
@pytest.mark.parametrize("share", ["", "$share/g/"])
async def test_g4_filters_of_a_session_that_goes_on_are_asked_about_again(world, usher, share):
    options = {"clean_start": False, "properties": {"session_expiry_interval": 60}}
    peer = await world.connected(**options)
    await peer.subscribe(f"{share}secret", f"{share}many", qos=1)
    peer.lose()
    world.kernel.hooks.add(usher())
    gone = []
    world.kernel.hooks.on("unsubscribe", lambda texts, _who: gone.extend(texts))
    again = await world.connected(**options)
    assert ["secret"] == gone
    (answer,) = await again.ask(Unsubscribe(3, (f"{share}secret", f"{share}many")))
    assert (Reason.NO_SUBSCRIPTION_EXISTED, Reason.SUCCESS) == answer.reasons


async def test_a_subscribe_waits_for_the_clients_writes_that_wait_for_a_hook(world):
    """MQTT-3.3.1-8 of 3.1.1: what it retained before is current, not live."""

    class Thoughtful(Hook):
        async def on_publish(self, caller, event):
            await asyncio.sleep(0)

    world.kernel.hooks.add(Thoughtful())
    peer = await world.connected()
    peer.publish("a", b"x", 1, retain=True)
    peer.send(Subscribe(7, (Subscription("a", 1),)))
    packets = [packet for packet in await peer.hear() if type(packet).__name__ == "Publish"]
    assert [(b"x", True)] == [(packet.payload, packet.retain) for packet in packets]


# -- publishing ------------------------------------------------------------------------------------


class Guard(Hook):
    def on_publish(self, caller, event):
        if event.topic == "secret":
            raise Error(Code.DENIED, "no")
        if event.topic == "fast":
            raise Error(Code.BUSY, "slow down", rate=True)
        if event.topic == "named":
            raise Refusal(0x99, "not this")
        if event.topic == "odd":
            raise Refusal(0x8A, "no reason of a PUBACK")

    def on_publish_received(self, caller, event):
        return DROP if event.topic == "noise" else None


@pytest.mark.parametrize("qos", [1, 2])
async def test_g5_g7_a_publish_gets_the_hooks_answer(world, qos):
    world.kernel.hooks.add(Guard())
    reader = await world.subscribed("#", qos=2)
    peer = await world.connected()
    expected = {
        "secret": Reason.NOT_AUTHORIZED,
        "fast": Reason.QUOTA_EXCEEDED,
        "named": Reason.PAYLOAD_FORMAT_INVALID,
        "odd": Reason.NOT_AUTHORIZED,
        "noise": Reason.SUCCESS,
    }
    for number, (topic, reason) in enumerate(expected.items(), 1):
        peer.publish(topic, b"x", qos, packet_id=number)
        (answer,) = await peer.hear()
        assert (number, reason) == (answer.packet_id, answer.reason)
    assert [] == await reader.hear()


async def test_g5_g7_a_will_passes_the_hooks_too(world):
    world.kernel.hooks.add(Guard())
    reader = await world.subscribed("#", qos=1)
    for topic in ("secret", "noise", "plain"):
        peer = await world.connected("w", will=Will(topic, b"gone", 1))
        peer.lose()
    await world.turn()
    assert ["plain"] == [packet.topic for packet in await reader.hear()]
    assert [] == world.store.states("will/")


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_publish_that_is_sent_again_waits_for_the_hook_too(world, elsewhere):
    """D16: PUBREC before the first is stored would let its client forget it."""
    thought = asyncio.Event()

    class Slow(Hook):
        async def on_publish(self, caller, event):
            await thought.wait()

    world.kernel.hooks.add(Slow())
    lasting = {"clean_start": False, "properties": {"session_expiry_interval": 3600}}
    peer = await world.connected("c", **lasting)
    assert [] == await peer.ask(Publish("a", b"once", 2, False, False, 5, None))
    if elsewhere:
        peer = await world.connected("c", **lasting)
    assert [] == await peer.ask(Publish("a", b"once", 2, False, True, 5, None))
    thought.set()
    assert {5} == {packet.packet_id for packet in await peer.hear()}
    assert 1 == len(world.store.read(0, 10))


async def test_a_will_that_waits_for_a_hook_takes_no_later_one_with_it(world):
    """MQTT-3.1.2-8: its client is back with another will, and both are published, over a kill."""
    thought = asyncio.Event()
    lasting = {"clean_start": False, "properties": {"session_expiry_interval": 3600}}

    class Slow(Hook):
        async def on_publish(self, caller, event):
            await thought.wait()

    world.kernel.hooks.add(Slow())
    reader = await world.subscribed("w", qos=1)
    first = await world.connected("c", will=Will("w", b"first", 1), **lasting)
    first.lose()
    await world.turn()
    await world.connected("c", will=Will("w", b"second", 1), **lasting)
    thought.set()
    assert [b"first"] == payloads(await reader.hear())
    there = await world.killed()
    await there.turn()
    assert [] == there.store.states("will/")
    assert 1 == there.broker.wills.sent
