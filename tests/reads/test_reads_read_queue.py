"""The queue of reads: lanes, turns, slices, and what ends a read (P1)."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from build import ANN, DOG, Server, Threads, turns
from rowcast.core.callers import ALL, Caller
from rowcast.core.conditions import Condition, Operator
from rowcast.core.errors import Code, Error
from rowcast.core.queries import Query
from rowcast.core.read_limits import READ_SLICE_SECONDS, READ_WAITING_MAX
from rowcast.reads.read_queue import (
    ReadCaller,
    ReadLane,
    ReadQueue,
    current_read_caller,
    reads_of,
    turn_of,
)

KEYED, INDEXED, SEARCH, SCAN = ReadLane


class Reads:
    """A queue whose threads work when the test says so, on a store that hears of every read."""

    def __init__(self, threads=5, **options):
        self.executor = Threads()
        self.executor.held = True
        self.queue = ReadQueue(self, self.executor, threads, meter=self.meter, **options)
        self.begun, self.limits, self.worked = [], {}, {}
        self.tasks = {}

    def limited(self, limit, call):
        limit.check()
        return call()

    def meter(self):
        return lambda: 0.0

    def ask(self, name, lane=SEARCH, read_caller=None):
        """Ask for a read."""

        async def read():
            with reads_of(read_caller or ReadCaller()):
                return await self.queue.read(lambda: name, lane)

        self.tasks[name] = asyncio.ensure_future(read())
        return self.tasks[name]

    @property
    def under_way(self):
        """The names of the reads that have a thread."""
        return [job.call() for job in self.queue._running]

    def job(self, name):
        return next(job for job in self.queue._running if job.call() == name)

    async def lasts(self, *names, worked=READ_SLICE_SECONDS):
        """Let reads have used their slice, and look."""
        for name in names:
            self.job(name).worked = lambda: worked
        self.queue.look(0.0)
        await self.round()

    async def finish(self, *names):
        """Let the threads of these reads go on to their end."""
        for name in names:
            job = self.job(name)
            place = next(
                n for n, (_, _, args) in enumerate(self.executor.waiting) if args == (job,)
            )
            self.executor.waiting.rotate(-place)
            self.executor.step()
        await self.round()

    async def round(self):
        await turns(10)


async def asked(reads, names, lane=SEARCH, read_caller=None):
    for name in names:
        reads.ask(name, lane, read_caller)
    await reads.round()


# -- lanes -----------------------------------------------------------------------------------------


async def test_p1_searches_leave_threads_to_what_is_quicker():
    reads = Reads()
    await asked(reads, "abcdef", SEARCH)
    assert ["a", "b", "c"] == reads.under_way
    await asked(reads, "ij", INDEXED)
    assert ["a", "b", "c", "i"] == reads.under_way
    await asked(reads, "kl", KEYED)
    assert ["a", "b", "c", "i", "k"] == reads.under_way
    await reads.finish("a")
    assert ["b", "c", "i", "k", "l"] == reads.under_way


async def test_p1_what_is_quicker_leaves_a_thread_to_the_others():
    """A flood of keyed reads does not keep a search waiting for ever."""
    reads = Reads()
    await asked(reads, "12345678", KEYED)
    await asked(reads, "a", SEARCH)
    await reads.finish("1")
    assert "a" in reads.under_way


async def test_p1_a_search_that_lasts_goes_on_as_a_scan_where_there_is_room():
    reads = Reads()
    await asked(reads, "ab")
    await reads.lasts("a")
    assert (["a", "b"], SCAN) == (reads.under_way, reads.job("a").lane)
    await reads.finish("a", "b")
    assert ["a", "b"] == [reads.tasks[name].result() for name in "ab"]


async def test_p1_a_search_that_lasts_begins_again_when_it_is_its_turn_to_scan():
    reads = Reads(scans_max=1)
    await asked(reads, "ab")
    await reads.lasts("a", "b")
    assert reads.job("b").limit.ended is not None
    await reads.finish("b")
    assert (["a"], 1, False) == (reads.under_way, reads.queue.waiting, reads.tasks["b"].done())
    await reads.finish("a")
    assert (["b"], None) == (reads.under_way, reads.job("b").limit.ended)
    await reads.finish("b")
    assert ["a", "b"] == [reads.tasks[name].result() for name in "ab"]


async def test_p1_searches_have_threads_of_their_own_where_there_are_some():
    """An indexed read that becomes a scan begins again there; a search is there already."""
    reads, background = Reads(), Threads()
    background.held, reads.queue.background = True, background
    await asked(reads, "i", INDEXED)
    await asked(reads, "s", SEARCH)
    assert (1, 1) == (len(reads.executor.waiting), len(background.waiting))
    await reads.lasts("i", "s")
    assert (True, SCAN) == (reads.job("i").shelved, reads.job("s").lane)
    await reads.finish("i")
    assert (0, 2) == (len(reads.executor.waiting), len(background.waiting))
    while background.waiting:
        background.step()
    await reads.round()
    assert ["i", "s"] == [reads.tasks[name].result() for name in "is"]


async def test_p1_a_read_that_was_done_before_it_was_interrupted_has_its_answer():
    reads = Reads(scans_max=1)
    await asked(reads, "ab")
    await reads.lasts("a", "b")
    reads.job("b").limit.ended = None  # it had left the store by then
    await reads.finish("b")
    assert "b" == reads.tasks["b"].result()


async def test_p1_scans_have_only_their_threads():
    reads = Reads(scans_max=2)
    for name in "abcd":
        await asked(reads, [name])
        await reads.lasts(name)
        if name in "cd":
            await reads.finish(name)
    assert (["a", "b"], 2) == (reads.under_way, reads.queue.waiting)
    await asked(reads, "i", INDEXED)
    assert ["a", "b", "i"] == reads.under_way


# -- turns -----------------------------------------------------------------------------------------


async def test_p1_callers_take_turns_however_much_each_asks():
    reads = Reads(threads=1)
    await asked(reads, ["first"])
    await asked(reads, ["a1", "a2", "a3"], read_caller=ReadCaller("ann"))
    await asked(reads, ["b1"], read_caller=ReadCaller("ben"))
    begun = []
    while reads.under_way:
        begun += reads.under_way
        await reads.finish(*reads.under_way)
    assert ["first", "a1", "b1", "a2", "a3"] == begun


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Caller("ann", ALL, peer="10.0.0.1"), Caller("ann", ALL, peer="10.0.0.2"), True),
        (Caller("ann", ALL, peer="10.0.0.1"), Caller("ben", ALL, peer="10.0.0.1"), False),
        (Caller(peer="10.0.0.1"), Caller(peer="10.0.0.1"), True),
        (Caller(peer="10.0.0.1"), Caller(peer="10.0.0.2"), False),
    ],
)
def test_p1_a_user_has_turns_by_name_and_a_stranger_by_address(one, other, same):
    assert same is (turn_of(one) == turn_of(other))


async def test_p1_what_waits_for_one_caller_is_bounded():
    reads = Reads(threads=1)
    await asked(reads, ["first"])
    await asked(reads, range(READ_WAITING_MAX + 1), read_caller=ReadCaller("ann"))
    await asked(reads, ["b"], read_caller=ReadCaller("ben"))
    with pytest.raises(Error, match="wait for their turn") as caught:
        reads.tasks[READ_WAITING_MAX].result()
    assert Code.BUSY is caught.value.code
    assert not reads.tasks["b"].done()


# -- ends ------------------------------------------------------------------------------------------


async def test_p1_a_query_whose_time_is_over_is_ended_and_says_what_to_do():
    reads, read_caller = Reads(), ReadCaller("ann", 30)
    await asked(reads, "a", read_caller=read_caller)
    reads.queue.look(read_caller.until)
    await reads.round()
    with pytest.raises(Error, match=r"took 30 s.*@indexed.*narrow.*store\.query_timeout") as caught:
        reads.tasks["a"].result()
    error = caught.value
    told = {"retry_after_seconds": 30, "timeout_seconds": 30}
    assert (Code.BUSY, told) == (error.code, error.detail)
    assert (error, 1) == (reads.job("a").limit.ended, reads.queue.timed_out)


async def test_p1_a_query_that_waited_in_vain_says_so():
    reads, read_caller = Reads(threads=1), ReadCaller("ann", 30)
    await asked(reads, ["first"])
    await asked(reads, "a", read_caller=read_caller)
    reads.queue.look(read_caller.until)
    await reads.round()
    with pytest.raises(Error, match=r"waited 30 s for others"):
        reads.tasks["a"].result()
    assert 0 == reads.queue.waiting


async def test_p1_one_time_is_for_all_reads_of_an_answer_until_it_is_renewed():
    reads, read_caller = Reads(), ReadCaller("ann", 30)
    await asked(reads, "a", read_caller=read_caller)
    await reads.finish("a")
    read_caller.until = asyncio.get_running_loop().time() - 1
    await asked(reads, "b", read_caller=read_caller)
    assert "took 30 s" in str(reads.tasks["b"].exception())
    with reads_of(read_caller):
        current_read_caller().renew()
    await asked(reads, "c", read_caller=read_caller)
    assert ["c"] == reads.under_way


async def test_p1_the_servers_own_reads_have_no_end():
    """Such as what a subscription begins with: it may be shelved, and is never cut short."""
    reads = Reads()
    await asked(reads, "a")
    reads.queue.look(1e12)
    await reads.round()
    assert (None, 0) == (reads.job("a").limit.ended, reads.queue.timed_out)


async def test_p1_a_read_for_which_nobody_waits_is_ended():
    reads = Reads(threads=1)
    await asked(reads, "ab")
    running = reads.job("a")
    for name in "ab":
        reads.tasks[name].cancel()
    await reads.round()
    assert running.limit.ended is not None
    assert (0, 2) == (reads.queue.waiting, reads.queue.abandoned)
    await reads.finish("a")
    assert 0 == reads.queue.running


async def test_p1_a_lost_interrupt_is_sent_again():
    reads, interrupts = Reads(), []
    await asked(reads, "a")
    job = reads.job("a")
    with job.limit.holding(lambda: interrupts.append(1)):
        reads.tasks["a"].cancel()
        await reads.round()
        reads.queue.look(0.0)
        reads.queue.look(0.0)
    assert [1, 1, 1] == interrupts


async def test_what_a_read_raises_is_raised():
    reads = Reads()

    def fails():
        raise LookupError("x")

    task = asyncio.ensure_future(reads.queue.read(fails, KEYED))
    await reads.round()
    reads.executor.step()
    with pytest.raises(LookupError):
        await task


async def test_reads_of_a_server_that_stops_are_refused():
    reads = Reads()
    reads.executor.stopped = True
    with pytest.raises(RuntimeError, match="shutdown"):
        await reads.queue.read(list, KEYED)
    assert 0 == reads.queue.running


async def test_p1_a_server_that_stops_waits_for_no_scan():
    reads = Reads()
    await asked(reads, "a")
    reads.queue.stop()
    await reads.finish("a")
    assert "stopping" in str(reads.tasks["a"].exception())


async def test_p1_nothing_is_looked_at_while_nothing_is_read():
    reads = Reads()
    await asked(reads, "a")
    assert reads.queue._timer is not None
    await reads.finish("a")
    assert None is reads.queue._timer


async def test_p1_the_end_of_a_query_is_logged_with_whose_it_was(caplog):
    caplog.set_level(logging.WARNING, "rowcast.reads")
    reads, read_caller = Reads(), ReadCaller("ann", 30)
    await asked(reads, "a", read_caller=read_caller)
    reads.queue.look(read_caller.until)
    assert "a read of ann was ended" in caplog.text


async def test_p1_on_real_threads_a_cancelled_read_is_interrupted(tmp_path):
    """The whole way: a statement that never ends, on a store and threads like the server's."""
    from rowcast.store.sqlite import SqlStore

    store, begun = SqlStore(tmp_path), asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless():
        with store._database.reading() as cursor:
            loop.call_soon_threadsafe(begun.set)
            cursor.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)"
                           " SELECT max(i) FROM n").fetchone()  # fmt: skip

    with ThreadPoolExecutor(1) as executor:
        queue = ReadQueue(store, executor)
        task = asyncio.ensure_future(queue.read(endless, KEYED))
        await begun.wait()
        task.cancel()
        assert 0 == await queue.read(store.head, KEYED)
    store.close()


# -- which lane ------------------------------------------------------------------------------------


async def lane_of(read):
    """Return the lane of a reader's read."""
    room = Server()
    found = []

    async def run(_call, lane=KEYED):
        found.append(lane)
        raise LookupError

    room.reader._run = run
    with pytest.raises(LookupError):
        await read(room.reader)
    return found[0]


async def test_p1_what_a_read_looks_at_says_where_it_waits():
    by_key = Query(Condition(("id",), Operator.EQ, "a"))
    by_name = Query(Condition(("name",), Operator.CONTAINS, "a"))
    assert KEYED is await lane_of(lambda reader: reader.get(DOG, "Dog/a"))
    assert KEYED is await lane_of(lambda reader: reader.read(0, 1, ()))
    assert INDEXED is await lane_of(lambda reader: reader.search(DOG, by_key))
    assert SEARCH is await lane_of(lambda reader: reader.search(DOG, by_name))
    assert SEARCH is await lane_of(lambda reader: reader.matching(DOG, by_name))
    assert SEARCH is await lane_of(lambda reader: reader.history(DOG, "Dog/a", 1))


async def test_p1_a_query_is_its_callers_and_has_the_set_time_until_it_is_answered():
    """A task that a resource began and that goes on has no limit."""
    queue, later = Server().reader.queue, asyncio.Event()
    queue.query_seconds = 7

    async def outlives():
        await later.wait()
        return current_read_caller().seconds

    with queue.attributed_to(ANN) as read_caller:
        task = asyncio.ensure_future(outlives())
        assert ("ann", 7, read_caller) == (
            read_caller.name,
            read_caller.seconds,
            current_read_caller(),
        )
    later.set()
    assert (0, "") == (await task, current_read_caller().name)
