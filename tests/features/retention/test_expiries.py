"""What ends by itself ends at its time, by one timer (A5, E17)."""

import asyncio
from heapq import heappop, heappush
from itertools import count, pairwise
from math import inf

import pytest

from build import LEASE, NOW, Listener, Server, turns
from rowcast.core.clock import LeapGuard
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE
from rowcast.core.topics import TopicFilter
from rowcast.features.retention.expiries import EndOfRecords, Expiries
from rowcast.routes.resource import Resource

MINUTE = {"message_expiry_interval": 60}


class Timers:
    """Time that passes when the test says so."""

    def __init__(self, room):
        self.room = room
        self.heap = []
        self.numbers = count()
        self.rung = 0

    def later(self, seconds, call):
        timer = Timer()
        heappush(self.heap, (self.room.time + seconds, next(self.numbers), timer, call))
        return timer

    async def pass_time(self, seconds):
        """Ring what is due until then, each when its time has come."""
        end = self.room.time + seconds
        await turns(20)
        while self.heap and self.heap[0][0] <= end:
            at, _, timer, call = heappop(self.heap)
            if not timer.over:
                self.rung += 1
                self.room.time = max(self.room.time, at)
                call()
                await turns(20)
        self.room.time = end

    @property
    def waiting(self):
        return sum(not timer.over for _, _, timer, _ in self.heap)


class Timer:
    over = False

    def cancel(self):
        self.over = True


class Fixed:
    """Something that ends as the test says."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def expire_due(self):
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else inf
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def room():
    return Server()


@pytest.fixture
async def timers(room):
    return Timers(room)


def watch(room, timers, *sources):
    sources = sources or (EndOfRecords(room.kernel, room.now),)
    expiries = Expiries(sources, room.now, timers.later)
    room.committer.on_rare.append(expiries.written)
    expiries.start()
    return expiries


def ended(listener):
    return [event.topic for event in listener.events if event.kind == DELETE]


async def test_a_record_ends_at_its_time(room, timers):
    """A5: the delete event is there when the time is over, not up to a sweep later."""
    watch(room, timers)
    heard = Listener(room)
    await room.put("Lease/1", b'{"name":"x"}')
    await timers.pass_time(59.9)
    assert [] == ended(heard)
    await timers.pass_time(0.2)
    assert ["Lease/1"] == ended(heard)


async def test_a_retained_message_ends_at_its_time(room, timers):
    """E17, MQTT-3.3.2-5."""
    watch(room, timers)
    heard = Listener(room)
    await room.put("home/t", b"1", properties={"message_expiry_interval": 3})
    await timers.pass_time(2.9)
    assert [] == ended(heard)
    await timers.pass_time(0.2)
    assert ["home/t"] == ended(heard)


async def test_a_record_that_is_written_again_lives_on(room, timers):
    """A6: from its last write."""
    watch(room, timers)
    heard = Listener(room)
    await room.put("Lease/1", b"{}")
    await timers.pass_time(40)
    await room.put("Lease/1", b"{}")
    await timers.pass_time(59)
    assert [] == ended(heard)
    await timers.pass_time(2)
    assert ["Lease/1"] == ended(heard)


async def test_the_nearest_of_many_goes_first(room, timers):
    watch(room, timers)
    heard = Listener(room)
    for seconds in (30, 10, 20):
        properties = {"message_expiry_interval": seconds}
        await room.put(f"t/{seconds}", b"1", properties=properties)
    for number in (1, 2, 3):
        await timers.pass_time(10.1)
        assert ["t/10", "t/20", "t/30"][:number] == ended(heard)


async def test_a_message_that_is_not_retained_moves_no_timer(room, timers):
    expiries = watch(room, timers)
    room.kernel.durable.add(TopicFilter("#"))
    await room.say("t/1", qos=1, properties=MINUTE)
    await timers.pass_time(100)
    assert 1 == expiries.looks


async def test_what_ended_while_the_server_was_off_ends_at_the_start(room, timers):
    """A5: nothing is in memory that a kill could take."""
    await room.put("Lease/1", b"{}")
    after = Server(store=room.store)
    after.time = NOW + 3600
    heard, later = Listener(after), Timers(after)
    watch(after, later)
    await later.pass_time(0)
    assert ["Lease/1"] == ended(heard)


async def test_what_ends_after_a_restart_ends_at_its_time(room, timers):
    await room.put("Lease/1", b"{}")
    after = Server(store=room.store)
    heard, later = Listener(after), Timers(after)
    watch(after, later)
    await later.pass_time(59.9)
    assert [] == ended(heard)
    await later.pass_time(0.2)
    assert ["Lease/1"] == ended(heard)


@pytest.mark.heavy
async def test_many_records_cost_one_timer_and_no_scan(room, timers):
    """A5: only the nearest end is in memory, and nothing is asked before it."""
    expiries = watch(room, timers)
    for number in range(300):
        await room.put(f"Lease/{number}", b"{}")
    await timers.pass_time(50)
    assert (1, 1) == (timers.waiting, expiries.looks)
    await timers.pass_time(20)
    assert 2 == expiries.looks
    assert room.store.next_expiry() is None


async def test_those_that_end_one_after_the_other_end_together(room, timers):
    """There is a rest between two looks."""
    expiries = watch(room, timers)
    heard = Listener(room)
    for number in range(100):
        await room.put(f"Lease/{number}", b"{}")
        room.time += 0.001
    await timers.pass_time(70)
    assert (100, True) == (len(ended(heard)), expiries.looks <= 5)


async def test_a_write_during_a_look_is_not_missed(room, timers):
    """What the store answered may be older than what was announced meanwhile."""

    class Slow(Fixed):
        async def expire_due(self):
            answer = await super().expire_due()
            if self.asked == 1:
                expiries.note(NOW + 5)
            return answer

    ending = Slow(inf, inf)
    expiries = watch(room, timers, ending)
    await timers.pass_time(4.9)
    assert 1 == ending.asked
    await timers.pass_time(0.2)
    assert 2 == ending.asked


@pytest.mark.parametrize("failure", [Error(Code.BUSY, "full"), ValueError("a bug"), 0.0])
async def test_what_cannot_be_ended_is_tried_again_ever_later(room, timers, failure):
    """A disk that refuses, or a class that does not delete, is not asked without a rest."""
    ending = Fixed(*[failure] * 50)
    watch(room, timers, ending)
    asked = []
    for seconds in (0, 1, 2, 4, 8, 16, 32, 60, 60):
        await timers.pass_time(seconds)
        asked.append(ending.asked)
    assert list(range(1, 10)) == asked


async def test_e17_what_is_over_is_searched_for_at_intervals(room, timers):
    """msg_clear_interval: also what the timer was not told of; a failure does not end it."""
    expiries = Expiries([EndOfRecords(room.kernel, room.now)], room.now, timers.later)
    heard = Listener(room)
    await room.put("a/b", b"x", properties={"message_expiry_interval": 1})
    room.time += 2
    trouble = [Error(Code.BUSY, "the disk is full")] * 2
    room.store.fault = lambda name: _raise(trouble.pop()) if name == "commit" and trouble else None
    searching = asyncio.create_task(expiries.search(0))
    for _ in range(9):
        await timers.pass_time(1)
    searching.cancel()
    assert ([], ["a/b"]) == (trouble, ended(heard))


def _raise(error):
    raise error


async def test_a_short_leap_of_the_clock_ends_nothing(room, timers):
    """P6: what a clock says for two seconds is not believed; after a minute it is."""
    leap = [0.0]
    now = LeapGuard(lambda: room.time + leap[0], room.now)
    expiries = Expiries([EndOfRecords(room.kernel, now)], now, timers.later)
    room.committer.on_rare.append(expiries.written)
    expiries.start()
    heard = Listener(room)
    await room.put("t", b"1", properties={"message_expiry_interval": 86_400})
    for seconds in (1, 2):
        leap[0] = 400.0 * 86_400 - leap[0]
        expiries.note(0.0)
        await timers.pass_time(seconds)
    assert [] == ended(heard)
    leap[0] = 400.0 * 86_400
    await timers.pass_time(200)
    assert ["t"] == ended(heard)


async def test_a_clock_that_is_set_ahead_is_noticed_within_a_minute(room, timers):
    watch(room, timers)
    heard = Listener(room)
    await room.put("t", b"1", properties={"message_expiry_interval": 86_400})
    await timers.pass_time(1)
    room.time += 86_400
    timers.heap = [(at + 86_400, *rest) for at, *rest in timers.heap]
    await timers.pass_time(61)
    assert ["t"] == ended(heard)


async def test_nothing_is_ended_after_the_stop(room, timers):
    expiries = watch(room, timers)
    heard = Listener(room)
    await room.put("Lease/1", b"{}")
    await timers.pass_time(1)
    await expiries.stop()
    await timers.pass_time(100)
    assert [] == ended(heard)
    await room.put("Lease/2", b"{}")
    assert 0 == timers.waiting


async def test_it_looks_once_at_the_start(room, timers):
    ending = Fixed(inf)
    watch(room, timers, ending)
    await timers.pass_time(1000)
    assert 1 == ending.asked


async def test_a_record_whose_deletion_is_refused_delays_no_other():
    """Others end at their time; it is tried again ever later, and ends when it may."""
    tried, refusing = [], True

    class Lease(Resource):
        async def delete(self):
            if self.id == "stuck" and refusing:
                tried.append(room.time)
                raise Error(Code.DENIED, "not now")
            await super().delete()

    room = Server(resources=[("Lease", Lease)])
    timers, heard = Timers(room), Listener(room)
    await room.put("Lease/stuck")
    watch(room, timers)
    for number in range(20):
        await timers.pass_time(7.5)
        await room.put(f"Lease/{number}")
    await timers.pass_time(LEASE.expiration_seconds + 0.1)
    assert [f"Lease/{number}" for number in range(20)] == ended(heard)
    gaps = [later - former for former, later in pairwise(tried)]
    assert [1, 2, 4, 8, 16, 32, 60] == pytest.approx(gaps[:7], abs=0.2)
    refusing = False
    await timers.pass_time(60)
    assert ended(heard)[-1] == "Lease/stuck"
