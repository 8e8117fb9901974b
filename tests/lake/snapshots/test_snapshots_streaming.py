"""Changes as files that a plain stream reads: each event once, merged pages apart (S15)."""

import random

import pytest

from exported import Exported
from file_stream import FileStream
from rowcast.program.settings.snapshots import SnapshotSettings
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.compaction import compact, forget, widest
from rowcast_lake.snapshots.export import Order
from rowcast_lake.snapshots.snapshot_stores import catalogue_of, store_of

SCHEMA = "type Dog @table @export { id: ID @primaryKey, n: Int }"
DAY = 86_400.0


class Killed(BaseException):
    """The end of a program between two steps."""


def kill(*_):
    raise Killed


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    made.put("Dog", "0", {"n": 0})
    made.export()
    yield made
    made.close()


def write(world, count, seqs):
    for _ in range(count):
        world.put("Dog", str(world.seq % 7), {"n": world.seq})
        seqs.append(world.seq)


def page(world, progress=None):
    order = Order(world.path / "rowcast.db", world.directory, world.schema)
    return export_changes(order, progress)


def items(world):
    return [item for item in catalogue_of(world.directory).items() if item.is_page]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_plain_stream_has_each_event_once(world, seed):
    """S15, S6: over exports, merges and removals, kills between their steps, and its restarts."""
    chance = random.Random(seed)
    stream, seqs, read = FileStream(world.directory, "Dog"), [], []

    def poll():
        for rows in stream.poll():
            found = [row["_seq"] for row in rows]
            assert found == sorted(found)
            read.extend(found)

    def stop(*_):
        poll()
        if chance.random() < 0.3:
            raise Killed

    def clock():
        stop()
        return 4e9  # all pages are old enough to go

    for _ in range(40):
        write(world, chance.randrange(1, 4), seqs)
        try:
            page(world, stop)
            poll()
            compact(world.directory, everything=chance.random() < 0.2, together=3, now=clock)
        except Killed:
            poll()
        if chance.random() < 0.3:
            stream = FileStream(world.directory, "Dog", stream.seen)
    page(world)
    poll()
    assert seqs == sorted(read)
    chain = widest(items(world))
    assert [(2, seqs[-1])] == [(chain[0].from_seq, chain[-1].seq)]
    assert len(chain) < len(stream.seen)


def stands(world):
    """Return what a write of exported pages would change; a read changes the time of access."""
    found = {path: path.stat() for path in (world.directory / "changes").rglob("*")}
    return {path: (it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
            for path, it in found.items()}  # fmt: skip


def test_merged_pages_are_apart_and_exported_ones_never_change(world):
    """S15, S6: a merge writes nothing where a stream looks, and the widest page counts."""
    for _ in range(3):
        write(world, 2, [])
        page(world)
    there = stands(world)
    (wide,) = compact(world.directory, everything=True)
    assert world.directory / "merged" / wide.place.name == wide.place
    assert there == stands(world)
    assert [f"merged/{wide.place.name}"] == [item.name for item in widest(items(world))]
    write(world, 1, [])
    assert page(world).manifest.from_seq == wide.manifest.seq + 1


def test_small_pages_stay_as_long_as_a_stream_may_be_away(world):
    """S15: keep_small counts from the export of each; then they go, and what has them all stays."""
    for _ in range(3):
        write(world, 2, [])
        page(world)
    (wide,) = compact(world.directory, everything=True, keep_small_seconds=DAY)
    stands = wide.place.stat().st_mtime
    compact(world.directory, keep_small_seconds=DAY, now=lambda: stands + DAY - 60)
    assert 4 == len(items(world))
    compact(world.directory, keep_small_seconds=DAY, now=lambda: stands + DAY + 60)
    assert [f"merged/{wide.place.name}"] == store_of(world.directory).pages()


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_stream_has_each_event_once_although_a_quiet_time_is_longer_than_increments_stay(
    world, snapshot
):
    """S15, S6: the next increment begins where the last one ended, whatever its age."""
    stream = FileStream(world.directory, "Dog")
    write(world, 2, [])
    page(world)
    seen = [row["_seq"] for rows in stream.poll() for row in rows]
    forget(world.directory, 0)
    write(world, 1, [])
    if snapshot:
        world.export()
    page(world)
    seen += [row["_seq"] for rows in stream.poll() for row in rows]
    assert [2, 3, 4] == seen


def test_an_increment_is_not_to_stay_longer_than_any(world):
    """S15: the age limit of all increments would end it sooner than is said."""
    SnapshotSettings(keep_small="7d", keep_changes="30d")
    with pytest.raises(ValueError, match="keep_small should be no longer than keep_changes"):
        SnapshotSettings(keep_small="7d", keep_changes="1d")


def test_a_killed_export_leaves_nothing_that_a_stream_sees(world):
    """S15, S3: a file is whole or absent, and what was not exported is in the next increment."""
    stream = FileStream(world.directory, "Dog")
    write(world, 2, [])
    with pytest.raises(Killed):
        page(world, kill)
    assert [] == stream.poll()
    page(world)
    assert [[2, 3]] == [[row["_seq"] for row in rows] for rows in stream.poll()]
