"""Derived tables in the test's own process: runs, fences, periods, staleness (W4, M5)."""

import asyncio
import json
from pathlib import Path
from random import Random

import pytest

from build import ANN, EPOCH, NOW, Code, Listener, Server, refusal
from memory_store import MemoryStore
from rowcast.core.callers import SERVER, Caller, Grants
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.lineage import cut_of
from rowcast.features.deadlines.deadlines import Deadlines
from rowcast.features.derived import run as module
from rowcast.features.derived.commit import ResultBounds
from rowcast.features.derived.feature import DerivedTables
from rowcast.features.derived.job import OWNER
from rowcast.features.derived.job_rows import PATH
from rowcast.features.derived.process import ProcessOutput
from rowcast.schema import parse_schema

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey temp: Float }
type Mean @table @export @derived(job: "jobs/mean.py", from: ["Sensor"], every: "1m") {
  id: ID @primaryKey n: Int text: String
}
"""
READER = Caller("eve", Grants(read=True, write=True), "http")
ROW = f"{PATH}/Mean"


class Plan:
    """A plan whose processes are functions of the test."""

    seconds = 60.0
    at_once = 1
    bounds = ResultBounds(size_bytes=10_000, changes=50)

    def __init__(self, root):
        self.root = root
        self.enabled = True

    def export(self, tables, out):
        return ["export", ",".join(tables), out]

    def work(self, job, snapshot, result):
        return ["work", job, result]

    def environment(self):
        return {}


class World:
    """A server with a derived table; its store outlives kills, ``rows`` is what its job gives."""

    def __init__(self, tmp_path, monkeypatch):
        self.tables = parse_schema(SCHEMA).tables
        self.store = MemoryStore(EPOCH)
        self.plan = Plan(tmp_path)
        self.time = NOW - NOW % 60 + 1
        self.rows, self.code, self.cut = [], 0, 0
        self.gate = None
        self.runs, self.commands = [], []
        self.results = {}
        self.background = set()
        monkeypatch.setattr(module, "carry_out", self.carry_out)

    async def carry_out(self, command, environment, told):
        """Stand for a process."""
        what, name, place = command
        self.commands.append((what, name, environment))
        await asyncio.sleep(0)
        if what == "export":
            made = Path(place) / "0001"
            made.mkdir(parents=True)
            (made / "manifest.json").write_text("{}")
            return ProcessOutput()
        self.cut += 1
        cut, rows = f"{EPOCH}:{self.cut}", list(self.rows)
        self.results[cut] = rows
        told({"cut": cut, "rows_in": 7, "progress": 0.5})
        if self.gate is not None:
            await self.gate.wait()
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        await asyncio.to_thread(Path(place).write_text, lines)
        return ProcessOutput({}, "it printed this", self.code)

    async def start(self):
        self.server = Server(self.tables, store=self.store, now=lambda: self.time)
        self.feature = DerivedTables(self.tables, self.plan)
        self.feature.install(self.server.kernel)
        self.kernel = self.server.kernel

        async def facts(owner):
            return self.store.states(owner)

        await self.kernel.restore(facts)
        await self.feature.start()
        self.jobs = self.feature.jobs
        self.job = self.jobs.jobs["Mean"]
        return self

    async def kill(self):
        """Nothing more of this server reaches the store."""
        self.server.writer.stopped = True
        while tasks := list(self.jobs._running.values()):
            for task in tasks:  # again and again: a run waits for a commit that does not end
                task.cancel()
            await self.server.turn()

    async def look(self):
        """Let what is due run to its end."""
        self.jobs.look()
        await self.settle()
        self.jobs.look()
        await self.server.turn()

    async def settle(self):
        while tasks := list(self.jobs._running.values()):
            await asyncio.gather(*tasks, return_exceptions=True)

    async def row(self, caller=SERVER):
        return await self.kernel.resource(ROW, caller).get()

    def events(self, prefix="Mean/"):
        return [one for one in self.store.read(0, 100_000) if one.topic.startswith(prefix)]

    def state(self):
        found = {}
        for event in self.events():
            if event.kind == DELETE:
                found.pop(event.topic)
            else:
                found[event.topic] = json.loads(event.payload)
        return found


@pytest.fixture
async def world(tmp_path, monkeypatch):
    world = await World(tmp_path, monkeypatch).start()
    yield world
    for task in world.jobs._running.values():
        task.cancel()
    await asyncio.gather(*world.jobs._running.values(), return_exceptions=True)


def some(**counts):
    return [{"id": name, "n": count} for name, count in counts.items()]


async def test_w4_a_result_becomes_records_and_equal_rows_make_no_event(world):
    """W4, M5: changed rows are written with their cut, rows that vanished are deleted."""
    world.rows = some(a=1, b=2)
    seen = Listener(world.server, "Mean/#")
    await world.look()
    assert {"Mean/a", "Mean/b"} == set(seen.topics)
    assert {f"{EPOCH}:1"} == {cut_of(one.client) for one in seen.events}
    world.time += 60
    await world.look()
    assert 2 == len(world.events())  # the same again: nothing
    world.rows = some(b=3)
    world.time += 60
    await world.look()
    assert ["Mean/b", "Mean/a"] == [one.topic for one in world.events()[2:]]
    assert {"Mean/b": {"id": "b", "n": 3}} == world.state()
    row = await world.row()
    assert ("done", 3, 1, 1, 1, f"{EPOCH}:3") == tuple(
        row[name] for name in ("state", "run", "rows_out", "changed", "removed", "cut")
    )


async def test_w4_only_the_job_writes_its_table(world):
    """W4: administrators, too, are refused, with what to do instead."""
    for kind in (PUT, PATCH, DELETE, MESSAGE):
        event = Event("Mean/a", kind, b"" if kind == DELETE else b'{"n":1}', qos=1, retain=True)
        with pytest.raises(Error, match=r"only the job jobs/mean\.py writes Mean") as caught:
            await world.kernel.write(event, ANN)
        assert Code.NOT_ALLOWED is caught.value.code
    assert [] == world.events()


async def test_w4_a_process_that_follows_refuses_too(world):
    """W4: there the feature has no plan, and only the rule that others do not write."""
    server = Server(world.tables)
    feature = DerivedTables(world.tables, None)
    feature.install(server.kernel)
    assert Code.NOT_ALLOWED is await refusal(server.put("Mean/a"))
    assert feature.jobs is None


async def test_w4_a_period_is_served_once_over_restarts(world):
    """W4: a restart neither doubles nor forgets; a killed run is begun again."""
    world.rows = some(a=1)
    await world.look()
    await world.kill()
    await world.start()
    await world.look()
    assert 1 == world.job.run  # this period was served
    world.time += 60
    world.gate = asyncio.Event()
    world.jobs.look()
    await world.server.turn()
    for _ in range(200):
        await asyncio.sleep(0)
        if world.cut == 2:
            break
        await asyncio.to_thread(lambda: None)
    await world.kill()
    world.gate = None
    await world.start()
    world.rows = some(a=2)
    await world.look()
    assert 3 == world.job.run
    assert {"Mean/a": {"id": "a", "n": 2}} == world.state()
    await world.look()
    assert 3 == world.job.run


async def test_w4_a_forgotten_process_changes_nothing(world, tmp_path):
    """W4: what an earlier run leaves behind later is in its own directory, which nobody reads."""
    world.rows = some(a=1)
    await world.look()
    await world.kill()
    await world.start()
    late = tmp_path / "Mean" / "1"
    world.time += 60
    world.rows = some(a=2)
    await world.look()
    late.mkdir(exist_ok=True)
    (late / "result.ndjson").write_text('{"id":"a","n":99}\n')
    world.time += 60
    await world.look()
    assert {"Mean/a": {"id": "a", "n": 2}} == world.state()
    assert ["3"] == [item.name for item in (tmp_path / "Mean").iterdir()]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"n": 1}], "row 0 of the result has no 'id'"),
        ([{"id": "a"}, {"id": "a"}], "two rows of the result are for Mean/a"),
        ([{"id": "a"}, {"id": "b", "n": "many"}], "Mean/b: "),
        ([{"id": "a#"}], ""),
        ([{"id": str(n)} for n in range(51)], "more than 50 changes"),
        ([{"id": "a", "text": "x" * 10_000}], "one has at most 10000: results.bytes_max"),
    ],
)
async def test_w4_a_result_with_a_wrong_row_changes_nothing(world, rows, said):
    """W4: a failed job makes its table stale, and the next good run fresh again."""
    world.rows = some(z=1)
    await world.look()
    world.rows = rows
    world.time += 60
    await world.look()
    row = await world.row()
    assert ("failed", True) == (row["state"], row["stale"])
    assert said in row["error"]
    assert {"Mean/z": {"id": "z", "n": 1}} == world.state()
    (told,) = world.events("$stale/")
    assert ("$stale/Mean", PUT) == (told.topic, told.kind)
    assert 120.0 == json.loads(told.payload)["deadline_seconds"]
    world.rows = some(z=2)
    world.time += 60
    await world.look()
    assert [PUT, DELETE] == [one.kind for one in world.events("$stale/")]


async def test_w4_only_changed_rows_count(world):
    """W4: a table has more rows than one result may change, and grows by what it may."""
    for count in (50, 99, 99):
        world.rows = [{"id": str(n), "n": n} for n in range(count)]
        await world.look()
        world.time += 60
    row = await world.row()
    assert (99, 0, 0) == (row["rows_out"], row["changed"], row["removed"])
    assert 99 == len(world.state()) == len(world.events())


async def test_w4_a_late_job_makes_its_table_stale(world):
    """W4: also while it runs, and over a restart; deadlines of records leave the word alone."""
    world.rows = some(a=1)
    await world.look()
    world.gate = asyncio.Event()
    world.time += 121
    world.jobs.look()
    await world.server.turn()
    row = await world.row()
    assert ("running", True) == (row["state"], row["stale"])
    assert [PUT] == [one.kind for one in world.events("$stale/")]
    await world.kill()
    world.plan.enabled = False
    await world.start()
    deadlines = Deadlines(world.kernel, world.tables, lambda: world.time)
    await deadlines.start()
    await world.look()
    assert [PUT] == [one.kind for one in world.events("$stale/")]
    assert "off" == (await world.row())["state"]
    deadlines.stop()


async def test_w4_output_is_for_administrators(world):
    """W4: everybody sees that and why a job failed, administrators what it printed."""
    world.rows, world.code = some(a=1), 3
    await world.look()
    row = await world.row(READER)
    assert "its process ended with code 3" in row["error"]
    assert "output" not in row
    assert "it printed this" == (await world.row(ANN))["output"]
    assert [] == world.events()


async def test_w4_it_is_run_and_cancelled_by_its_row(world):
    """W4: runs of one table do not overlap; what is cancelled leaves the table as it was."""
    world.rows = some(a=1)
    await world.look()

    def put(value, caller=ANN, kind=PUT):
        body = json.dumps(value).encode()
        return world.kernel.write(Event(ROW, kind, body, qos=1, retain=True), caller)

    assert Code.DENIED is await refusal(put({"run": True}, READER))
    assert Code.INVALID is await refusal(put({"run": "now"}))
    world.gate = asyncio.Event()
    world.rows = some(a=2)
    await put({"run": True}, kind=PATCH)
    assert Code.CONFLICT is await refusal(put({"run": True}))
    delete = Event(ROW, DELETE, b"", qos=1, retain=True)
    assert Code.DENIED is await refusal(world.kernel.write(delete, READER))
    await world.kernel.write(delete, ANN)
    assert Code.NOT_FOUND is await refusal(world.kernel.write(delete, ANN))
    row = await world.row()
    assert ("failed", "it was cancelled") == (row["state"], row["error"])
    assert {"Mean/a": {"id": "a", "n": 1}} == world.state()
    world.plan.enabled = False
    assert Code.NOT_ALLOWED is await refusal(put({"run": True}))


async def test_w4_rows_are_live(world):
    """W4: who watches the row sees the job run and end."""
    seen = Listener(world.server, f"{PATH}/#")
    world.rows = some(a=1)
    await world.look()
    states = [json.loads(one.payload)["state"] for one in seen.events]
    assert ["waiting", "running", "done"] == list(dict.fromkeys(states))
    assert all("output" not in json.loads(one.payload) for one in seen.events)


@pytest.mark.slow
async def test_w4_kills_at_any_moment_leave_whole_results(tmp_path, monkeypatch):
    """W4, M5: a hundred servers that are killed; each state in the log is one result, whole."""
    chance = Random(11)
    world = await World(tmp_path, monkeypatch).start()
    killed = 0
    for _ in range(100):
        names = chance.sample("abcdefgh", chance.randrange(9))
        world.rows = some(**{name: chance.randrange(3) for name in names})
        world.code = chance.choice([0, 0, 0, 1])
        world.time += 60
        world.jobs.look()
        for _ in range(chance.randrange(60)):
            await asyncio.sleep(0)
            if chance.random() < 0.3:
                await asyncio.to_thread(lambda: None)
        killed += bool(world.jobs._running)
        await world.kill()
        await world.start()
    world.code = 0
    world.time += 60
    await world.look()
    assert 10 < killed < 100
    state, events = {}, world.events()
    for event, after in zip(events, [*events[1:], None], strict=True):
        if event.kind == DELETE:
            del state[event.topic]
        else:
            state[event.topic] = json.loads(event.payload)
        if after is None or after.client != event.client:
            result = world.results[cut_of(event.client)]
            assert state == {f"Mean/{row['id']}": row for row in result}
    assert {f"Mean/{row['id']}": row for row in world.rows} == state
    assert 1 == len(list(world.store.states(OWNER)))
