"""Single topics that many readers ask for at a time are one job of a thread."""

import asyncio

import pytest

from build import turns
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Record
from rowcast.core.topics import TopicFilter
from rowcast.reads.batched_scans import BatchedScans
from rowcast.store.page_room import PageRoom
from rowcast.store.store import Scan
from virtual import Threads


class Store:
    """Has one record at each topic; its reads are on a thread that a test moves."""

    def __init__(self, scans_max=100):
        self.threads, self.jobs, self.failure, self.size = Threads(), [], None, 1_000
        self.threads.hold()
        self.gathered = BatchedScans(self, self.run, scans_max)

    async def run(self, call):
        return await asyncio.shield(asyncio.wrap_future(self.threads.submit(call)))

    def scan_all(self, scans, limit, size):
        self.jobs.append([scan.topics.text for scan in scans])
        if self.failure is not None:
            raise self.failure
        room = PageRoom(limit, size)
        records = (iter([Record(name, PUT, b"12345")]) for name in self.jobs[-1])
        return room.pages(room.page(0, record) for record in records)

    def ask(self, *topics):
        scans = [Scan(None, TopicFilter(topic), "") for topic in topics]
        return asyncio.ensure_future(self.gathered.read(scans, self.size))

    async def step(self):
        await turns()
        self.threads.step()
        await turns()


def found(task):
    return [record.topic for page in task.result() for record in page.records]


async def test_those_who_ask_while_a_job_is_on_its_way_are_answered_by_the_next():
    store = Store()
    first = store.ask("a")
    await turns()
    late = [store.ask("b"), store.ask("c", "d"), store.ask("b")]
    await store.step()
    assert (["a"], [False] * 3) == (found(first), [task.done() for task in late])
    await store.step()
    assert [["b"], ["c", "d"], ["b"]] == [found(task) for task in late]
    assert [["a"], ["b", "c", "d", "b"]] == store.jobs


async def test_a_job_has_a_bound_and_who_asks_for_more_has_one_alone():
    store = Store(scans_max=2)
    asked = [store.ask("a", "b", "c"), store.ask("d"), store.ask("e"), store.ask("f")]
    for _ in range(3):
        await store.step()
    assert [["a", "b", "c"], ["d", "e"], ["f"]] == store.jobs
    assert all(task.done() for task in asked)


async def test_what_is_beyond_the_bytes_of_a_page_waits_for_the_next_job():
    """Who has a part of what it asked for asks again for the rest, as when it asks alone."""
    store = Store()
    store.size = 8
    asked = [store.ask("a"), store.ask("b", "c"), store.ask("d")]
    await store.step()
    assert (["a"], ["b"], False) == (found(asked[0]), found(asked[1]), asked[2].done())
    await store.step()
    assert (["d"], [["a", "b", "c", "d"], ["d"]]) == (found(asked[2]), store.jobs)


async def test_one_who_leaves_takes_nothing_from_the_others():
    store = Store()
    asked = [store.ask("a"), store.ask("b")]
    await turns()
    asked[0].cancel()
    await store.step()
    assert (True, ["b"]) == (asked[0].cancelled(), found(asked[1]))
    gone, stays = store.ask("c"), store.ask("d")
    gone.cancel()
    await store.step()
    assert (["d"], ["d"]) == (found(stays), store.jobs[-1])


async def test_a_failure_is_the_answer_of_all_who_are_in_the_job_and_of_none_after():
    store = Store()
    store.failure = Error(Code.BUSY, "the disk does not answer")
    asked = [store.ask("a"), store.ask("b")]
    await store.step()
    for task in asked:
        with pytest.raises(Error, match="does not answer"):
            task.result()
    store.failure = None
    after = store.ask("a")
    await store.step()
    assert ["a"] == found(after)


async def test_when_the_loop_ends_nobody_waits_for_ever():
    store = Store()
    asked = [store.ask("a")]
    await turns()
    asked.append(store.ask("b"))
    await turns()
    store.gathered._job.cancel()
    await turns()
    assert [True, True] == [task.cancelled() for task in asked]


async def test_a_job_ends_with_the_last_who_waits_for_it():
    """So a thread that never answers leaves no task, and who comes next has a job of its own."""
    store = Store()
    asked = [store.ask("a"), store.ask("b")]
    await turns()
    job = store.gathered._job
    for task in asked:
        task.cancel()
    after = store.ask("c")
    await turns()
    assert job.cancelled()
    assert store.gathered._job is not job
    await store.step()  # what nobody waits for
    await store.step()
    assert ["c"] == found(after)
