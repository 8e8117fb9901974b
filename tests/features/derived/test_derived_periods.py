"""When the job of a derived table is due: also under another period, or another clock (W4)."""

import pytest
from test_derived import SCHEMA, World, some

from rowcast.schema import parse_schema


@pytest.fixture
async def world(tmp_path, monkeypatch):
    """A server whose job has served this period."""
    world = await World(tmp_path, monkeypatch).start()
    world.rows = some(a=1)
    await world.look()
    yield world
    await world.kill()


@pytest.mark.parametrize(("every", "seconds"), [("1s", 1), ("1h", 3_600), ("31d", 31 * 86_400)])
async def test_w4_a_job_goes_on_when_its_table_gets_another_period(world, every, seconds):
    """Once at the start, as its rule is another one, and then at the times of the new period."""
    await world.kill()
    world.tables = parse_schema(SCHEMA.replace("1m", every)).tables
    await world.start()
    before = await world.row()
    assert before["due"] is None
    await world.look()
    assert 2 == world.job.run
    await world.look()
    assert 2 == world.job.run
    world.time += seconds
    await world.look()
    assert (3, "done") == (world.job.run, (await world.row())["state"])


async def test_w4_a_job_goes_on_after_a_clock_that_was_ahead(world):
    world.time += 3_600
    await world.look()
    assert 2 == world.job.run
    world.time -= 3_600
    await world.look()
    assert 3 == world.job.run
    world.time += 60
    await world.look()
    assert 4 == world.job.run


async def test_w4_a_clock_that_is_set_back_a_little_serves_no_period_twice(world):
    world.time += 60
    await world.look()
    assert 2 == world.job.run
    world.time -= 2
    await world.look()
    world.time += 2
    await world.look()
    assert 2 == world.job.run
