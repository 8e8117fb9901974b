"""What becomes of a shared message when its member goes, or the server does (D36, X11)."""

import pytest
from shared_workers import SHARE, Worker, ended, lasting, publish, returned, texts, worker

from mqtt_server import VERSIONS, Disconnect, Puback, Pubrec, Unsuback, Unsubscribe
from rowcast.core.errors import Code, Error
from rowcast.mqtt.reasons import Reason

EVERY = pytest.mark.parametrize("version", VERSIONS)

# -- handing over --------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
async def test_what_a_lost_worker_left_goes_to_the_others(world, durable):
    """D36: 3 workers, one killed; each message at least once, 0 lost, evenly assigned."""
    workers = [await worker(world, name, durable=durable) for name in "xyz"]
    await publish(world, range(1, 31))
    for one in workers:
        await one.hear()
        assert 10 == len(one.heard)
    await workers[1].work()
    await workers[2].work()
    workers[0].peer.lose()
    await workers[1].work()
    await workers[2].work()
    assert texts(range(1, 31)) == sorted(workers[1].heard + workers[2].heard, key=int)
    assert {15} == {len(one.heard) for one in workers[1:]}


async def test_a_refused_message_is_discarded(world):
    """MQTT-4.8.2-6: a PUBACK or PUBREC that says no."""
    one, two = await worker(world, "x", qos=2), await worker(world, "y", qos=2)
    await publish(world, [1, 2])
    await publish(world, [3], qos=2)
    await one.hear()
    await two.work()
    first, third = one.open
    one.peer.send(Puback(first.packet_id, Reason.UNSPECIFIED_ERROR))
    one.peer.send(Pubrec(third.packet_id, Reason.QUOTA_EXCEEDED))
    await one.peer.hear()
    one.peer.lose()
    await two.work()
    assert (texts((1, 3)), texts([2])) == (one.heard, two.heard)


@pytest.mark.parametrize("killed", [False, True])
async def test_qos_2_that_was_sent_waits_for_its_member(world, killed):
    """MQTT-4.8.2-4."""
    one = await worker(world, "x", qos=2, durable=True)
    await worker(world, "y", qos=2, durable=True)
    await publish(world, [1], qos=2)
    (sent,) = await one.peer.hear()
    one.peer.lose()
    there = await world.killed() if killed else world
    two = await returned(there, "y") if killed else None
    await there.turn()
    assert two is None or [] == two.heard
    again = await returned(there, "x")
    assert [(sent.packet_id, True)] == [(item.packet_id, item.dup) for item in again.open]
    await again.work()
    assert texts([1]) == again.heard
    if killed:
        await two.work()
        assert [] == two.heard
        await ended(there)


async def test_qos_2_that_was_received_is_not_assigned_again_after_a_full_disk_and_a_kill(world):
    """D16, D36: what the disk refused of the group is saved with the session that it is for."""
    one = await worker(world, "x", qos=2, durable=True)
    await publish(world, [1], qos=2)
    (sent,) = await one.peer.hear()
    world.store.fault = refuse
    one.peer.send(Pubrec(sent.packet_id))
    await world.turn()
    world.store.fault = None
    world.broker.keeper.save(world.broker.sessions.get("x"))
    await world.turn()
    there = await world.killed()
    again = await returned(there, "x")
    await again.work()
    assert [] == again.heard
    await ended(there)


def refuse(what):
    """Be a disk that is full."""
    raise Error(Code.BUSY, f"the disk is full: {what}")


@pytest.mark.parametrize("durable", [False, True])
async def test_qos_2_that_was_sent_ends_with_its_session(world, durable):
    """MQTT-4.8.2-5."""
    one = await worker(world, "x", qos=2, durable=durable)
    two = await worker(world, "y", qos=2)
    await publish(world, [1], qos=2)
    await one.hear()
    one.peer.lose()
    await world.pass_time(3601)
    assert ([], texts([1])) == (await two.hear(), one.heard)
    assert None is world.broker.sessions.get("x")


async def test_qos_2_of_a_clean_session_is_not_sent_to_another_after_a_kill(world):
    """MQTT-4.8.2-5: its session ended with the server."""
    await worker(world, "y", qos=2, durable=True)
    one = await worker(world, "x", qos=2)
    await publish(world, [1, 2], qos=2)
    assert texts([2]) == await one.hear()
    there = await world.killed()
    two = await returned(there, "y")
    await two.work()
    assert texts([1]) == two.heard
    await ended(there)


async def test_a_member_that_unsubscribes_completes_what_it_was_sent(world):
    """MQTT-3.10.4-2, MQTT-3.10.4-3."""
    one, two = await worker(world, "x"), await worker(world, "y")
    await publish(world, [1, 2])
    await one.hear()
    answer = await one.peer.ask(Unsubscribe(8, (SHARE, SHARE)))
    assert [Unsuback(8, (Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED))] == answer
    await publish(world, [3])
    await two.work()
    assert texts((2, 3)) == two.heard
    await one.work()
    one.peer.lose()
    await two.work()
    assert (texts([1]), texts((2, 3))) == (one.heard, two.heard)


async def test_a_durable_member_that_is_back_first_is_sent_its_messages_again(world):
    """MQTT-4.4.0-1: the same identifier, DUP."""
    one = await worker(world, "x", durable=True)
    await publish(world, [1])
    (sent,) = await one.peer.hear()
    one.peer.lose()
    await publish(world, [2])
    again = await returned(world, "x")
    assert [(sent.packet_id, True), (sent.packet_id + 1, False)] == [
        (item.packet_id, item.dup) for item in again.open
    ]
    assert texts((1, 2)) == again.heard


async def test_what_another_member_took_is_not_sent_again(world):
    one = await worker(world, "x", durable=True)
    await publish(world, [1])
    await one.hear()
    one.peer.lose()
    two = await worker(world, "y", durable=True)
    await two.work()
    two.peer.lose()
    again = await returned(world, "x")
    assert (texts([1]), []) == (two.heard, again.heard)


async def test_a_take_over_keeps_the_member(world):
    """D30."""
    one = await worker(world, "x", durable=True)
    await publish(world, [1])
    await one.hear()
    again = await returned(world, "x")
    await publish(world, [2])
    await again.work()
    assert texts((1, 2)) == again.heard


async def test_a_clean_start_ends_the_member(world):
    one = await worker(world, "x", durable=True)
    two = await worker(world, "y")
    await publish(world, [1])
    await one.hear()
    await world.connected("x")
    await two.work()
    assert (texts([1]), texts([1])) == (one.heard, two.heard)
    assert 1 == len(world.groups.find("g", "a/#")._member_states)


async def test_a_caller_that_may_no_longer_read_is_no_member(world, monkeypatch):
    """Rights are asked again when a session is resumed."""
    one = await worker(world, "x", durable=True)
    one.peer.lose()
    await world.turn()

    def refuse(*_given):
        raise Error(Code.DENIED, "no")

    monkeypatch.setattr(world.kernel, "authorise_watch", refuse)
    await returned(world, "x")
    assert None is world.groups.find("g", "a/#")


# -- nobody there, and restarts ------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("killed", [False, True])
async def test_what_comes_while_nobody_is_there_goes_to_the_first_who_returns(
    world, version, killed
):
    """X11; also on topics that no table declares, and over a kill of the server."""
    for name in "xy":
        one = await worker(world, name, version=version, durable=True)
        await one.peer.ask(Disconnect())
        one.peer.lose()
    await publish(world, range(1, 6))
    there = await world.killed() if killed else world
    two = await returned(there, "y", version)
    await two.work()
    one = await returned(there, "x", version)
    assert (texts(range(1, 6)), []) == (two.heard, one.heard)
    if killed:
        await ended(there)


async def test_a_clean_session_may_take_what_waited(world):
    """X11: any connected member."""
    one = await worker(world, "x", durable=True)
    one.peer.lose()
    await publish(world, [1])
    two = await worker(world, "y")
    assert texts([1]) == await two.hear()


async def test_after_a_kill_everything_is_done_at_least_once(world):
    """D36: what was assigned to whomever and not acknowledged, and what was not assigned yet."""
    workers = [await worker(world, name, durable=name != "z") for name in "xyz"]
    await publish(world, range(1, 31))
    for one in workers:
        await one.hear()
    await workers[0].work()
    await publish(world, range(31, 41))
    there = await world.killed()
    x, y = await returned(there, "x"), await returned(there, "y")
    for _ in range(3):
        await x.work()
        await y.work()
    done = {*workers[0].heard[:10], *x.heard, *y.heard}
    assert texts(range(1, 41)) == sorted(done, key=int)
    await ended(there)


async def test_a_group_is_forgotten_with_its_last_member(plain_world):
    world = plain_world
    one = await worker(world, "x", durable=True)
    await publish(world, [1])
    one.peer.lose()
    await world.pass_time(3601)
    world.groups.save()
    await world.turn()
    assert ([], []) == (list(world.groups), world.store.states(""))
    assert not world.kernel.durable.wanted("a/b")


async def test_without_durable_members_nothing_is_logged_or_kept(plain_world):
    world = plain_world
    one = await worker(world, "x")
    await publish(world, [1])
    one.peer.lose()
    await world.turn()
    world.groups.save()
    assert (0, []) == (world.store.head(), world.store.states(""))


# -- order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
async def test_each_member_hears_in_order_whatever_the_qos(world, durable):
    """MQTT-4.6.0-6: QoS 2 waits for the disk, and what follows waits behind it."""
    await worker(world, "other", durable=True)
    one = await worker(world, "x", qos=2, durable=durable)
    world.writer.hold()
    publisher = await world.connected("p")
    for number in range(1, 13):
        qos = number // 2 % 3
        publisher.publish("a/b", b"%d" % number, qos, packet_id=number if qos else 0)
    await publisher.hear()
    world.writer.release()
    for _ in range(5):
        await one.work()
        await world.turn()
    assert 6 == len(one.heard)
    assert sorted(one.heard, key=int) == one.heard


async def test_what_was_left_of_a_share_is_completed_after_a_kill(world):
    """MQTT-3.10.4-3: the client unsubscribed, and is still to acknowledge."""
    one = await worker(world, "x", durable=True)
    await publish(world, [1])
    await one.hear()
    await one.peer.ask(Unsubscribe(8, (SHARE,)))
    await one.peer.ask(Disconnect())
    one.peer.lose()
    there = await world.killed()
    again = await returned(there, "x")
    assert [True] == [packet.dup for packet in again.open]
    await again.work()
    assert (texts([1]), []) == (again.heard, list(there.groups))
    await ended(there)


async def test_nothing_new_overtakes_what_is_sent_again(world):
    """MQTT-4.6.0-1, with a Receive Maximum that is smaller than before."""
    one = await worker(world, "x", durable=True)
    await publish(world, (1, 2, 3))
    await one.hear()
    one.peer.lose()
    await publish(world, [4])
    peer = world.peer()
    await peer.connect("x", **lasting() | {"properties": small()})
    again = Worker(peer, "x")
    again.note(peer.later)
    assert texts([1]) == await again.hear()
    await again.work()
    assert texts((1, 2, 3, 4)) == again.heard


def small():
    return {"receive_maximum": 1, "session_expiry_interval": 3600}
