"""PUBLISH and PUBACK: what is acknowledged, when, and with which words."""

import pytest

from mqtt_server import (
    EPOCH,
    OTHER,
    VERSIONS,
    MqttServer,
    Puback,
    Publish,
    payloads,
    user,
    users,
)
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event
from rowcast.core.limits import COMMIT_BACKLOG_EVENTS_HIGH
from rowcast.core.memory_limits import COMMIT_CLIENT_BYTES_HIGH, MQTT_HELD_BYTES_HIGH
from rowcast.mqtt.packets import Pubrec, Subscribe, Subscription
from rowcast.mqtt.reasons import Reason

ACKNOWLEDGED = Puback(1)


async def value_at(world, topic):
    record = await world.kernel.read(topic, OTHER)
    return record.payload


# -- acknowledgements ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_qos_0_and_1_on_an_open_topic(world, version):
    """D14, D15: an unlogged message is announced and acknowledged at once, without a position."""
    watcher = await world.subscribed("a/b", version=version, qos=1)
    peer = await world.connected(version=version)
    peer.publish("a/b", b"0")
    peer.publish("a/b", b"1", qos=1)
    assert [ACKNOWLEDGED] == await peer.hear()
    assert [(b"0", 0), (b"1", 1)] == [(item.payload, item.qos) for item in watcher.heard()]


@pytest.mark.parametrize("version", VERSIONS)
async def test_puback_only_after_the_commit(world, version):
    """D15, X9: nothing is said and nothing is announced while the disk writes."""
    watcher = await world.subscribed("Dog/#", version=version)
    peer = await world.connected(version=version)
    world.writer.hold()
    peer.publish("Dog/1", b'{"name":"Rex"}', qos=1, retain=True)
    assert ([], []) == (await peer.hear(), watcher.heard())
    world.writer.release()
    assert [1] == [packet.packet_id for packet in await peer.hear()]
    assert [b'{"name":"Rex"}'] == payloads(watcher.heard())


async def test_puback_tells_the_cursor(world):
    """D51, M1: the token that every other door gives."""
    peer = await world.connected()
    peer.publish("Dog/1", b'{"name":"Rex"}', qos=1, retain=True)
    (puback,) = await peer.hear()
    record = await world.kernel.read("Dog/1", OTHER)
    assert f"{EPOCH}:{record.seq}" == user(puback, "seq") == world.kernel.cursor(record.seq)


async def test_puback_is_cut_to_what_the_client_takes(world):
    """MQTT-3.4.2-2, MQTT-3.4.2-3, MQTT-3.1.2-24."""
    peer = await world.connected(properties={"maximum_packet_size": 23})
    peer.publish("Dog/1", b'{"name":"Rex"}', qos=1, retain=True)
    peer.publish("Dog/1", b"not json", qos=1, retain=True, packet_id=2)
    expected = [Puback(1), Puback(2, Reason.PAYLOAD_FORMAT_INVALID)]
    assert expected == await peer.hear()


async def test_problem_information_0_leaves_puback_bare(world):
    """MQTT-3.1.2-29: no user property and no reason string but on PUBLISH, CONNACK, DISCONNECT."""
    peer = await world.connected(properties={"request_problem_information": 0})
    peer.publish("Dog/1", b'{"name":"Rex"}', qos=1, retain=True)
    peer.publish("Dog/1", b"not json", qos=1, retain=True, packet_id=2)
    expected = [Puback(1), Puback(2, Reason.PAYLOAD_FORMAT_INVALID)]
    assert expected == await peer.hear()


async def test_pubacks_keep_the_order_of_the_publishes(world):
    """MQTT-4.6.0-2: a refusal is known at once, and still waits for the commit before it."""
    peer = await world.connected()
    world.writer.hold()
    peer.publish("Dog/1", b"{}", qos=1, retain=True, packet_id=11)
    peer.publish("Dog/2", b"not json", qos=1, retain=True, packet_id=12)
    peer.publish("open", b"x", qos=1, packet_id=13)
    peer.publish("$mine", b"x", qos=1, packet_id=14)
    assert [] == await peer.hear()
    world.writer.release()
    assert [11, 12, 13, 14] == [packet.packet_id for packet in await peer.hear()]
    assert (4, 4, {}) == (peer.client.taken, peer.client.answered, peer.client.early)


async def test_messages_keep_the_order_of_one_client(world):
    """MQTT-4.6.0-5: what is not logged waits for the commit of what came before it."""
    watcher = await world.subscribed("#")
    peer = await world.connected()
    world.writer.hold()
    peer.publish("Dog/1", b'{"age":1}', qos=1, retain=True)
    peer.publish("open", b"2")
    assert [] == await watcher.hear()
    world.writer.release()
    assert [b'{"age":1}', b"2"] == payloads(await watcher.hear())


async def test_a_failed_commit_is_told_in_five(world):
    """Bad input, X9: 0x97, and nothing is announced."""
    watcher = await world.subscribed("#", qos=1)
    peer = await world.connected()
    world.store.fault = full_disk
    peer.publish("Dog/1", b"{}", qos=1, retain=True)
    (puback,) = await peer.hear()
    assert (Reason.QUOTA_EXCEEDED, []) == (puback.reason, watcher.heard())
    assert "disk" in puback.properties["reason_string"]
    world.store.fault = None
    peer.publish("Dog/1", b"{}", qos=1, retain=True)
    assert [Reason.SUCCESS] == [packet.reason for packet in await peer.hear()]


@pytest.mark.parametrize("version", [3, 4])
async def test_a_failed_commit_is_not_acknowledged_before_five(world, version):
    """Bad input: closed without PUBACK, so that the client sends it again."""
    watcher = await world.subscribed("#")
    peer = await world.connected(version=version)
    world.store.fault = full_disk
    peer.publish("Dog/1", b"{}", qos=1, retain=True)
    peer.publish("Dog/2", b"{}", qos=1, retain=True, packet_id=2)
    assert ([], True, []) == (await peer.hear(), peer.closed, await watcher.hear())


def full_disk(_what):
    raise Error(Code.BUSY, "the disk is full")


async def test_an_answer_to_a_client_that_is_gone(world):
    """The commit outlives the connection; a new one of the same name hears nothing of it."""
    peer = await world.connected("same")
    world.writer.hold()
    peer.publish("Dog/1", b"{}", qos=1, retain=True)
    peer.lose()
    again = await world.connected("same")
    world.writer.release()
    assert ([], b"{}") == (await again.hear(), await value_at(world, "Dog/1"))


# -- the three meanings --------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topic", ["Dog/1", "open/topic"])
async def test_retained_put_message_delete(world, version, topic):
    """D48, D49, D50."""
    peer = await world.connected(version=version)
    peer.publish(topic, b'{"age":1}', qos=1, retain=True)
    await peer.hear()
    assert b'{"age":1}' == await value_at(world, topic)
    peer.publish(topic, b'{"age":2}', qos=1)
    await peer.hear()
    assert b'{"age":1}' == await value_at(world, topic)
    peer.publish(topic, b"", qos=1, retain=True)
    await peer.hear()
    with pytest.raises(Error) as caught:
        await value_at(world, topic)
    assert Code.NOT_FOUND == caught.value.code


@pytest.mark.parametrize("payload", [b"\x00\xff", b"", b"text", b"{broken"])
async def test_open_topics_give_back_the_same_bytes(world, payload):
    """A18, D49."""
    watcher = await world.subscribed("any/#")
    peer = await world.connected()
    peer.publish("any/x", payload, content_type="application/x-mine")
    (message,) = await watcher.hear()
    told = {"content_type": "application/x-mine"}
    assert (payload, told) == (message.payload, message.properties)


async def test_the_content_type_of_an_empty_retained_message_is_passed_on(world):
    """MQTT-3.3.2-20: it removes the retained value, and is a message like others."""
    peer = await world.connected()
    await peer.subscribe("any/#", qos=1)
    given = {"content_type": "text/x", "payload_format_indicator": 1}
    peer.publish("any/x", b"1", qos=1, retain=True, packet_id=1, **given)
    peer.publish("any/x", b"", qos=1, retain=True, packet_id=2, **given)
    heard = [item for item in await peer.hear() if isinstance(item, Publish)]
    assert [(b"1", given), (b"", given)] == [(item.payload, item.properties) for item in heard]


# -- refusals ------------------------------------------------------------------------------------

REFUSED = {
    "malformed": ("Dog/1", b"{", {}, Reason.PAYLOAD_FORMAT_INVALID, "JSON"),
    "wrong type": ("Dog/1", b'{"age":"old"}', {}, Reason.PAYLOAD_FORMAT_INVALID, "age"),
    "missing": ("Strict/1", b"{}", {}, Reason.PAYLOAD_FORMAT_INVALID, "name"),
    "media type": (
        "Dog/1", b"x", {"content_type": "image/png"}, Reason.PAYLOAD_FORMAT_INVALID, "image/png",
    ),
    "whole table": ("Dog", b"{}", {}, Reason.TOPIC_NAME_INVALID, "record"),
    "server's own": ("$SYS/x", b"{}", {}, Reason.NOT_AUTHORIZED, "$"),
    "hidden": ("Secret/1", b"{}", {}, Reason.TOPIC_NAME_INVALID, "not offered"),
    "if-match": (
        "Dog/1", b"{}", users(("if-match", "yesterday")), Reason.PAYLOAD_FORMAT_INVALID, "cursor",
    ),
    "too many": (
        "Dog/1", b"{}", users(("if-match", f"{EPOCH}:1," * 65)), Reason.PAYLOAD_FORMAT_INVALID,
        "if-match",
    ),
    "if-none-match": (
        "Dog/1", b"{}", users(("if-none-match", f"{EPOCH}:1")), Reason.PAYLOAD_FORMAT_INVALID,
        "if-none-match is *",
    ),
    "both": (
        "Dog/1", b"{}", users(("if-none-match", "*"), ("if-match", "*")),
        Reason.PAYLOAD_FORMAT_INVALID, "does not go with if-match",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refusal_names_the_rule(world, name):
    """D43, A15: the reason, and a sentence; the session goes on."""
    topic, payload, properties, reason, word = REFUSED[name]
    peer = await world.connected()
    peer.publish(topic, payload, qos=1, retain=True, **properties)
    (puback,) = await peer.hear()
    assert (reason, False) == (puback.reason, peer.closed)
    assert word in puback.properties["reason_string"]


@pytest.mark.parametrize("version", [3, 4])
async def test_a_refusal_before_five_is_acknowledged_and_counted(world, version):
    """D43: there is no reason in PUBACK, and the session goes on."""
    peer = await world.connected(version=version)
    peer.publish("Dog/1", b"{", qos=1, retain=True)
    assert [ACKNOWLEDGED] == await peer.hear()
    assert (1, 1) == (peer.client.refused, world.broker.refusals)


async def test_a_refusal_of_qos_0_is_counted(world):
    peer = await world.connected()
    peer.publish("Dog/1", b"{")
    peer.publish("Dog/1", b"{}", **users(("if-match", "?")))
    assert ([], 2, False) == (await peer.hear(), peer.client.refused, peer.closed)


async def test_pubrec_for_qos_1_is_a_violation(world):
    """MQTT-4.3.2-2: a PUBLISH of QoS 1 is answered with PUBACK."""
    peer = await world.subscribed("a", qos=1)
    await world.say("a", b"x")
    (message,) = await peer.hear()
    (answer,) = await peer.ask(Pubrec(message.packet_id))
    assert Reason.PROTOCOL_ERROR == answer.reason


# -- conditions ----------------------------------------------------------------------------------


async def puts(peer, *conditions):
    """Put Dog/1 once for each if-match; return the pubacks."""
    for number, text in enumerate(conditions, 1):
        given = users(("if-match", text)) if text else {}
        peer.publish("Dog/1", b"{}", qos=1, retain=True, packet_id=number, **given)
    return await peer.hear()


async def test_if_match_with_the_current_cursor(world):
    """A16."""
    peer = await world.connected()
    (first,) = await puts(peer, None)
    (second,) = await puts(peer, user(first, "seq"))
    assert Reason.SUCCESS == second.reason


async def test_if_none_match_is_spelled_as_in_http(world):
    """A16: it is not ignored."""
    peer = await world.connected()
    for number in (1, 2):
        peer.publish(
            "Dog/1", b"{}", qos=1, retain=True, packet_id=number, **users(("if-none-match", "*"))
        )
    first, second = await peer.hear()
    assert (Reason.SUCCESS, Reason.QUOTA_EXCEEDED) == (first.reason, second.reason)


async def test_the_loser_hears_the_current_cursor(world):
    """A16: 0x97 and what it needs to try again."""
    peer = await world.connected()
    first, second = await puts(peer, None, None)
    (loser,) = await puts(peer, user(first, "seq"))
    assert (Reason.QUOTA_EXCEEDED, user(second, "seq")) == (loser.reason, user(loser, "seq"))
    assert "changed" in loser.properties["reason_string"]


async def test_a_cursor_of_another_log_matches_nothing(world):
    """A16, M1: its number may be the same by chance."""
    peer = await world.connected()
    (first,) = await puts(peer, None)
    number = user(first, "seq").partition(":")[2]
    (loser,) = await puts(peer, f"5eed5eed:{number}")
    assert Reason.QUOTA_EXCEEDED == loser.reason


@pytest.mark.parametrize(
    ("text", "reasons"),
    [("none", [Reason.SUCCESS, Reason.QUOTA_EXCEEDED]), ("*", [Reason.QUOTA_EXCEEDED] * 2)],
)
async def test_if_match_of_existence(world, text, reasons):
    """A16: create only, replace only."""
    peer = await world.connected()
    assert reasons == [packet.reason for packet in await puts(peer, text, text)]


# -- quotas --------------------------------------------------------------------------------------


async def test_more_than_the_receive_maximum_is_a_violation():
    """MQTT-3.3.4-9, D19: exactly as many as CONNACK said are taken."""
    world = MqttServer(receive_maximum=3)
    peer = await world.connected()
    world.writer.hold()
    for number in (1, 2, 3):
        peer.publish("Dog/1", b"{}", qos=1, retain=True, packet_id=number)
    assert not peer.closed
    peer.publish("Dog/1", b"{}", qos=1, retain=True, packet_id=4)
    (answer,) = await peer.hear()
    assert (Reason.RECEIVE_MAXIMUM_EXCEEDED, True) == (answer.reason, peer.closed)
    world.writer.release()


async def test_before_five_there_is_no_quota():
    """It is pushed back on by not reading, and never cut off for being fast."""
    world = MqttServer(receive_maximum=3)
    peer = await world.connected(version=4)
    world.writer.hold()
    for number in range(1, 10):
        peer.publish("Dog/1", b"{}", qos=1, retain=True, packet_id=number)
    world.writer.release()
    assert 9 == len(await peer.hear())


async def test_an_identifier_used_twice_is_answered_twice(world):
    """MQTT 3.1.1, 4.4: a client may send again on the same connection."""
    peer = await world.connected(version=4)
    world.writer.hold()
    for _ in range(2):
        peer.publish("Dog/1", b"{}", qos=1, retain=True, packet_id=5)
    world.writer.release()
    assert [Puback(5), Puback(5)] == await peer.hear()


async def test_a_crowded_disk_stops_reading(world):
    """D22: who publishes faster than the disk is not read from; it is not cut off for silence."""
    peer = await world.connected(keep_alive_seconds=10)
    world.writer.hold()
    large = b'{"name": "%s"}' % bytes(COMMIT_CLIENT_BYTES_HIGH // 5).replace(b"\0", b"x")
    for _ in range(5):
        assert peer.transport.reading
        peer.publish("Dog/1", large, retain=True)
    assert not peer.transport.reading
    await world.pass_time(60)
    assert not peer.closed
    world.writer.release()
    for _ in range(5):
        await world.turn()
    assert peer.transport.reading


@pytest.mark.slow
async def test_a_disk_that_others_crowd_does_not_stop_reading(world):
    """P2: who has less than the mean in hand is read from."""
    peer = await world.connected()
    world.writer.hold()
    await world.put_nowait(COMMIT_BACKLOG_EVENTS_HIGH + 2_000)
    peer.publish("Dog/1", b"{}", retain=True)
    assert world.kernel.committer.crowded
    assert peer.transport.reading
    world.writer.release()


async def test_what_comes_before_it_can_be_carried_out_is_held_in_bytes(world):
    """P2: behind a SUBSCRIBE that waits for the disk, as behind CONNECT."""
    peer = await world.connected()
    world.writer.hold()
    peer.publish("Dog/1", b"{}", qos=1, retain=True)
    peer.send(Subscribe(1, (Subscription("Dog/#", 0),)))
    for _ in range(2):
        assert peer.transport.reading
        peer.publish("Dog/1", bytes(MQTT_HELD_BYTES_HIGH // 2), retain=True)
    assert not peer.transport.reading
    world.writer.release()
    for _ in range(3):
        await world.turn()
    assert peer.transport.reading


async def test_a_packet_over_the_limit():
    """D58, MQTT-3.2.2-15: 0x95, judged by its length alone."""
    world = MqttServer(packet_bytes_max=100)
    peer = await world.connected()
    peer.send_bytes(b"\x30\xe5\x01")
    (answer,) = await peer.hear()
    assert (Reason.PACKET_TOO_LARGE, True) == (answer.reason, peer.closed)


async def test_a_delete_has_no_bytes(world):
    """D50: also when another door deletes."""
    watcher = await world.subscribed("Dog/#")
    await world.put("Dog/1", b"{}")
    await world.kernel.write(Event("Dog/1", DELETE, b"", None, 1, True), OTHER)
    put, delete = await watcher.hear()
    assert (b"{}", b"") == (put.payload, delete.payload)
    assert isinstance(put, Publish)


# -- writes that come late -------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_late_retained_publish_is_acknowledged_and_told(world, qos):
    """E26, X18: success, and the version that won; no subscriber hears of it."""
    watcher = await world.subscribed("a/b", qos=1)
    peer = await world.connected()
    stamps = [("rowcast-version", "2023-11-14T22:00:02Z"), ("rowcast-origin", "north")]
    peer.publish("a/b", b"2", qos=1, retain=True, **users(*stamps))
    await peer.hear()
    peer.publish("a/b", b"1", qos, True, 7, **users(("rowcast-version", "1699999201000000")))
    (answer,) = await peer.hear()
    assert (7, Reason.SUCCESS) == (answer.packet_id, answer.reason)
    assert "1699999202000000" == user(answer, "rowcast-late")
    assert "nothing was changed" in answer.properties["reason_string"]
    assert b"2" == await value_at(world, "a/b")
    assert [b"2"] == payloads(watcher.heard())


async def test_a_version_that_is_none_is_refused(world):
    """E26: with a sentence."""
    peer = await world.connected()
    peer.publish("a/b", b"1", qos=1, retain=True, **users(("rowcast-version", "soon")))
    (answer,) = await peer.hear()
    assert Reason.PAYLOAD_FORMAT_INVALID == answer.reason
    assert "microseconds since 1970" in answer.properties["reason_string"]


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_numbered_publish_that_comes_again_has_no_effect(world, qos):
    """M8: the second answer tells the first one's position; subscribers see no mark of ours."""
    watcher = await world.subscribed("a/b", qos=1)
    peer = await world.connected(properties=users(("seq", "1")))
    answers = []
    for packet_id in (1, 2):
        peer.publish("a/b", b"x", qos, False, packet_id, **users(("rowcast-producer", "m:1:7")))
        answers += await peer.hear()
    assert 1 == len({user(answer, "seq") for answer in answers})
    assert user(answers[0], "seq")
    assert [b"x"] == payloads(watcher.heard())


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("payload", [b'{"name":"Rex"}', b""], ids=["put", "delete"])
async def test_a_retained_publish_that_comes_again_gets_the_same_answer(world, qos, payload):
    """P4: with the position, which a client of a table need not ask for."""
    peer = await world.connected()
    answers = []
    for packet_id in (1, 2):
        mark = users(("rowcast-producer", "m:1:7"))
        peer.publish("Dog/1", payload, qos, True, packet_id, **mark)
        answers += await peer.hear()
    assert answers[0].properties == answers[1].properties
    assert answers[0].reason == answers[1].reason
    assert user(answers[0], "seq")


async def test_a_late_publish_that_comes_again_is_told_the_same(world):
    """P4, E26."""
    peer = await world.connected()
    stamp, mark = ("rowcast-version", "1600000000000001"), ("rowcast-producer", "m:1:7")
    peer.publish("a/b", b"1", qos=1, retain=True, **users(("rowcast-version", "1600000000000002")))
    await peer.hear()
    answers = []
    for packet_id in (2, 3):
        peer.publish("a/b", b"2", 1, True, packet_id, **users(stamp, mark))
        answers += await peer.hear()
    assert ["1600000000000002"] * 2 == [user(answer, "rowcast-late") for answer in answers]
