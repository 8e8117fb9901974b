"""Several packets of one read: PUBLISHes are handled as a run, and whatever is between them."""

import pytest

from mqtt_server import VERSIONS, MqttServer, Puback, Publish, payloads, user
from rowcast.mqtt.packets import Pingreq, Pingresp, Pubcomp, Pubrec, Pubrel
from rowcast.mqtt.reasons import Reason

HOUR = {"session_expiry_interval": 3600}


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


async def in_flight(world, count):
    """Return a client that was sent so many messages of QoS 2, and their identifiers."""
    peer = await world.subscribed("a/b", qos=2, connect={"properties": HOUR})
    publisher = await world.connected("p")
    await publisher.ask(*(message(b"x", 2, number) for number in range(1, count + 1)))
    return peer, [packet.packet_id for packet in await peer.hear()]


async def test_answers_of_qos_2_in_one_read_are_one_save(world):
    """D16, MQTT-4.6.0-4: PUBRELs in the order of the PUBRECs, after one commit for all of them."""
    peer, sent = await in_flight(world, 3)
    committer = world.broker.kernel.committer
    before = committer.commits
    order = [sent[2], sent[0], sent[1]]
    assert list(map(Pubrel, order)) == await peer.ask(*map(Pubrec, order))
    assert 1 == committer.commits - before
    assert 3 == len(world.broker.sessions.get("s").window)
    assert [] == await peer.ask(*map(Pubcomp, order))
    assert 0 == len(world.broker.sessions.get("s").window)


async def test_pubrels_of_one_read_are_one_save(world):
    """D16, MQTT-4.3.3-11: one commit; an identifier that is not known is answered apart."""
    peer = await world.connected(properties=HOUR)
    await peer.ask(*(message(b"x", 2, number) for number in (1, 2, 3)))
    committer = world.broker.kernel.committer
    before = committer.commits
    answers = await peer.ask(Pubrel(1), Pubrel(2), Pubrel(9), Pubrel(3))
    assert [1, 2, 3] == [item.packet_id for item in answers if not item.reason]
    assert [9] == [item.packet_id for item in answers if item.reason]
    assert 1 == committer.commits - before
    assert [] == [name for _, name, _ in world.store.states("session/c") if name.startswith("in/")]


async def test_a_wrong_answer_in_a_run_and_what_came_before_it_counts(world):
    """MQTT 5, 4.3: a PUBREC for QoS 1 ends the connection; the one before it is not lost."""
    peer, (sent,) = await in_flight(world, 1)
    await (await world.connected("p")).ask(message(b"y", 1, 1))
    (other,) = await peer.hear()
    answers = await peer.ask(Pubrec(sent), Pubrec(other.packet_id), Pubrec(sent))
    assert Reason.PROTOCOL_ERROR == answers[-1].reason
    again = world.peer()
    await again.connect("s", clean_start=False, properties=HOUR)
    assert [Pubrel(sent)] == [item for item in again.later if isinstance(item, Pubrel)]


@pytest.mark.parametrize("durable", [False, True])
async def test_repeats_of_qos_2_in_one_read_are_taken_once(world, durable):
    """D16, MQTT-4.3.3-10: the same identifier twice in a run, and once more after PUBREC."""
    watcher = await world.subscribed("a/b")
    peer = await world.connected(properties=HOUR if durable else None)
    run = [message(b"1", 2, 1), message(b"2", 2, 2), message(b"1", 2, 1), message(b"3", 2, 3)]
    answers = await peer.ask(*run)
    assert [1, 2, 1, 3] == [item.packet_id for item in answers]
    assert [Pubrec(2)] == await peer.ask(message(b"2", 2, 2))
    assert [b"1", b"2", b"3"] == payloads(watcher.heard())


async def test_messages_that_a_durable_session_wants_are_appended_together(world):
    """D14, D28: at a topic that is only routed, too; what nobody keeps stays in its place."""
    await world.subscribed("a/b", client_id="d", qos=1, connect={"properties": HOUR})
    watcher = await world.subscribed("#")
    peer = await world.connected()
    await peer.ask(message(b"-", 1, 9), message(b"-", topic="other"))
    watcher.heard()
    world.writer.hold()
    run = [message(b"%d" % number, 1 + number % 2, number) for number in (1, 2, 3)]
    peer.send(*run, message(b"4", topic="other"), message(b"5", 1, 5))
    await world.turn()
    assert 1 == len(world.writer.waiting)
    world.writer.release()
    assert [1, 2, 3, 5] == [item.packet_id for item in await peer.hear()]
    assert [b"1", b"2", b"3", b"4", b"5"] == payloads(watcher.heard())
    world.peers[0].lose()
    again = world.peer()
    await again.connect("d", clean_start=False, properties=HOUR)
    assert {b"1", b"2", b"3", b"5"} <= set(payloads(again.later))


class Counted(list):
    """Counts the items that its slices have."""

    copied = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        self.copied += len(found) if isinstance(key, slice) else 0
        return found


async def test_many_runs_in_one_read_cost_no_more_than_their_packets(world):
    """P3, D8: or whoever sends packets of two kinds in turn holds up everybody else."""
    peer = await world.subscribed("a")
    packets = Counted()
    for number in range(1, 501):
        packets += [Puback(number), Pubcomp(number), Publish("a", b"%d" % number), Pubrel(number)]
    peer.client._handle(packets)
    heard = await peer.hear()
    assert [b"%d" % number for number in range(1, 501)] == payloads(heard)
    assert list(range(1, 501)) == [item.packet_id for item in heard if isinstance(item, Pubcomp)]
    assert packets.copied <= len(packets)
