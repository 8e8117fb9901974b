"""Normative statements about sessions and QoS 2 that no other test is about (D60)."""

import pytest

from mqtt_server import (
    VERSIONS,
    Connack,
    Connect,
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Unsuback,
    payloads,
    topics,
    user,
)
from rowcast.doors.mqtt.delivery.outgoing import fitted
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Auth
from rowcast.mqtt.reasons import Reason

HOUR = {"session_expiry_interval": 3600}
DURABLE = pytest.mark.parametrize("version", [4, 5])


async def durable(world, client_id, version=5, clean_start=False):
    """Return a connection whose session outlives it, and its CONNACK."""
    peer = world.peer(version)
    connack = await peer.connect(
        client_id, clean_start=clean_start, properties=HOUR if version == 5 else None
    )
    return peer, connack


# -- CONNECT and CONNACK -------------------------------------------------------------------------


@DURABLE
async def test_session_present(world, version):
    """MQTT-3.2.2-2, MQTT-3.2.2-3, MQTT-3.1.2-6, MQTT-3.1.4-4: there, or begun now."""
    seen = []
    for clean_start in (False, False, True, True):
        if version == 4 and clean_start:  # before MQTT 5 the flag also says how long it lasts
            peer, connack = await durable(world, "s", version, clean_start=True)
        else:
            peer, connack = await durable(world, "s", version, clean_start)
        seen.append(connack.session_present)
        assert world.broker.sessions.get("s").client is peer.client
        peer.lose()
    assert [False, True, False, False] == seen


async def test_before_3_1_1_nobody_is_told(world):
    """MQTT 3.1, 3.2: the session goes on, though CONNACK has no word for it."""
    peer, _ = await durable(world, "s", 3)
    await peer.subscribe("a", qos=1)
    peer.lose()
    await world.say("a", b"x")
    again, connack = await durable(world, "s", 3)
    assert ([b"x"], False) == (payloads(again.later), connack.session_present)


@pytest.mark.parametrize(("asked", "told"), [({}, False), (0, False), (1, True)])
async def test_response_information_is_given_when_asked_for(world, asked, told):
    """MQTT-3.1.2-28."""
    properties = {"request_response_information": asked} if asked != {} else None
    connack = await world.peer().connect("c", properties=properties)
    assert told == ("response_information" in connack.properties)


@pytest.mark.parametrize("version", [4, 5])
async def test_no_disconnect_before_connack(world, version):
    """MQTT-3.14.0-1: who is taken over, or stopped, while the disk keeps CONNACK waiting."""
    world.writer.hold()
    first, second = world.peer(version), world.peer(version)
    properties = HOUR if version == 5 else None
    first.send(Connect(version, "s", clean_start=False, properties=properties))
    assert [] == await first.hear()
    second.send(Connect(version, "s", clean_start=False, properties=properties))
    assert ([], True) == (await first.hear(), first.closed)
    second.client.disconnect(Reason.SERVER_SHUTTING_DOWN, "the server is shutting down")
    assert ([], True) == (await second.hear(), second.closed)
    world.writer.release()
    await world.turn()


# -- every session -------------------------------------------------------------------------------


@DURABLE
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_message_is_added_to_every_session_that_wants_it(world, version, qos):
    """MQTT-4.5.0-1, MQTT-3.1.2-5 of 3.1.1: connected or not, and to no other."""
    names = {"near": "a/+", "away": "a/b", "other": "b"}
    peers = {name: (await durable(world, name, version))[0] for name in names}
    for name, peer in peers.items():
        await peer.subscribe(names[name], qos=2)
    peers.pop("away").lose()
    publisher = await world.connected("p", version)
    await publisher.ask(Publish("a/b", b"x", qos, packet_id=1))
    heard = {name: topics(await peer.hear()) for name, peer in peers.items()}
    again, _ = await durable(world, "away", version)
    assert {"near": ["a/b"], "other": [], "away": ["a/b"]} == heard | {
        "away": topics([*again.later, *await again.hear()])
    }


# -- QoS 2 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_answer_carries_the_identifier(world, version):
    """MQTT-2.2.1-5, MQTT-2.3.1-6 of 3.1.1, MQTT-3.3.4-1: both ways, several at once."""
    reader = await world.subscribed("a", version=version, qos=2)
    peer = await world.connected("p", version)
    one, two = Publish("a", b"1", 1, packet_id=65_535), Publish("a", b"2", 2, packet_id=9)
    assert [Puback(65_535), Pubrec(9)] == await peer.ask(one, two)
    assert [Pubcomp(9)] == await peer.ask(Pubrel(9))
    first, second = await reader.hear()
    assert [Pubrel(second.packet_id)] == await reader.ask(
        Puback(first.packet_id), Pubrec(second.packet_id)
    )


async def test_pubrecs_keep_the_order_of_the_publishes(world):
    """MQTT-4.6.0-3: a refusal is known at once, and still waits for the commit before it."""
    peer = await world.connected("p")
    world.writer.hold()
    peer.publish("Dog/1", b'{"age":1}', 2, True, 7)
    peer.publish("Strict/1", b"no object", 2, True, 3)
    peer.publish("Dog/2", b'{"age":2}', 2, True, 5)
    assert [] == await peer.hear()
    world.writer.release()
    assert [(7, 0), (3, 0x99), (5, 0)] == [
        (answer.packet_id, answer.reason) for answer in await peer.hear()
    ]


@pytest.mark.parametrize(("size", "whole"), [(23, False), (200, True)])
async def test_pubrec_is_cut_to_what_the_client_takes(world, size, whole):
    """MQTT-3.5.2-2, MQTT-3.5.2-3: neither Reason String nor user property over the limit."""
    peer = await world.connected("p", properties={"maximum_packet_size": size})
    peer.publish("Dog/1", b'{"age":1}', 2, True, 1)
    peer.publish("Strict/1", b"no object", 2, True, 2)
    stored, refused = await peer.hear()
    assert [whole, whole] == [bool(stored.properties), bool(refused.properties)]
    assert (1, 0x99) == (stored.packet_id, refused.reason)
    assert user(stored, "seq") == (world.cursor(1) if whole else None)


async def test_pubrel_and_pubcomp_say_no_more_than_they_must(world):
    """MQTT-3.6.2-2 and -3, MQTT-3.7.2-2 and -3: no properties at all, so none are too many."""
    peer = await world.subscribed("a", qos=2)
    publisher = await world.connected("p")
    await publisher.ask(Publish("a", b"", 2, packet_id=1))
    answers = await publisher.ask(Pubrel(1), Pubrel(2))
    (message,) = await peer.hear()
    answers += await peer.ask(Pubrec(message.packet_id), Pubrec(999))
    assert [Pubcomp(1), Pubcomp(2, 0x92), Pubrel(message.packet_id), Pubrel(999, 0x92)] == answers


async def test_what_was_sent_does_not_expire(world):
    """MQTT-4.3.3-7: it is completed on the next connection, though its time is over."""
    peer, _ = await durable(world, "s")
    await peer.subscribe("a", qos=2)
    publisher = await world.connected("p")
    publisher.publish("a", b"x", 2, packet_id=1, message_expiry_interval=10)
    (first,) = await peer.hear()
    peer.lose()
    await world.pass_time(60)
    again, _ = await durable(world, "s")
    (message,) = [*again.later, *await again.hear()]
    assert (first.packet_id, True, b"x") == (message.packet_id, message.dup, message.payload)
    assert [Pubrel(message.packet_id)] == await again.ask(Pubrec(message.packet_id))


async def test_what_expired_is_answered_to_its_end(world):
    """MQTT-4.3.3-13: PUBREL is answered, and the identifier is the same message until then."""
    peer, _ = await durable(world, "s")
    await peer.subscribe("a", qos=2)
    peer.lose()
    publisher = await world.connected("p")
    sent = Publish("a", b"x", 2, packet_id=1, properties={"message_expiry_interval": 1})
    answers = await publisher.ask(sent)
    await world.pass_time(5)
    answers += await publisher.ask(sent)
    answers += await publisher.ask(Pubrel(1))
    assert [Pubrec, Pubrec, Pubcomp] == [type(answer) for answer in answers]
    assert {(1, 0)} == {(answer.packet_id, answer.reason) for answer in answers}
    again, _ = await durable(world, "s")
    assert [] == payloads([*again.later, *await again.hear()])


async def test_nothing_is_sent_again_on_a_living_connection(world):
    """MQTT-4.4.0-1: at no other time than when a session goes on, however long it takes."""
    peer, _ = await durable(world, "s")
    await peer.subscribe("a", qos=2)
    publisher = await world.connected("p")
    for number in (1, 2):
        publisher.publish("a", b"", number, packet_id=number)
    assert 2 == len(payloads(await peer.hear()))
    await world.pass_time(86_400)
    assert [] == await peer.hear()


async def test_a_second_connect_does_not_touch_the_session(world):
    """MQTT-3.1.0-2, MQTT-3.1.4-6: not even one with Clean Start."""
    peer, _ = await durable(world, "s")
    await peer.subscribe("a", qos=1)
    peer.send(Connect(5, "s", clean_start=True))
    await peer.hear()
    _, connack = await durable(world, "s")
    assert (True, True) == (peer.closed, connack.session_present)


# -- size ----------------------------------------------------------------------------------------

WORDS = {"reason_string": "a sentence", "user_property": (("k", "v"),)}
METHOD = {"authentication_method": "m"}
ANSWERS = [
    (Connack, (False, Reason.NOT_AUTHORIZED), {"server_keep_alive": 9}),
    *((make, (1, Reason.SUCCESS), {}) for make in (Puback, Pubrec, Pubrel, Pubcomp)),
    (Suback, (1, (Reason.SUCCESS,)), {}),
    (Unsuback, (1, (Reason.SUCCESS,)), {}),
    (Disconnect, (Reason.SERVER_BUSY,), {"server_reference": "elsewhere"}),
    (Auth, (Reason.CONTINUE_AUTHENTICATION,), METHOD),
]


@pytest.mark.parametrize(("make", "said", "needed"), ANSWERS, ids=lambda item: str(item)[:40])
def test_words_are_left_out_of_what_would_be_too_large(make, said, needed):
    """MQTT-3.15.2-2, MQTT-3.15.2-3 and their like: what is needed stays, whatever its size."""
    whole = encode(make(*said, {**needed, **WORDS}), 5)
    bare = encode(make(*said, needed or None), 5)
    packet = make(*said, {**needed, **WORDS})
    assert fitted(packet, 5, 0) == fitted(packet, 5, len(whole)) == whole
    assert fitted(packet, 5, len(whole) - 1) == fitted(packet, 5, 1) == bare
