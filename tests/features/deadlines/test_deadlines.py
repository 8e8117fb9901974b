"""Deadlines: silence is an event, and so is its end (M4, C29)."""

import heapq
import json
from types import SimpleNamespace

import pytest

from build import ANN, KEY, NOW, Listener, Server, turns
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.deadlines.deadlines import Deadlines
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

SENSOR = Table("Sensor", "Sensor", (KEY,), deadline_seconds=30)
PLAIN = Table("Plain", "Plain", (KEY,))
TABLES = (SENSOR, PLAIN)


class Timers:
    """The part of a loop that deadlines use, on the room's clock."""

    def __init__(self, room):
        self.room = room
        self.soon, self.timers, self.count = [], [], 0

    def time(self):
        return self.room.time

    def call_soon(self, call, *arguments):
        self.soon.append((call, arguments))

    def call_later(self, seconds, call, *arguments):
        return self.call_at(self.room.time + seconds, call, *arguments)

    def call_at(self, when, call, *arguments):
        self.count += 1
        timer = Timer(when, self.count, call, arguments)
        heapq.heappush(self.timers, timer)
        return timer

    async def until(self, when):
        """Let time pass."""
        await self.turn()
        while self.timers and self.timers[0].at <= when:
            timer = heapq.heappop(self.timers)
            self.room.time = max(self.room.time, timer.at)
            if not timer.cancelled:
                timer.call(*timer.arguments)
            await self.turn()
        self.room.time = when
        await self.turn()

    async def turn(self):
        await turns()
        while self.soon:
            call, arguments = self.soon.pop(0)
            call(*arguments)
            await turns()


class Timer:
    """A handle without ``when()``, as uvloop gives for what is due within half a millisecond."""

    def __init__(self, at, number, call, arguments):
        self.at, self.number, self.call, self.arguments = at, number, call, arguments
        self.cancelled = False

    def __lt__(self, other):
        return (self.at, self.number) < (other.at, other.number)

    def cancel(self):
        self.cancelled = True


async def begin(store=None, time=NOW, tables=TABLES, **bounds):
    """Return a room whose deadlines are watched, its timers, and what is told."""
    room = Server(tables, store=store)
    room.time = time
    timers, told = Timers(room), Listener(room, "$stale/#")
    room.deadlines = Deadlines(room.kernel, tables, room.now, **bounds)
    room.deadlines._loop = timers
    await room.deadlines.start()
    await timers.turn()
    return room, timers, told


def kinds(told):
    return [(event.kind, event.topic) for event in told.events]


async def stale(room, wanted=True):
    page = await room.kernel.search(SENSOR, Query(stale=wanted), ANN)
    return [record.topic for record in page.records]


async def test_silence_is_told_once_with_the_time_of_the_last_word():
    room, timers, told = await begin()
    await room.put("Sensor/1")
    await timers.until(NOW + 29.9)
    assert ([], []) == (kinds(told), await stale(room))
    await timers.until(NOW + 200)
    assert [(PUT, "$stale/Sensor/1")] == kinds(told)
    facts = json.loads(told.events[0].payload)
    assert {"last_seen": "2023-11-14T22:13:20.000Z", "deadline_seconds": 30} == facts
    assert NOW + 30 == pytest.approx(told.events[0].version / 1e6, abs=0.1)
    assert (["Sensor/1"], []) == (await stale(room), await stale(room, wanted=False))


async def test_reads_that_fail_for_a_moment_are_tried_again(monkeypatch):
    """A disk may be slow when the server starts, or when a result has come."""
    room = Server(TABLES)
    await room.put("Sensor/1")
    room.time += 40
    reader, errors = room.kernel.reader, []

    def failing(name):
        read = getattr(reader, name)

        async def fails_first(*arguments):
            if name not in errors:
                errors.append(name)
                raise Error(Code.BUSY, "the disk is slow")
            return await read(*arguments)

        monkeypatch.setattr(reader, name, fails_first)

    failing("scan")
    failing("page")
    deadlines = Deadlines(room.kernel, TABLES, room.now)
    deadlines._loop, deadlines.retry_seconds = Timers(room), 0
    await deadlines.start()
    deadlines._look()
    assert (["scan"], ["Sensor/1"]) == (errors, list(deadlines._stale))
    room.kernel.bus.remove(TopicFilter("Sensor/#"), deadlines)  # it is not offered what comes
    event = (await room.put("Sensor/1")).event
    deadlines.fall_behind(event)
    await turns(20)
    assert (["scan", "page"], []) == (errors, list(deadlines._stale))


async def test_who_writes_in_time_is_never_stale():
    room, timers, told = await begin()
    for second in range(0, 300, 20):
        await room.put("Sensor/1")
        await timers.until(NOW + second)
    assert ([], ["Sensor/1"]) == (kinds(told), await stale(room, wanted=False))
    assert 1 == len(room.deadlines._due)


async def test_it_is_fresh_when_it_returns_and_late_again_after_as_long():
    room, timers, told = await begin()
    await room.put("Sensor/1")
    await timers.until(NOW + 40)
    await room.put("Sensor/1")
    await timers.until(NOW + 69.9)
    assert [PUT, DELETE] == [kind for kind, _ in kinds(told)]
    await timers.until(NOW + 71)
    assert [PUT, DELETE, PUT] == [kind for kind, _ in kinds(told)]


async def test_what_is_said_there_is_no_sign_of_life_and_other_tables_have_no_deadline():
    room, timers, told = await begin()
    await room.put("Sensor/1")
    await room.put("Plain/1")
    await timers.until(NOW + 20)
    await room.say("Sensor/1", qos=1)
    await timers.until(NOW + 31)
    assert [(PUT, "$stale/Sensor/1")] == kinds(told)


async def test_a_deleted_record_is_not_awaited():
    room, timers, told = await begin()
    for topic in ("Sensor/1", "Sensor/2", "Sensor/3"):
        await room.put(topic)
    await room.delete("Sensor/1")
    await room.delete("Sensor/3")
    await room.put("Sensor/3")
    await timers.until(NOW + 31)
    late = [(PUT, "$stale/Sensor/2"), (PUT, "$stale/Sensor/3")]
    assert late == sorted(kinds(told))
    await room.delete("Sensor/2")
    await timers.until(NOW + 32)
    assert (DELETE, "$stale/Sensor/2") == kinds(told)[-1]
    await timers.until(NOW + 100)
    assert ({}, []) == (room.deadlines._seen, room.deadlines._due)


async def test_after_a_restart_all_is_as_the_records_say():
    """No longer late, late meanwhile, late before and still, gone meanwhile."""
    room, timers, _ = await begin()
    for topic in ("Sensor/still", "Sensor/gone", "Sensor/back"):
        await room.put(topic)
    await timers.until(NOW + 31)
    await room.put("Sensor/late")
    room.deadlines.stop()  # it does not see what is written now
    await room.put("Sensor/back")
    await room.delete("Sensor/gone")
    room, timers, told = await begin(room.store, NOW + 60)
    await timers.until(NOW + 60)
    assert [(DELETE, "$stale/Sensor/back"), (DELETE, "$stale/Sensor/gone")] == sorted(kinds(told))
    await timers.until(NOW + 61.1)
    late = [(PUT, "$stale/Sensor/back"), (PUT, "$stale/Sensor/late")]
    assert late == sorted(kinds(told)[2:])


async def test_a_table_that_lost_its_deadline_has_nothing_stale_any_more():
    room, timers, _ = await begin()
    await room.put("Sensor/1")
    await timers.until(NOW + 31)
    without = Table("Sensor", "Sensor", (KEY,))
    room, timers, told = await begin(room.store, NOW + 60, (without, PLAIN))
    assert [(DELETE, "$stale/Sensor/1")] == kinds(told)


async def test_many_are_looked_at_a_part_at_a_time():
    room, timers, told = await begin(looks_per_turn=3)
    for number in range(10):
        await room.put(f"Sensor/{number}")
    room.time = NOW + 31
    room.deadlines._look()
    assert (3, 1) == (len(room.deadlines._stale), len(timers.soon))
    await timers.until(NOW + 31)
    assert 10 == len(kinds(told))


async def test_a_disk_that_refuses_is_tried_again(monkeypatch):
    room, timers, told = await begin()
    await room.put("Sensor/1")
    commit = room.store.commit
    monkeypatch.setattr(room.store, "commit", _fails)
    await timers.until(NOW + 30.5)
    assert [] == kinds(told)
    monkeypatch.setattr(room.store, "commit", commit)
    await timers.until(NOW + 33)
    assert [(PUT, "$stale/Sensor/1")] == kinds(told)


def _fails(*_arguments, **_options):
    raise OSError("no space left on device")


async def test_a_reader_that_was_away_or_begins_learns_the_truth():
    """It is in the log like all else: continued by position, or current at the beginning."""
    room, timers, _ = await begin()
    await room.put("Sensor/1")
    before = room.committer.announced
    await timers.until(NOW + 31)
    for since in (before, None):
        reader = Subscription(room.reader)
        interest = SubscribedFilter(TopicFilter("$stale/#"))
        room.kernel.watch(reader, interest, ANN, since, current=since is None)
        heard = []
        for _ in range(10):
            heard += reader.take(10)
            await turns()
        assert "$stale/Sensor/1" in [event.topic for event, _ in heard]
        room.kernel.close(reader)


class Machine:
    """The part of a kernel that deadlines use, without a disk."""

    def __init__(self, room):
        self.room, self.told = room, []
        self.bus = room.bus
        self.committer = SimpleNamespace(crowded=False)

    def submit(self, event, caller, done):
        self.told.append((self.room.time, event.topic, event.kind))


@pytest.mark.slow
async def test_a_hundred_thousand_records_each_in_its_time():
    """M4: within 100 ms, and each is looked at once for each deadline, however often it writes."""
    room, count = Server(TABLES), 100_000
    machine, timers = Machine(room), Timers(room)
    watch = Deadlines(machine, TABLES, room.now)
    watch._loop, watch._starting = timers, False
    events = [Event(f"Sensor/{number}", PUT, b"", table=SENSOR) for number in range(count)]
    for turn in range(3):
        for number, event in enumerate(events):
            event.version = int((NOW + turn + number / count) * 1e6)
            watch.offer(event)
    assert (count, count) == (len(watch._due), len(watch._seen))
    while timers.timers and len(machine.told) < count:
        timer = heapq.heappop(timers.timers)
        room.time = max(room.time, timer.at)
        timer.call()
        while timers.soon:
            call, arguments = timers.soon.pop()
            call(*arguments)
    late = [time - (NOW + 32 + int(topic[14:]) / count) for time, topic, _ in machine.told]
    assert count == len(late)
    assert all(-1e-3 < seconds < 0.1 for seconds in late)
    assert ([], {}) == (watch._due, watch._seen)
