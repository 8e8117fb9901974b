"""What of a group survives the server: its place, and what was dealt and not done (D36, X11)."""

import asyncio

import pytest
from group_workers import Worker, Yard, numbers

from rowcast.core.errors import Code, Error
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


@pytest.fixture
def yard():
    return Yard()


async def test_what_was_open_when_the_server_was_killed_is_dealt_again(yard):
    """D36, restart: dealt and not done, and what came after."""
    one, two = yard.worker("a", durable=True), yard.worker("b", sends=False)
    yard.put(*numbers(1, 4))
    await yard.rounds()
    one.finish()
    yard.groups.save()
    yard.put(b"5")
    again = yard.restart()
    back = Worker(again, "a", durable=True).join(connected=False)
    assert [] == back.heard
    back.back()
    await again.rounds()
    assert [b"2", b"4", b"5"] == back.heard
    assert [b"2", b"4"] == two.payloads


async def test_what_a_durable_member_was_sent_is_its_own_after_a_restart_too(yard):
    """The seqs of restored flights are not dealt again; nor those that the state does not know."""
    yard.worker("a", durable=True)
    yard.put(b"1")
    await yard.rounds()
    yard.groups.save()
    yard.put(b"2", b"3")
    await yard.rounds()
    again = yard.restart()
    back = Worker(again, "a", durable=True).join(connected=False)
    back.deals = [back.group.hold(back, seq, 1) for seq in (1, 2)]
    back.join()
    await again.rounds()
    assert [b"3"] == back.heard
    assert [b"1", b"2", b"3"] == back.payloads


async def test_what_a_durable_member_was_sent_may_go_to_another_after_a_restart(yard):
    yard.worker("a", durable=True)
    yard.put(b"1", b"2")
    await yard.rounds()
    yard.groups.save()
    again = yard.restart()
    away = Worker(again, "a", durable=True).join(connected=False)
    away.deals = [away.group.hold(away, seq, qos) for seq, qos in ((1, 1), (2, 2))]
    other = again.worker("b")
    await again.rounds()
    assert [b"1"] == other.heard
    assert [2] == [deal.seq for deal in away.deals]


@pytest.mark.parametrize("durable", [True, False])
async def test_qos_2_that_was_sent_to_a_clean_session_is_not_in_the_state(yard, durable):
    """MQTT-4.8.2-5: that session ends with the server; it is sent to nobody else."""
    yard.worker("d", durable=True, room=0)
    yard.worker("a", 2, durable=durable)
    yard.put(b"1", qos=2)
    await yard.rounds()
    yard.groups.save()
    again = yard.restart()
    other = Worker(again, "d", durable=True).join()
    await again.rounds()
    assert [b"1"] * durable == other.heard


async def test_what_is_no_longer_in_the_log_is_left_out(yard):
    yard.worker("a", durable=True, sends=False)
    yard.put(*numbers(1, 3))
    await yard.rounds()
    yard.groups.save()
    yard.trim(1)
    again = yard.restart()
    back = again.worker("a", durable=True)
    await again.rounds()
    assert [b"3"] == back.heard


@pytest.mark.parametrize("failure", [Error(Code.BUSY, "the disk refuses"), ValueError("a bug")])
async def test_reading_again_is_tried_again(monkeypatch, failure):
    yard = Yard(retry_seconds=0)
    yard.worker("a", durable=True, sends=False)
    yard.put(*numbers(1, 3))
    await yard.rounds()
    yard.groups.save()
    again = yard.restart()
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
    assert numbers(1, 3) == back.heard
    assert [0, 1, 1, 2] == tries


# -- when it is written --------------------------------------------------------------------------


async def test_a_state_is_written_soon_and_removed_with_the_group():
    yard = Yard(save_seconds=0)
    one = yard.worker("a", durable=True)
    await yard.rounds()
    assert ["group/g/Dog/#"] == [owner for owner, _, _ in yard.store.states("group/")]
    lots = len(yard.kept)
    yard.put(b"1")
    await yard.rounds()
    assert lots + 1 == len(yard.kept)
    one.end()
    await yard.rounds()
    assert [] == yard.store.states("")


async def test_a_group_that_is_not_durable_is_never_written():
    yard = Yard(save_seconds=0)
    one = yard.worker("a")
    yard.put(b"1")
    await yard.rounds()
    one.end()
    yard.groups.stop()
    assert [] == yard.kept


async def test_a_state_that_could_not_be_written_is_written_later():
    yard = Yard(save_seconds=0)
    yard.refusal = Error(Code.BUSY, "the disk refuses")
    yard.worker("a", durable=True)
    for _ in range(3):
        await yard.turn()
    assert [] == yard.store.states("")
    yard.refusal = None
    await yard.rounds()
    assert ["group/g/Dog/#"] == [owner for owner, _, _ in yard.store.states("group/")]


async def test_the_end_of_a_group_takes_nothing_from_the_next_of_its_name(yard):
    """MQTT-4.8.2-5: the disk refused to remove it, and took the state of the next one."""
    first = yard.worker("a", durable=True)
    yard.groups.save()
    yard.refusal = Error(Code.BUSY, "the disk refuses")
    first.end()
    yard.groups.save()
    yard.refusal = None
    following = yard.worker("b", durable=True).group
    yard.store.commit([], yard.groups.changes([following]))  # with a flight of its member
    yard.groups.save()
    assert ["group/g/Dog/#"] == [owner for owner, _, _ in yard.store.states("group/")]


async def test_nothing_is_written_twice(yard):
    yard.worker("a", durable=True)
    yard.groups.save()
    group = yard.groups.find("g", "Dog/#")
    assert ([], 1) == (yard.groups.changes([group]), len(yard.kept))


async def test_a_group_whose_members_are_gone_when_the_server_is_back_is_forgotten(yard):
    yard.worker("a", durable=True)
    yard.groups.save()
    again = yard.restart()
    again.groups.clean()
    again.groups.save()
    assert ([], []) == (list(again.groups), again.store.states(""))


async def test_a_group_without_a_name_is_written_too(yard):
    """D55: $queue is the group without a name."""
    queue = yard.groups.group("", yard.topics)
    queue.join(Worker(yard, "a", durable=True), SubscribedFilter(yard.topics, 1))
    yard.groups.stop()
    again = yard.restart()
    assert [("", "Dog/#")] == [(group.name, group.topics.text) for group in again.groups]


async def test_what_it_selects_is_logged_while_a_durable_member_is_in_it(yard):
    """A durable filter (D27), whether anybody is connected or not."""
    one, two = yard.worker("a", durable=True), yard.worker("b", 0, durable=True)
    one.rest()
    assert (True, False) == (yard.durable.wanted("Dog/1"), yard.durable.wanted("Cat/1"))
    one.end()
    assert not yard.durable.wanted("Dog/1")
    two.qos = 1
    two.join()
    assert yard.durable.wanted("Dog/1")
    two.leave()
    assert not yard.durable.wanted("Dog/1")


async def test_a_state_that_is_refused_at_the_end_is_not_tried_again():
    yard = Yard(save_seconds=0.0)
    yard.refusal = Error(Code.BUSY, "another node numbers now")
    yard.worker("a", durable=True)
    yard.groups.stop()
    tried = len(yard.kept)
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, later.set_result, None)
    await later
    assert tried == len(yard.kept) > 0
