"""Compaction: pages of changes put together, without a moment of doubles or holes (S6)."""

import pytest
from changing import Changing, rows_of

from rowcast.features.snapshots.catalogue import Catalogue
from rowcast_lake.snapshots.compaction import compact, forget, widest

pytestmark = pytest.mark.slow

QUIET = {"mqtt.sys_interval": 0}


@pytest.fixture
def world(tmp_path):
    return Changing(tmp_path, 3)


def seqs(world, pages, table="Dog"):
    """Return the numbers of the events that pages have of a table."""
    having = [page.name for page in pages if table in page.manifest["tables"]]
    return [row["_seq"] for name in having for row in rows_of(world.directory, name, table)]


async def test_pages_are_put_together_and_nothing_changes(world):
    """S6, M2: at each step the widest pages have every event once, and fold to the same."""
    async with world.running(**QUIET):
        first = await world.snapshot()
        last, made = first, 0
        for turn in range(8):
            await world.writer.write(12)
            await world.page()
            before = seqs(world, widest(world.items()))
            covered = 0 if turn % 2 else 1_000
            found = compact(world.directory, covered_seconds=covered, together=3)
            made += len(found)
            assert before == sorted(set(before)) == seqs(world, widest(world.items()))
            last = await world.snapshot()
            world.expect_folds(first, last)
        assert made >= 2
        assert len(widest(world.items())) < 6
        small = len([item for item in world.items() if item.is_page])
        compact(world.directory, everything=True, covered_seconds=1_000)
        both = [item for item in world.items() if item.is_page]
        assert small + 1 == len(both)  # who has listed them still finds them
        world.expect_folds(first, last)
        compact(world.directory, everything=True, covered_seconds=0)
        (page,) = (item for item in world.items() if item.is_page)
        assert len(page.files) == len(page.manifest["tables"])
        assert before == seqs(world, [page])
        world.expect_folds(first, last)


async def test_pages_on_both_sides_of_a_hole_stay_apart(world):
    """S6: what does not follow is not put together; a column that came later is null before."""
    async with world.running(**QUIET):
        await world.snapshot()
        await world.writer.write(20)
        await world.page()
        await world.writer.write(20)
        await world.trim("Dog")
        await world.snapshot()
    world.schema = world.schema.replace(
        "name: String, age: Int,", "name: String, age: Int, new: Int,"
    )
    for _ in range(2):
        async with world.running(**QUIET):
            await world.writer.write(20)
            await world.page()
    compact(world.directory, everything=True, covered_seconds=0)
    pages = [item for item in world.items() if item.is_page]
    assert 2 == len(pages)
    assert "new" in rows_of(world.directory, pages[1].name, "Dog")[0]


async def test_the_oldest_pages_are_forgotten(world):
    """S6, S12: from the beginning on, but not before what is being read; the last one stays."""
    async with world.running(**QUIET):
        await world.snapshot()
        names = []
        for _ in range(4):
            await world.writer.write(5)
            names.append(f"changes/{await world.page()}")
    by_name = {item.name: item for item in world.items()}
    assert [] == forget(world.directory, 3_600)
    with Catalogue(world.directory).pin(by_name[names[1]]):
        assert names[:1] == forget(world.directory, 0)
    assert names[1:-1] == forget(world.directory, 0)
