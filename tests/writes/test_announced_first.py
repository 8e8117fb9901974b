"""QoS 0 messages that are announced at once, and stored behind it (log.qos0: behind)."""

import asyncio

import pytest

from build import ANN, BEN, Code, Listener, Server, turns
from rowcast.core.cursors import Cursor
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.limits import SEQ_RESERVE
from rowcast.core.overload_limits import DISK_PROBE_SECONDS
from rowcast.core.topic_tables import TopicRoot
from rowcast.store.disk import size_of
from rowcast.subscriptions.start_position import why_lost
from rowcast.writes.pending_bytes import WriteBounds
from rowcast.writes.write import FIRE_AND_FORGET, Condition, FireAndForget, Write

AT_ONCE = FireAndForget(at_once=True)


def message(topic, caller=ANN, done=AT_ONCE, kind=MESSAGE, qos=0, **options):
    return Write(Event(topic, kind, b"1", qos=qos), caller, done, **options)


def put(topic, caller=ANN):
    return Write(Event(topic, PUT, b"1", retain=True), caller)


async def started(**options):
    """Return a server whose log is idle and has numbers to give, with its writer held."""
    room = Server(**options)
    await room.put("u/0")
    room.writer.hold()
    return room, Listener(room)


async def submitted(room, *writes):
    for write in writes:
        room.committer.submit([write])
        await turns()


async def done(room):
    room.writer.release()
    await room.committer.settle()


def stored(room):
    return [event.topic for event in room.store.read(0, 99)]


async def test_it_is_announced_before_it_is_stored():
    room, listener = await started()
    await submitted(room, message("u/1"))
    assert (["u/1"], ["u/0"]) == (listener.topics, stored(room))
    assert room.committer.stored < room.committer.announced == listener.events[0].seq
    await done(room)
    assert ["u/0", "u/1"] == stored(room)
    assert room.committer.stored == room.committer.announced


async def test_those_that_come_meanwhile_are_stored_together_next():
    room, listener = await started()
    await submitted(room, *(message(f"u/{number}") for number in range(1, 6)))
    assert ["u/1", "u/2", "u/3", "u/4", "u/5"] == listener.topics
    before = room.committer.commits
    await done(room)
    assert ["u/0", *listener.topics] == stored(room)
    assert before + 2 == room.committer.commits
    seqs = [event.seq for event in listener.events]
    assert sorted(set(seqs)) == seqs


def full(room, most):
    """Make the disk refuse batches of more than ``most`` bytes; return the sizes."""
    append, sizes = room.store.append, []

    def checked(packed, **options):
        sizes.append(size_of(*packed))
        if sizes[-1] > most[0]:
            raise Error(Code.BUSY, "the disk is full")
        append(packed, **options)

    room.store.append = checked
    return sizes


async def test_after_a_full_disk_messages_are_announced_at_once_again():
    """X9: no client has to write as much as was refused; the server tries it by itself."""
    room, most = Server(), [3_000]
    await room.put("u/0")
    sizes = full(room, most)
    with pytest.raises(Error, match="full"):
        await room.put("u/large", b"x" * 9_000)
    for number in range(5):
        await room.put(f"u/{number}")
        await room.committer.settle()
    assert [9_000, 2, 9_000, 2, 2, 2, 2] == sizes
    assert "the disk is full" == room.committer.disk.refused
    room.committer.submit([put("u/with")])
    await room.committer.durable()  # facts beside a write, behind a probe
    most[0] = 100_000
    room.committer.disk._probed_at -= DISK_PROBE_SECONDS
    room.committer.submit([message("u/1")])
    await room.committer.settle()
    assert "" == room.committer.disk.refused
    assert ([], 0) == (room.store.states("disk"), room.committer._waiting_facts)
    listener = Listener(room)
    room.writer.hold()
    await submitted(room, message("u/2"))
    assert ["u/2"] == listener.topics
    await done(room)


async def test_none_passes_a_write_that_has_to_wait_for_the_disk():
    """Neither one of its caller's nor of others: numbers are announced in their order."""
    room, listener = await started()
    await submitted(room, message("u/1"), put("u/2"), message("u/3"), message("u/4", BEN))
    assert ["u/1"] == listener.topics
    await done(room)
    assert ["u/1", "u/2", "u/3", "u/4"] == listener.topics == stored(room)[1:]
    await started()


async def test_none_is_announced_while_a_durable_batch_is_on_its_way():
    room, listener = await started()
    await submitted(room, put("u/1"), message("u/2"))
    assert [] == listener.topics
    await done(room)
    assert ["u/1", "u/2"] == listener.topics


@pytest.mark.parametrize(
    "write",
    [
        message("u/1", qos=1),
        message("u/1", kind=PUT),
        message("u/1", kind=DELETE),
        message("u/1", done=FIRE_AND_FORGET),
        message("u/1", done=lambda _outcome: None),
        message("u/1", condition=Condition(exists=True)),
    ],
    ids=["qos 1", "retained", "cleared", "of the server", "with a waiter", "with a condition"],
)
async def test_others_are_stored_first(write):
    room, listener = await started()
    await submitted(room, write)
    assert [] == listener.topics
    await done(room)


async def test_a_page_of_the_log_waits_for_what_is_announced():
    """It is complete up to what is announced, and so is a history."""
    room, listener = await started()
    await submitted(room, message("u/1"), message("u/2"))
    source = TopicRoot("u")
    page = asyncio.ensure_future(room.reader.page(0, 9, [source]))
    last = asyncio.ensure_future(room.reader.history(source, "u/2", 9))
    await turns()
    assert not (page.done() or last.done())
    await done(room)
    assert ["u/0", "u/1", "u/2"] == [event.topic for event in (await page).events]
    assert listener.events[-1].seq <= (await page).upto
    assert ["u/2"] == [event.topic for event in await last]


async def test_who_reads_the_log_waits_no_longer_than_a_query_may():
    """A disk that hangs is told as BUSY; all who wait at one place share what they wait for."""
    room, _ = await started()
    await submitted(room, message("u/1"))
    room.reader.queue.query_seconds = 0.01
    for _ in range(3):
        with pytest.raises(Error, match="does not take what was announced") as told:
            await room.reader.page(0, 9, [TopicRoot("u")])
    assert (Code.BUSY, 1) == (told.value.code, len(room.committer.announced_first.waiting))
    await done(room)
    page = await room.reader.page(0, 9, [TopicRoot("u")])
    assert ["u/0", "u/1"] == [event.topic for event in page.events]


async def test_what_the_disk_refuses_is_counted_and_those_after_it_wait(caplog):
    room, listener = await started()

    def refuse(name):
        if name == "commit":
            raise Error(Code.BUSY, "the disk is full")

    room.store.fault = refuse
    await submitted(room, message("u/1"), message("u/2"))
    page = asyncio.ensure_future(room.reader.page(0, 9, [TopicRoot("u")]))
    await turns()
    await done(room)
    assert (2, {}) == (room.committer.announced_first.lost, room.committer.pending)
    assert "delivered and are not stored: the disk is full" in caplog.text
    assert ["u/0"] == [event.topic for event in (await page).events]
    await submitted(room, message("u/3"))
    assert ["u/1", "u/2"] == listener.topics
    room.store.fault = lambda _name: None
    await submitted(room, message("u/4"), message("u/5"))
    assert ["u/1", "u/2", "u/4", "u/5"] == listener.topics
    assert ["u/0", "u/4", "u/5"] == stored(room)
    seqs = [event.seq for event in listener.events]
    assert sorted(set(seqs)) == seqs


async def test_a_failure_that_nobody_expects_loses_no_more(caplog):
    room, listener = await started()
    room.store.fault = lambda name: 1 / 0 if name == "commit" else None
    await submitted(room, message("u/1"))
    room.writer.step()
    await turns()
    room.store.fault = lambda _name: None
    await submitted(room, message("u/2"))
    await done(room)
    assert (["u/1", "u/2"], ["u/0", "u/2"]) == (listener.topics, stored(room))
    assert "ZeroDivisionError" in caplog.text


async def test_their_bytes_are_held_until_they_are_stored():
    """So that a flood is slowed by the disk, though nobody waits for it."""
    room, _ = await started(bounds=WriteBounds(client_high=1_500))
    await submitted(room, *(message(f"u/{number}") for number in range(1, 4)))
    assert room.committer.slows(ANN)
    assert not room.committer.slows(BEN)
    waits = asyncio.ensure_future(room.committer.room(ANN))
    await turns()
    assert not waits.done()
    await done(room)
    await waits
    assert ({}, 0) == (room.committer.pending, room.committer.pending.size)


async def test_what_is_announced_meanwhile_is_bounded():
    room, listener = await started(bounds=WriteBounds(batch=1_500))
    await submitted(room, *(message(f"u/{number}") for number in range(1, 9)))
    assert 1 < len(listener.topics) < 8
    await done(room)
    assert [f"u/{number}" for number in range(1, 9)] == listener.topics == stored(room)[1:]


async def test_numbers_are_reserved_before_they_are_announced():
    room, listener = await started(bounds=WriteBounds(reserved_numbers=2))
    for number in range(1, 9):
        await submitted(room, message(f"u/{number}"))
        assert all(event.seq <= room.store.reserved() for event in listener.events)
        room.writer.step()
        await turns()
    await done(room)
    assert [f"u/{number}" for number in range(1, 9)] == listener.topics == stored(room)[1:]


async def test_a_cursor_of_a_message_that_a_crash_took_stays_valid():
    """Its number is not used again, so nothing comes to lie before it."""
    room, listener = await started()
    await submitted(room, message("u/1"))
    heard = listener.events[0].seq
    again = Server(store=room.store)
    assert again.committer.announced < heard < again.committer.reach == SEQ_RESERVE + 1
    cursor = Cursor(again.reader.epoch, heard)
    assert "" == why_lost(cursor, again.reader.epoch, again.reader.reach())
    receipt = await again.put("u/2")
    assert receipt.event.seq > heard
    assert ["u/2"] == [event.topic for event in (await again.reader.page(heard, 9, ())).events]


async def test_threads_that_have_stopped_lose_what_is_announced():
    room, listener = await started()
    await submitted(room, message("u/1"), message("u/2"))
    room.writer.stopped = True
    room.writer.release()
    await room.committer.settle()
    assert (["u/1", "u/2"], ["u/0", "u/1"]) == (listener.topics, stored(room))
    assert (1, {}) == (room.committer.announced_first.lost, room.committer.pending)
