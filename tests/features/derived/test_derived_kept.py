"""The directory of the run whose result a derived table has: it stays until the next result (W4).

Its snapshot is what the rows were computed from, so that they can be computed again.
"""

import asyncio

import pytest
from test_derived import SCHEMA, Plan, World, some

from build import Server
from rowcast.features.derived.feature import DerivedTables
from rowcast.features.derived.places import RunPlaces
from rowcast.schema import parse_schema


@pytest.fixture
async def world(tmp_path, monkeypatch):
    """A server whose first run has made a result."""
    world = await World(tmp_path, monkeypatch).start()
    world.rows = some(a=1)
    await world.look()
    yield world
    await world.kill()


def kept(world):
    return sorted(place.name for place in (world.plan.root / "Mean").iterdir())


async def began(world):
    """Begin a run, and return once it has a directory."""
    world.gate, before = asyncio.Event(), world.cut
    world.time += 60
    world.jobs.look()
    while world.cut == before:
        await asyncio.to_thread(lambda: None)
    world.gate = None


async def failed(world):
    world.code, world.time = 1, world.time + 60
    await world.look()
    world.code = 0


async def cancelled(world):
    await world.jobs.cancel("Mean")


async def killed(world):
    await world.kill()
    await world.start()


@pytest.mark.parametrize("end", [cancelled, killed])
async def test_w4_the_snapshot_of_the_last_result_outlives_runs_without_one(world, end):
    await began(world)
    assert ["1", "2"] == kept(world)
    await end(world)
    await failed(world)
    assert ["1"] == kept(world)
    await failed(world)
    assert ["1"] == kept(world)
    world.rows, world.time = some(a=2), world.time + 60
    await world.look()
    assert [str(world.job.run)] == kept(world)


async def test_w4_a_start_removes_what_a_killed_run_has_left(world):
    await began(world)
    await killed(world)
    assert ["1"] == kept(world)


async def test_w4_a_fact_of_an_earlier_version_has_its_last_run(world):
    """It names no run: that of the last one, if it had a result, as at a start before."""
    older = world.job.fact().value.replace(b"done_run", b"none_run")
    world.job.done_run = None
    world.job.restore(older)
    assert 1 == world.job.done_run


def test_runs_of_tables_that_are_derived_no_more_go(tmp_path):
    """And nothing else: files of jobs may be in the same directory."""
    made = ("Mean/3/snapshot", "Gone/1/snapshot", "Gone/2", "package/7", "package/code", "empty")
    for name in made:
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "job.py").write_text("")
    (tmp_path / "linked").symlink_to(tmp_path / "package")
    RunPlaces.forget_others(tmp_path, {"Mean"})
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["Mean", "Mean/3", "Mean/3/snapshot", "empty", "job.py", "linked", "package",
                    "package/7", "package/code"]  # fmt: skip
    RunPlaces.forget_others(tmp_path / "absent", set())


@pytest.mark.parametrize("derived", [True, False])
async def test_a_start_removes_runs_of_tables_that_left_the_schema(derived, tmp_path):
    (tmp_path / "Gone/1").mkdir(parents=True)
    tables = parse_schema(SCHEMA).tables if derived else ()
    feature = DerivedTables(tables, Plan(tmp_path))
    feature.install(Server(tables).kernel)
    await feature.start()
    assert not (tmp_path / "Gone").exists()
