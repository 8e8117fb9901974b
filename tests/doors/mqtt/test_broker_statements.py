"""Normative statements that no other test of the broker is about (D60; tests/mqtt/statements.py).

Each holds before MQTT 5 as well, unless its name or the words in its docstring say otherwise.
"""

import pytest

from mqtt_server import (
    VERSIONS,
    Connack,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    payloads,
    topics,
    users,
)
from rowcast.core.limits import MQTT_TOPIC_ALIAS_MAXIMUM
from rowcast.doors.mqtt.packets.error_reasons import PUBACK_REASONS, SUBACK_REASONS
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect
from rowcast.mqtt.reasons import REASONS, PacketType

EVERY = pytest.mark.parametrize("version", VERSIONS)
LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def retained(packets):
    return [(item.payload, item.retain) for item in packets if isinstance(item, Publish)]


# -- strings and identifiers ---------------------------------------------------------------------


@EVERY
async def test_a_byte_order_mark_is_kept(world, version):
    """MQTT-1.5.4-3: it is neither stripped nor the same as nothing."""
    peer = await world.subscribed("\ufeffa", version=version)
    peer.publish("a", b"without")
    peer.publish("\ufeffa", b"with")
    assert [("\ufeffa", b"with")] == [(it.topic, it.payload) for it in await peer.hear()]


@EVERY
@pytest.mark.parametrize("name", ["a", LETTERS[:23], LETTERS[23:46], LETTERS[-23:]])
async def test_identifiers_that_every_server_takes(world, version, name):
    """MQTT-3.1.3-5."""
    peer = await world.connected(name, version)
    assert (name, False) == (peer.client.name, peer.closed)


@EVERY
async def test_answers_carry_the_identifier_of_the_request(world, version):
    """MQTT-2.2.1-6, MQTT-3.8.4-1, MQTT-3.8.4-2, MQTT-3.10.4-4, MQTT-3.10.4-5."""
    peer = await world.connected(version=version)
    wanted = (Subscription("a"),)
    answers = await peer.ask(
        Subscribe(65_535, wanted), Subscribe(1, wanted), Unsubscribe(300, ("a",)),
        Unsubscribe(2, ("never",)),
    )  # fmt: skip
    assert [(Suback, 65_535), (Suback, 1), (Unsuback, 300), (Unsuback, 2)] == [
        (type(answer), answer.packet_id) for answer in answers
    ]


# -- CONNECT -------------------------------------------------------------------------------------


@EVERY
async def test_nothing_is_processed_after_a_refusal(world, version):
    """MQTT-3.1.4-6: what came in the same bytes as the CONNECT that is refused."""
    watcher = await world.subscribed("#")
    stranger = world.peer(version, peer="192.0.2.1")
    stranger.send(
        Connect(version, "c"), Publish("a", b"x"), Subscribe(1, (Subscription("#"),)), Pingreq()
    )
    (answer,) = await stranger.hear()
    assert (Connack, True) == (type(answer), stranger.closed)
    assert ([], {watcher.client}) == (await watcher.hear(), world.broker.clients)


@EVERY
async def test_without_a_will_nothing_is_published(world, version):
    """MQTT-3.1.2-12 of 3.1.1."""
    watcher = await world.subscribed("#")
    (await world.connected(version=version)).lose()
    assert [] == await watcher.hear()


@EVERY
async def test_what_is_retained_outlives_its_session(world, version):
    """MQTT-3.1.2-7 of 3.1.1."""
    peer = await world.connected(version=version)
    peer.publish("a", b"x", 1, retain=True)
    await peer.ask(Disconnect())
    assert [(b"x", True)] == retained((await world.subscribed("a")).later)


# -- PUBLISH -------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("qos", [0, 1])
async def test_dup_is_not_passed_on(world, version, qos):
    """MQTT-3.3.1-3: with QoS 0 it cannot even be set (MQTT-3.3.1-2)."""
    reader = await world.subscribed("a", version=version, qos=qos)
    peer = await world.connected(version=version)
    peer.send(Publish("a", b"x", 1, dup=True, packet_id=9))
    assert [(qos, False)] == [(item.qos, item.dup) for item in await reader.hear()]


@EVERY
@pytest.mark.parametrize("published", [0, 1])
@pytest.mark.parametrize("granted", [0, 1])
async def test_the_lesser_qos_of_a_live_message(world, version, published, granted):
    """MQTT-3.8.4-8, MQTT-4.3.1-1, MQTT-4.3.2-2: and DUP is 0, for it is sent the first time."""
    reader = await world.subscribed("a", version=version, qos=granted)
    peer = await world.connected(version=version)
    peer.publish("a", b"x", published)
    (message,) = await reader.hear()
    lesser = min(published, granted)
    assert (lesser, False, bool(lesser)) == (message.qos, message.dup, message.packet_id > 0)


@EVERY
async def test_an_identifier_after_puback_is_a_new_message(world, version):
    """MQTT-4.3.2-5: with DUP or without."""
    reader = await world.subscribed("a", version=version)
    peer = await world.connected(version=version)
    for payload, dup in ((b"1", False), (b"2", True), (b"3", False)):
        answer = await peer.ask(Publish("a", payload, 1, dup=dup, packet_id=5))
        assert [Puback(5)] == answer
    assert [b"1", b"2", b"3"] == payloads(await reader.hear())


@EVERY
async def test_an_empty_retained_message_is_passed_on_and_not_kept(world, version):
    """MQTT-3.3.1-6, MQTT-3.3.1-7; MQTT-3.3.1-10 and -11 of 3.1.1."""
    peer = await world.subscribed("a", version=version)
    peer.publish("a", b"x", retain=True)
    peer.publish("a", b"", retain=True)
    peer.publish("b", b"", retain=True)
    assert [b"x", b""] == payloads(await peer.hear())
    assert [] == (await world.subscribed("a", "b", client_id="late", version=version)).later


@EVERY
async def test_a_retained_message_of_qos_0_takes_the_place_of_another(world, version):
    """MQTT-3.3.1-7 of 3.1.1."""
    peer = await world.connected(version=version)
    peer.publish("a", b"1", 1, retain=True)
    peer.publish("a", b"0", 0, retain=True)
    await peer.hear()
    assert [(b"0", True)] == retained((await world.subscribed("a", qos=1)).later)


async def test_every_alias_up_to_the_maximum_is_taken(world):
    """MQTT-3.3.2-12."""
    reader = await world.subscribed("#")
    peer = await world.connected()
    numbers = range(1, MQTT_TOPIC_ALIAS_MAXIMUM + 1)
    for number in numbers:
        peer.publish(f"t{number}", topic_alias=number)
    for number in numbers:
        peer.publish("", topic_alias=number)
    assert [f"t{number}" for number in numbers] * 2 == topics(await reader.hear())


# -- the window ----------------------------------------------------------------------------------


@EVERY
async def test_a_full_window_delays_no_other_packet(world, version):
    """MQTT-3.3.4-10, MQTT-4.9.0-3: only messages wait."""
    maximum = {"receive_maximum": 1} if version == 5 else None
    peer = await world.subscribed("a", version=version, qos=1, connect={"properties": maximum})
    for _ in range(2):
        await world.say("a", b"")
    assert len(await peer.hear()) == (1 if version == 5 else 2)
    answers = await peer.ask(
        Pingreq(),
        Subscribe(2, (Subscription("b"),)),
        Publish("other", b"", 1, packet_id=3),
        Unsubscribe(4, ("b",)),
    )
    assert {Pingresp, Suback, Puback, Unsuback} == {type(answer) for answer in answers}


@EVERY
async def test_what_was_begun_is_completed_after_unsubscribe(world, version):
    """MQTT-3.10.4-2, MQTT-3.10.4-3: what is in flight stays there; nothing is added."""
    peer = await world.subscribed("a", version=version, qos=1)
    await world.say("a", b"before")
    (flying,) = await peer.hear()
    await peer.ask(Unsubscribe(1, ("a",)))
    await world.say("a", b"after")
    assert ([], 1) == (await peer.hear(), len(peer.client.session.window))
    assert ([], 0) == (
        await peer.ask(Puback(flying.packet_id)),
        len(peer.client.session.window),
    )


# -- several filters -----------------------------------------------------------------------------


@EVERY
async def test_several_filters_are_as_several_subscribes(world, version):
    """MQTT-3.8.4-5, MQTT-3.8.4-6, MQTT-3.9.3-1: also twice the same one; the last one counts."""
    await world.put("Dog/1", b"{}")
    peer = await world.connected(version=version)
    wanted = [("Dog/1", 1), ("a/#/b", 0), ("x", 0), ("a", 0), ("x", 1)]
    answer, *records = await peer.ask(
        Subscribe(7, tuple(Subscription(text, qos) for text, qos in wanted))
    )
    refused = 0x8F if version == 5 else 0x80
    assert (1, refused, 0, 0, 1) == answer.reasons
    assert [(b"{}", True)] == retained(records)
    for topic in ("a", "x"):
        await world.say(topic, b"")
    assert [("a", 0), ("x", 1)] == [(item.topic, item.qos) for item in await peer.hear()]


@EVERY
async def test_several_filters_end_with_one_answer(world, version):
    """MQTT-3.10.4-6, MQTT-3.11.3-1."""
    peer = await world.subscribed("a", "b", version=version)
    (answer,) = await peer.ask(Unsubscribe(3, ("b", "never", "a", "a")))
    assert answer.reasons == ((0, 0x11, 0, 0x11) if version == 5 else ())
    for topic in ("a", "b"):
        await world.say(topic, b"")
    assert [] == await peer.hear()


@EVERY
async def test_a_filter_ends_only_itself(world, version):
    """MQTT-3.10.4-1: what it matches besides stays."""
    peer = await world.subscribed("a/+", "a/b", "A/b", version=version)
    await peer.ask(Unsubscribe(1, ("a/#", "a/b/", "A/B", "a/b")))
    for topic in ("a/b", "A/b"):
        await world.say(topic, b"")
    assert ["a/b", "A/b"] == topics(await peer.hear())


# -- reasons -------------------------------------------------------------------------------------


def test_reasons_are_those_of_the_packet():
    """MQTT-3.4.2-1, MQTT-3.5.2-1, MQTT-3.9.3-2: of all that the kernel may refuse with.

    Every other reason that is sent is read back by these tests, whose client refuses a wrong one.
    """
    for kind in (PacketType.PUBACK, PacketType.PUBREC):
        assert set(PUBACK_REASONS.values()) <= set(REASONS[kind].values())
    assert set(SUBACK_REASONS.values()) <= set(REASONS[PacketType.SUBACK].values())


async def test_unsuback_says_no_more_than_it_must(world):
    """MQTT-3.11.2-1, MQTT-3.11.2-2: neither a Reason String nor a user property."""
    peer = await world.subscribed("a")
    answers = await peer.ask(Unsubscribe(1, ("a", "a/#/b", "b"), users(("k", "v"))))
    assert [Unsuback(1, (0, 0x8F, 0x11))] == answers


@pytest.mark.parametrize(("size", "words"), [(47, True), (46, False)])
async def test_disconnect_is_cut_to_what_the_client_takes(world, size, words):
    """MQTT-3.14.2-3, MQTT-3.14.2-4: no Reason String over the Maximum Packet Size."""
    peer = await world.connected(properties={"maximum_packet_size": size})
    peer.client.disconnect(0x98, "a sentence of forty characters in all ok")
    (answer,) = await peer.hear()
    assert (0x98, words) == (answer.reason, bool(answer.properties))
    assert (len(encode(answer, 5)) <= size, peer.closed) == (True, True)


@pytest.mark.parametrize("qos", [1, 2])
async def test_an_answer_says_no_more_than_its_reason_if_no_more_is_wanted(world, qos):
    """MQTT-3.1.2-29 of MQTT 5: also of a write that came late, and changed nothing."""
    peer = await world.connected(properties={"request_problem_information": 0})
    answers = []
    for number in (2, 1):
        stamp = ("rowcast-version", f"160000000000000{number}")
        peer.publish("a/b", b"x", qos, True, number, **users(stamp))
        answers += await peer.hear()
    assert [(2, 0, None), (1, 0, None)] == [
        (item.packet_id, item.reason, item.properties) for item in answers
    ]
