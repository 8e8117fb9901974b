"""A clock that was wrong for a while poisons no record (P6, E26)."""

import pytest

from build import ANN, DOG, NOW, Server, refusal
from memory_store import MemoryStore
from rowcast.core.clock import PER_SECOND, seconds_of, version_of
from rowcast.core.errors import Code
from rowcast.core.events import DELETE, PUT, Event
from rowcast.store.sqlite import SqlStore
from rowcast.writes.last_write_wins import put_stamp

LEAP = 400 * 86_400


@pytest.fixture(params=["memory", "sqlite"])
async def room(request, tmp_path):
    store = SqlStore(tmp_path / "rowcast.db") if request.param == "sqlite" else MemoryStore()
    yield Server(store=store)
    store.close()


async def device(room, topic, at, payload=b'{"name":"device"}', kind=PUT):
    """Write as a device does that says when its value was."""
    event = Event(topic, kind, payload, qos=1, retain=True)
    put_stamp(event, str(version_of(int(at * 1000))), "device")
    return await room.kernel.write(event, ANN)


async def leap(room, *writes):
    """Let the clock be wrong while some writes are made."""
    room.time += LEAP
    for write in writes:
        await write
    room.time -= LEAP


def record(room, topic):
    return room.store.get(DOG if topic.startswith("Dog") else None, topic)


@pytest.mark.parametrize("topic", ["u/1", "Dog/1"])
async def test_a_device_s_write_wins_over_what_a_wrong_clock_wrote(room, topic):
    """P6: whose version says nothing; afterwards, the newest wins as ever."""
    await leap(room, room.put(topic, b'{"name":"wrong"}'))
    assert NOW + LEAP == seconds_of(record(room, topic).version)
    room.time += 10
    newer = await device(room, topic, room.time - 1)
    older = await device(room, topic, room.time - 5, b"{}")
    assert (0, newer.event.version) == (newer.late, older.late)
    assert NOW + 9 == seconds_of(record(room, topic).version)


@pytest.mark.parametrize("topic", ["u/1", "Dog/1"])
async def test_a_plain_write_brings_a_record_back_to_its_time(room, topic):
    """P6: and devices win over it or not by their time, within a minute."""
    await leap(room, room.put(topic, b'{"name":"wrong"}'))
    await room.put(topic, b'{"name":"right"}')
    assert NOW < seconds_of(record(room, topic).version) <= NOW + 60
    room.time += 61
    assert not (await device(room, topic, room.time)).late


async def test_a_deletion_by_a_wrong_clock_keeps_nothing_away(room):
    """P6: its tombstone does not count."""
    await room.put("u/1", b"1")
    await leap(room, room.delete("u/1"))
    assert not (await device(room, "u/1", room.time)).late


@pytest.mark.parametrize("kind", [PUT, DELETE])
async def test_versions_increase_for_each_record_once_the_clock_is_right(room, kind):
    """P6: a bridge compares them; those that are too far ahead it would have refused."""
    await room.put("u/1", b"0")
    await leap(room, room.put("u/1", b"wrong"))
    versions = []
    for _ in range(20):
        if kind == PUT:
            versions.append((await room.put("u/1", b"1")).event.version)
        else:
            versions.append((await room.delete("u/1")).event.version)
        room.time += 7
    assert sorted(set(versions)) == versions
    assert seconds_of(versions[-1]) == room.time - 7


async def test_a_restart_does_not_keep_the_future(room):
    """P6: the last version on the disk is of a clock that was wrong."""
    await leap(room, room.put("u/1", b"wrong"))
    after = Server(store=room.store)
    written = await after.put("u/2", b"right")
    assert seconds_of(written.event.version) <= NOW + 60
    assert after.store.last_version() == written.event.version
    again = Server(store=room.store)
    assert again.clock.last == written.event.version


async def test_times_are_found_after_a_leap(room):
    """P6, B13: not at the events of the wrong clock."""
    await room.put("u/1", b"0")
    await leap(room, room.put("u/1", b"wrong"))
    await room.put("u/1", b"1")
    room.time += 1000
    written = await room.put("u/1", b"2")
    moment = int((room.time - 1) * PER_SECOND)
    assert room.store.since(None, moment) <= written.event.seq - 1
    assert seconds_of(written.event.version) == room.time


async def test_a_device_is_refused_what_is_too_far_ahead(room):
    """E26: 400 with a sentence, during a leap of the server's clock as well as without one."""
    assert Code.INVALID == await refusal(device(room, "u/1", NOW + 61))
    assert not (await device(room, "u/1", NOW + 59)).late


async def test_a_clock_that_goes_back_by_less_than_a_minute_changes_nothing(room):
    """E26: as before."""
    first = await room.put("u/1", b"1")
    room.time -= 50
    late = await device(room, "u/1", room.time)
    second = await room.put("u/1", b"2")
    assert (first.event.version, 0) == (late.late, room.clock.returns)
    assert first.event.version < second.event.version
