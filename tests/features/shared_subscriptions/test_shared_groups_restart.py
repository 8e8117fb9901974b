"""What of a group survives the server: its place, and what was assigned and not done (D36, X11)."""

import asyncio

import pytest
from group_workers import GroupWorld, Worker, numbers

from rowcast.core.errors import Code, Error
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


@pytest.fixture
def world():
    return GroupWorld()


async def test_what_was_open_when_the_server_was_killed_is_assigned_again(world):
    """D36, restart: assigned and not done, and what came after."""
    one, two = world.worker("a", durable=True), world.worker("b", sends=False)
    world.put(*numbers(1, 4))
    await world.rounds()
    one.finish()
    world.groups.save()
    world.put(b"5")
    again = world.restart()
    back = Worker(again, "a", durable=True).join(connected=False)
    assert [] == back.received
    back.back()
    await again.rounds()
    assert [b"2", b"4", b"5"] == back.received
    assert [b"2", b"4"] == two.payloads


async def test_what_a_durable_member_was_sent_is_its_own_after_a_restart_too(world):
    """The seqs of restored flights are not assigned again, not even those missing in the state."""
    world.worker("a", durable=True)
    world.put(b"1")
    await world.rounds()
    world.groups.save()
    world.put(b"2", b"3")
    await world.rounds()
    again = world.restart()
    back = Worker(again, "a", durable=True).join(connected=False)
    back.assigned = [back.group.hold(back, seq, 1) for seq in (1, 2)]
    back.join()
    await again.rounds()
    assert [b"3"] == back.received
    assert [b"1", b"2", b"3"] == back.payloads


async def test_what_a_durable_member_was_sent_may_go_to_another_after_a_restart(world):
    world.worker("a", durable=True)
    world.put(b"1", b"2")
    await world.rounds()
    world.groups.save()
    again = world.restart()
    away = Worker(again, "a", durable=True).join(connected=False)
    away.assigned = [away.group.hold(away, seq, qos) for seq, qos in ((1, 1), (2, 2))]
    other = again.worker("b")
    await again.rounds()
    assert [b"1"] == other.received
    assert [2] == [assignment.seq for assignment in away.assigned]


@pytest.mark.parametrize("durable", [True, False])
async def test_qos_2_that_was_sent_to_a_clean_session_is_not_in_the_state(world, durable):
    """MQTT-4.8.2-5: that session ends with the server; it is sent to nobody else."""
    world.worker("d", durable=True, room=0)
    world.worker("a", 2, durable=durable)
    world.put(b"1", qos=2)
    await world.rounds()
    world.groups.save()
    again = world.restart()
    other = Worker(again, "d", durable=True).join()
    await again.rounds()
    assert [b"1"] * durable == other.received


async def test_what_is_no_longer_in_the_log_is_left_out(world):
    world.worker("a", durable=True, sends=False)
    world.put(*numbers(1, 3))
    await world.rounds()
    world.groups.save()
    world.trim(1)
    again = world.restart()
    back = again.worker("a", durable=True)
    await again.rounds()
    assert [b"3"] == back.received


@pytest.mark.parametrize("failure", [Error(Code.BUSY, "the disk refuses"), ValueError("a bug")])
async def test_reading_again_is_tried_again(monkeypatch, failure):
    world = GroupWorld(retry_seconds=0)
    world.worker("a", durable=True, sends=False)
    world.put(*numbers(1, 3))
    await world.rounds()
    world.groups.save()
    again = world.restart()
    read, tries = again.reader.read, []

    async def fails(*given):
        tries.append(given[0])
        if len(tries) == 2:
            raise failure
        return await read(*given)

    monkeypatch.setattr(again.reader, "read", fails)
    back = again.worker("a", durable=True)
    for _ in range(10):
        await again.rounds()
    assert numbers(1, 3) == back.received
    assert [0, 1, 1, 2] == tries


# -- when it is written --------------------------------------------------------------------------


async def test_a_state_is_written_soon_and_removed_with_the_group():
    world = GroupWorld(save_seconds=0)
    one = world.worker("a", durable=True)
    await world.rounds()
    assert ["group/g/Dog/#"] == [owner for owner, _, _ in world.store.states("group/")]
    lots = len(world.kept)
    world.put(b"1")
    await world.rounds()
    assert lots + 1 == len(world.kept)
    one.end()
    await world.rounds()
    assert [] == world.store.states("")


async def test_a_group_that_is_not_durable_is_never_written():
    world = GroupWorld(save_seconds=0)
    one = world.worker("a")
    world.put(b"1")
    await world.rounds()
    one.end()
    world.groups.stop()
    assert [] == world.kept


async def test_a_state_that_could_not_be_written_is_written_later():
    world = GroupWorld(save_seconds=0)
    world.refusal = Error(Code.BUSY, "the disk refuses")
    world.worker("a", durable=True)
    for _ in range(3):
        await world.turn()
    assert [] == world.store.states("")
    world.refusal = None
    await world.rounds()
    assert ["group/g/Dog/#"] == [owner for owner, _, _ in world.store.states("group/")]


async def test_the_end_of_a_group_takes_nothing_from_the_next_of_its_name(world):
    """MQTT-4.8.2-5: the disk refused to remove it, and took the state of the next one."""
    first = world.worker("a", durable=True)
    world.groups.save()
    world.refusal = Error(Code.BUSY, "the disk refuses")
    first.end()
    world.groups.save()
    world.refusal = None
    following = world.worker("b", durable=True).group
    world.store.commit([], world.groups.changes([following]))  # with a flight of its member
    world.groups.save()
    assert ["group/g/Dog/#"] == [owner for owner, _, _ in world.store.states("group/")]


async def test_nothing_is_written_twice(world):
    world.worker("a", durable=True)
    world.groups.save()
    group = world.groups.find("g", "Dog/#")
    assert ([], 1) == (world.groups.changes([group]), len(world.kept))


async def test_a_group_whose_members_are_gone_when_the_server_is_back_is_forgotten(world):
    world.worker("a", durable=True)
    world.groups.save()
    again = world.restart()
    again.groups.clean()
    again.groups.save()
    assert ([], []) == (list(again.groups), again.store.states(""))


async def test_a_group_without_a_name_is_written_too(world):
    """D55: $queue is the group without a name."""
    queue = world.groups.group("", world.topics)
    queue.join(Worker(world, "a", durable=True), SubscribedFilter(world.topics, 1))
    world.groups.stop()
    again = world.restart()
    assert [("", "Dog/#")] == [(group.name, group.topics.text) for group in again.groups]


async def test_what_it_selects_is_logged_while_a_durable_member_is_in_it(world):
    """A durable filter (D27), whether anybody is connected or not."""
    one, two = world.worker("a", durable=True), world.worker("b", 0, durable=True)
    one.rest()
    assert (True, False) == (world.durable.wanted("Dog/1"), world.durable.wanted("Cat/1"))
    one.end()
    assert not world.durable.wanted("Dog/1")
    two.qos = 1
    two.join()
    assert world.durable.wanted("Dog/1")
    two.leave()
    assert not world.durable.wanted("Dog/1")


async def test_a_state_that_is_refused_at_the_end_is_not_tried_again():
    world = GroupWorld(save_seconds=0.0)
    world.refusal = Error(Code.BUSY, "another node numbers now")
    world.worker("a", durable=True)
    world.groups.stop()
    tried = len(world.kept)
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, later.set_result, None)
    await later
    assert tried == len(world.kept) > 0
