"""Large results of derived tables: staged while others write, and seen at one position (W4, M5)."""

import asyncio

import pytest
from test_derived import World

from build import ANN, Listener
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.derived import commit
from rowcast.features.derived.commit import ResultBounds
from rowcast.results.result_writing import write_result
from rowcast.store.sqlite import SqlStore

COUNT = 2_500
"""More than two pages."""


class Staged(World):
    """A server on tables of SQL, whose restarts open them again; each result is staged."""

    def __init__(self, tmp_path, monkeypatch):
        super().__init__(tmp_path, monkeypatch)
        self.file = tmp_path / "rowcast.db"
        self.plan.bounds = ResultBounds(size_bytes=10_000_000, changes=10_000, staged_min=1)
        self.store = None
        self.pages = asyncio.Queue()

    async def start(self):
        self.store = SqlStore(self.file)
        await super().start()
        self.server.committer._store.stage = self.staging(self.server.committer._store.stage)
        return self

    def staging(self, stage):
        def staged(*arguments, **more):
            self.pages.put_nowait(1)
            return stage(*arguments, **more)

        return staged

    async def kill(self):
        await super().kill()
        self.store.close()

    def table(self):
        return next(table for table in self.tables if table.name == "Mean")

    def counts(self):
        """Return the values of all records, each once, and how many there are."""
        page = self.server.store.scan(self.table(), TopicFilter("Mean/#"), "", 10_000)
        return {record.decoded["n"] for record in page.records}, len(page.records)

    def log(self):
        return self.server.store.read(0, 100_000, [self.table()])


@pytest.fixture
async def world(tmp_path, monkeypatch):
    world = await Staged(tmp_path, monkeypatch).start()
    yield world
    world.gate = None
    for task in world.jobs._running.values():
        task.cancel()
    await asyncio.gather(*world.jobs._running.values(), return_exceptions=True)
    world.store.close()


def rows(value, count=COUNT):
    return [{"id": f"m{number:04}", "n": value} for number in range(count)]


@pytest.mark.slow
async def test_w4_a_large_result_is_staged_and_seen_at_one_position(world):
    """W4, M5: others write meanwhile; the same again makes no event; what it lacks is removed."""
    world.rows = rows(1)
    world.jobs.look()
    seen = []
    while world.jobs._running:
        await world.server.put("Sensor/s", b'{"temp": 1}')
        seen.append(world.counts()[1])
    assert len(seen) > 3
    assert set(seen) <= {0, COUNT}
    assert ({1}, COUNT) == world.counts()
    numbers = [event.seq for event in world.log()]
    assert list(range(numbers[0], numbers[0] + COUNT)) == numbers
    world.time += 60
    await world.look()
    assert COUNT == len(world.log())
    row = await world.row()
    assert (COUNT, 0, 0, 2) == tuple(row[it] for it in ("rows_out", "changed", "removed", "run"))
    world.rows = rows(2, 10)
    world.time += 60
    await world.look()
    assert ({2}, 10) == world.counts()
    row = await world.row()
    assert ("done", 10, COUNT - 10) == (row["state"], row["changed"], row["removed"])
    assert COUNT - 10 == sum(event.kind == DELETE for event in world.log())


async def staging(world):
    """Commit a result, and begin another one, of which the first page is staged."""
    world.rows = rows(1)
    await world.look()
    world.rows, world.time = rows(2), world.time + 60
    world.pages = asyncio.Queue()
    world.jobs.look()
    await world.pages.get()


@pytest.mark.slow
async def test_w4_a_run_that_is_killed_while_it_is_staged_leaves_nothing(world):
    """W4: it is begun again with the server, and what was staged of it is never seen."""
    await staging(world)
    await world.pages.get()
    await world.kill()
    world.rows = rows(3)
    await world.start()
    assert ({1}, COUNT) == world.counts()
    await world.look()
    assert 3 == world.job.run
    assert ({3}, COUNT) == world.counts()
    assert 2 * COUNT == len(world.log())


@pytest.mark.slow
async def test_w4_a_run_that_is_cancelled_while_it_is_staged_changes_nothing(world):
    """W4: late, it would be in the way of the next run; its table is stale until then."""
    await staging(world)
    topic = "$SYS/jobs/Mean"
    await world.kernel.write(Event(topic, DELETE, b"", qos=1, retain=True), ANN)
    assert ({1}, COUNT) == world.counts()
    row = await world.row()
    assert ("failed", "it was cancelled", True) == (row["state"], row["error"], row["stale"])
    world.rows = rows(3)
    await world.kernel.write(Event(topic, PUT, b'{"run": true}', qos=1, retain=True), ANN)
    await world.settle()
    assert ({3}, COUNT) == world.counts()
    assert 2 * COUNT == len(world.log())


async def test_w4_a_run_waits_for_another_large_result(world, monkeypatch):
    """W4: it does not fail for it."""
    committer = world.server.committer
    other = committer.begin_staged(10)
    world.rows = rows(1, 20)
    refused = Listener(world.server, "$stale/#")
    tried = []

    async def writing(*arguments):
        tried.append(1)
        try:
            await write_result(*arguments)
        except Error as error:
            committer.abandon(other)
            assert 10 == error.detail["retry_after_seconds"]
            error.detail["retry_after_seconds"] = 0
            raise

    monkeypatch.setattr(commit, "write_result", writing)
    await world.look()
    assert 2 == len(tried)
    assert ("done", []) == ((await world.row())["state"], refused.topics)
    assert ({1}, 20) == world.counts()
