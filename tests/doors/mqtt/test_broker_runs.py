"""Several packets of one read: PUBLISHes are handled as a run, and whatever is between them."""

import pytest

from mqtt_server import VERSIONS, MqttServer, Puback, Publish, payloads, user
from rowcast.mqtt.packets import Pingreq, Pingresp, Pubrec, Pubrel
from rowcast.mqtt.reasons import Reason


def message(payload, qos=0, packet_id=0, topic="a/b", retain=False, **properties):
    """Return a PUBLISH."""
    return Publish(topic, payload, qos, retain, False, packet_id, properties or None)


@pytest.fixture(params=["table", "route"])
async def world(request):
    """A server that keeps messages at undeclared topics, and one that routes them."""
    return MqttServer(undeclared=request.param)


@pytest.mark.parametrize("version", VERSIONS)
async def test_publishes_of_every_kind_in_one_read(world, version):
    """D12, D14, D15: they are delivered, and answered, in the order in which they came."""
    watcher = await world.subscribed("#", version=version)
    peer = await world.connected(version=version)
    expiring = {"message_expiry_interval": 60} if version == 5 else {}
    answers = await peer.ask(
        message(b"0"),
        message(b"1", 1, 1),
        message(b"2", 2, 2),
        message(b"3", **expiring),
        message(b"4", topic="other"),
        message(b"5", 1, 5, retain=True),
        Pingreq(),
        message(b"6"),
        message(b"7", 1, 7),
        Pubrel(2),
    )
    assert [b"%d" % number for number in range(8)] == payloads(watcher.heard())
    acknowledged = [item.packet_id for item in answers if isinstance(item, Puback | Pubrec)]
    assert [1, 2, 5, 7] == acknowledged
    assert Pingresp() in answers


async def test_a_breach_ends_a_run_and_what_came_before_it_counts():
    """MQTT-3.3.4-9, D19: one more than the Receive Maximum, with others in one read."""
    world = MqttServer(receive_maximum=2)
    watcher = await world.subscribed("#")
    peer = await world.connected()
    world.writer.hold()
    peer.send(*(message(b"%d" % number, 1, number) for number in (1, 2, 3)), message(b"4"))
    world.writer.release()
    answers = await peer.hear()
    assert Reason.RECEIVE_MAXIMUM_EXCEEDED == answers[-1].reason
    assert [b"1", b"2"] == payloads(watcher.heard())


async def test_a_refused_publish_in_a_run_is_answered_in_its_turn(world):
    """MQTT-4.6.0-2, D43: those before and after it are stored."""
    watcher = await world.subscribed("a/b")
    peer = await world.connected()
    run = [message(b"1", 1, 1), message(b"2", 1, 2, topic="$SYS/x"), message(b"3", 1, 3)]
    answers = await peer.ask(*run)
    assert [1, 2, 3] == [item.packet_id for item in answers]
    assert [False, True, False] == [item.reason >= Reason.UNSPECIFIED_ERROR for item in answers]
    assert [b"1", b"3"] == payloads(watcher.heard())


async def test_each_of_a_run_is_stored_with_its_number(world):
    """D15, M1: positions are told one by one, though all of them were appended together."""
    peer = await world.connected()
    run = [message(b'{"name":"%d"}' % n, 1, n, "Dog/1", retain=True) for n in (1, 2, 3)]
    told = [user(item, "seq").partition(":")[2] for item in await peer.ask(*run)]
    assert 3 == len(set(told))
    assert sorted(map(int, told)) == list(map(int, told))
