"""Idempotency keys: whose they are, how long they are known, what survives (B17, P4)."""

from collections import Counter
from hashlib import sha256
from math import inf

import pytest

from build import ANN, BEN, Server
from memory_store import MemoryStore
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.features.idempotency.idempotency_keys import OWNER, Keys
from rowcast.store.sqlite import SqlStore
from rowcast.writes.write import Receipt


@pytest.fixture(params=["memory", "sqlite"])
async def room(request, tmp_path):
    store = SqlStore(tmp_path / "rowcast.db") if request.param == "sqlite" else MemoryStore()
    yield Server(store=store)
    store.close()


def digest(text):
    return sha256(text.encode()).digest()


def keys_of(room):
    return room.idempotent_writes.keys


async def send(room, key, text="x", caller=ANN, count=1):
    """Carry out a request of some writes; return what became of each."""
    events = [Event(f"u/{n}", PUT, text.encode(), qos=1, retain=True) for n in range(count)]
    with keys_of(room).claim(caller, key, digest(text)) as claim:
        for index, event in enumerate(events):
            claim.mark(event, index)
        return await room.kernel.write_all(events, caller, atomic=False)


def known(room):
    return room.store.states(OWNER)


async def test_a_restart_forgets_no_key(room):
    """B17: mark, receipt and event are one transaction."""
    (first,) = await send(room, "k")
    after = Server(store=room.store)
    keys_of(after).restore(known(room))
    (again,) = await send(after, "k")
    facts = [(item.event.seq, item.event.version, item.existed) for item in (first, again)]
    assert facts[0] == facts[1]
    assert (False, True) == (first.repeat, again.repeat)
    with pytest.raises(Error) as caught:
        await send(after, "k", "y")
    assert Code.UNPROCESSABLE == caught.value.code


async def test_a_kill_amid_a_request_leaves_what_was_committed(room):
    """B17: what came to the disk is not written again, the rest is."""
    events = [Event(f"u/{n}", PUT, b"x", qos=1, retain=True) for n in range(2)]
    with keys_of(room).claim(ANN, "k", digest("x")) as claim:
        claim.mark(events[0], 0)
        await room.kernel.write(events[0], ANN)
    after = Server(store=room.store)
    keys_of(after).restore(known(room))
    outcomes = await send(after, "k", count=2)
    assert [True, False] == [outcome.repeat for outcome in outcomes]
    assert 2 == len(room.store.read(0, 9))


async def test_a_key_is_its_user_s_own(room):
    """B17: nobody learns of another's requests, or blocks them."""
    await send(room, "k")
    (other,) = await send(room, "k", "y", BEN)
    assert not other.repeat


async def test_a_user_s_name_with_a_slash_is_no_boundary(room):
    await send(room, "k", caller=Caller("a/b", ANN.grants, "http"))
    assert {"once/a%2Fb"} == {owner for owner, _, _ in known(room)}


async def test_a_request_that_failed_leaves_its_key_free(room):
    with pytest.raises(ValueError, match="broken"), keys_of(room).claim(ANN, "k", digest("x")):
        raise ValueError("broken")
    await send(room, "k", "y")


async def test_a_key_is_in_use_until_its_request_has_ended(room):
    keys = keys_of(room)
    with keys.claim(ANN, "k", digest("x")):
        with pytest.raises(Error) as caught, keys.claim(ANN, "k", digest("x")):
            pass
        assert Code.CONFLICT == caught.value.code
    with keys.claim(ANN, "k", digest("x")):
        pass


async def test_a_key_is_forgotten_after_its_time(room):
    """B17: on the disk too; each at its own time."""
    keys = keys_of(room)
    await send(room, "a")
    room.time += 1000
    await send(room, "b")
    assert room.time - 1000 + keys.keep_seconds == await keys.expire_due()
    room.time += keys.keep_seconds - 500
    assert room.time + 500 == await keys.expire_due()
    await room.committer.durable()
    assert 1 == len(known(room))
    assert not (await send(room, "a", "y"))[0].repeat
    assert (await send(room, "b"))[0].repeat
    room.time += 2 * keys.keep_seconds
    assert inf == await keys.expire_due()


async def test_k12_no_key_is_forgotten_by_a_wrong_clock(room):
    keys, right = keys_of(room), room.time
    room.kernel.removal_now = lambda: right
    await send(room, "a")
    room.time += 2 * keys.keep_seconds
    await keys.expire_due()
    await room.committer.durable()
    assert 1 == len(known(room))


async def test_a_key_that_is_over_is_free_before_it_is_swept(room):
    await send(room, "a")
    room.time += keys_of(room).keep_seconds
    assert not (await send(room, "a", "y"))[0].repeat


async def test_the_timer_is_told_of_the_first_end(room):
    noted = []
    keys_of(room).ends = noted.append
    await send(room, "a")
    after = Server(store=room.store)
    keys_of(after).ends = noted.append
    keys_of(after).restore(known(room))
    assert [room.time + keys_of(room).keep_seconds] * 2 == noted


@pytest.mark.parametrize("whose", ["user_receipts_max", "receipts_max"])
async def test_the_oldest_keys_are_forgotten_when_there_are_too_many(room, whose):
    """B17: in receipts, because a batch has one for each record; of one user, and of all."""
    room.idempotent_writes.keys = keys = Keys(room.kernel, room.now, **{whose: 10})
    for number in range(5):
        await send(room, str(number), count=2)
    assert all(item.repeat for item in await send(room, "0", count=2))
    await send(room, "5", count=2)
    assert not (await send(room, "0", "y"))[0].repeat
    assert (await send(room, "5", count=2))[0].repeat
    await room.committer.durable()
    assert len(known(room)) == keys._counts.total() == keys._total <= 10


class Owners(Counter):
    """Counts of owners, which are not added up."""

    def total(self):
        raise AssertionError("the receipts of all owners were added up")

    def values(self):
        raise AssertionError("the receipts of all owners were looked at")


async def test_a_request_costs_the_same_whoever_else_has_keys(room):
    """B17, P4: the receipts of all users are counted as they come and go."""
    await send(room, "ben's", caller=BEN)
    room.idempotent_writes.keys = keys = Keys(room.kernel, room.now, receipts_max=10)
    keys._counts = Owners()
    keys.restore(known(room))
    for number in range(12):
        await send(room, str(number))
    assert not (await send(room, "ben's", caller=BEN))[0].repeat
    room.time += 2 * keys.keep_seconds
    assert inf == await keys.expire_due()
    assert (0, Owners()) == (keys._total, keys._counts)


async def test_one_user_does_not_use_up_what_is_there_for_others(room):
    room.idempotent_writes.keys = Keys(room.kernel, room.now, user_receipts_max=10)
    await send(room, "ben's", caller=BEN)
    for number in range(40):
        await send(room, str(number))
    assert (await send(room, "ben's", caller=BEN))[0].repeat


async def test_nothing_is_kept_of_a_request_that_was_refused(room):
    event = Event("Dog/1", PUT, b"[1]", qos=1, retain=True)
    with keys_of(room).claim(ANN, "k", digest("x")) as claim:
        claim.mark(event, 0)
        with pytest.raises(Error):
            await room.kernel.write(event, ANN)
    assert ([], {}) == (known(room), keys_of(room)._entries)


async def test_a_disk_that_refuses_leaves_nothing_known(room):
    if not isinstance(room.store, MemoryStore):
        pytest.skip("a disk in memory is the one that refuses")

    def full(what):
        raise Error(Code.BUSY, what)

    room.store.fault = full
    (refused,) = await send(room, "k")
    room.store.fault = None
    (written,) = await send(room, "k")
    assert (Code.BUSY, Receipt, False) == (refused.code, type(written), written.repeat)
