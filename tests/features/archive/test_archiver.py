"""What is archived, in which files, and what becomes of faults, kills and age limits (M2)."""

import logging
import shutil
import stat

import pytest
from archiving_server import Archiving, define, every, ranges, written

from build import ANN, Code, refusal
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.features.archive import disk_place
from rowcast.features.archive.archive_index import ArchivedRange
from rowcast.features.archive.file_format import Group
from rowcast.reads.read_queue import ReadLane
from rowcast.store.older_rows import OldestRoom
from rowcast.store.store import Keep
from rowcast_lake.archive.log_files import ParquetFiles

HOME = TopicRoot("home")
CANNOT = "events cannot be archived, so they are not trimmed"


class Faulty(ParquetFiles):
    """Files on a disk that may be full."""

    fault = None

    def write(self, path, rows, facts):
        if self.fault is not None:
            raise self.fault
        super().write(path, rows, facts)


@pytest.mark.heavy
async def test_m2_only_what_is_in_a_file_is_trimmed_and_files_are_few(tmp_path):
    world = Archiving(tmp_path, keep=5)
    assert [*range(1, 101)] == await written(world, 100)
    assert 95 == await world.sweep()
    note = world.room.tables[1]
    assert (95, 0) == (world.store.trimmed_here(note), world.store.trimmed(note))
    assert [*range(1, 101)] == every(world)
    found = ranges(world)
    assert (0, 95) == (found[0][0], found[-1][1])
    assert len(found) < 7 < 95 / 6, found  # files of six events each were merged
    world.close()


async def test_m2_a_kill_between_the_file_and_the_trim_doubles_nothing(tmp_path):
    """The file is there, and the events are in the log, too; the next sweep does not write them."""
    world = Archiving(tmp_path, keep=5, step=1_000)
    await written(world, 20)
    note = world.room.tables[1]
    assert 15 == await world.feature.archiver.secure(note, Keep(events=5), world.room.time)
    assert 0 == world.store.trimmed_here(note)
    before = world.paths()
    world.close()
    again = Archiving(tmp_path, keep=5, step=1_000)
    assert [*range(1, 21)] == every(again)
    assert 15 == await again.sweep()
    assert before == again.paths()
    new = await written(again, 2)  # after a crash, numbers go on further up
    assert 2 == await again.sweep()
    assert [*range(1, 21), *new] == every(again)
    again.close()


async def test_m2_a_kill_while_files_are_merged_or_written_leaves_nothing_that_counts(tmp_path):
    world = Archiving(tmp_path, keep=5, file_bytes=0)
    await written(world, 40)
    await world.sweep()
    apart = tmp_path / "apart"
    shutil.copytree(world.feature.index.place.directory, apart)
    assert len(ranges(world)) > 3
    world.close()
    merging = Archiving(tmp_path, keep=5)
    new = await written(merging, 10)
    await merging.sweep()
    merging.close()
    shutil.copytree(apart, merging.feature.index.place.directory, dirs_exist_ok=True)
    rest = next(merging.feature.index.place.directory.iterdir()) / "99-120.parquet.new"
    rest.write_bytes(b"PAR1")
    again = Archiving(tmp_path, keep=5)
    assert not rest.exists()
    assert len(again.paths()) == len(ranges(again))
    assert [*range(1, 41), *new] == every(again)
    again.close()


async def test_m2_a_full_disk_trims_nothing_is_told_once_and_tried_again(tmp_path, caplog):
    files = Faulty(group_events=4)
    world = Archiving(tmp_path, keep=5, files=files)
    await written(world, 20)
    await written(world, 8, "Dog/1")
    files.fault = OSError(28, "No space left on device")
    with caplog.at_level(logging.INFO, "rowcast.archive"):
        assert [0, 0] == [await world.sweep(), await world.sweep()]
        assert 1 == sum("No space left" in line for line in caplog.messages)
        rows = world.feature._listed().values()
        assert {f"{CANNOT}: [Errno 28] No space left on device"} == {row["error"] for row in rows}
        assert [0, 0] == [world.store.trimmed_here(table) for table in world.room.tables[:2]]
        files.fault = None
        assert 18 == await world.sweep()
        assert "the archive is written again as it should be" in caplog.messages
    assert {None} == {row["error"] for row in world.feature._listed().values()}
    assert [*range(1, 21)] == every(world)
    world.close()


async def test_m2_files_that_cannot_be_merged_stay_and_trimming_goes_on(tmp_path, caplog):
    world = Archiving(tmp_path, keep=5)
    world.files.merge = world.files.open  # which takes no such arguments
    await written(world, 40)
    assert 35 == await world.sweep()
    assert "small files of the archive cannot be merged" in world.feature.archiver.problem
    del world.files.merge
    await written(world, 10)
    await world.sweep()
    assert (world.feature.archiver.problem, [*range(1, 51)]) == ("", every(world))
    world.close()


async def test_m2_what_parquet_cannot_take_is_not_trimmed_either(tmp_path, caplog):
    files = Faulty(group_events=4)
    world = Archiving(tmp_path, keep=5, files=files)
    await written(world, 20)
    files.fault = ValueError("odd")
    assert 0 == await world.sweep()
    assert f"{CANNOT}: Parquet does not take it (odd)" == world.feature.archiver.problem
    assert [*range(1, 21)] == every(world)
    world.close()


async def test_m2_after_a_gap_the_archive_begins_anew(tmp_path):
    """What was trimmed while the archive was off makes older files useless: no cursor skips it."""
    world = Archiving(tmp_path, keep=5)
    await written(world, 20)
    await world.sweep()
    note = world.room.tables[1]
    world.room.store.trim(note, Keep(events=2), world.room.time, 100)
    old = world.paths()
    world.close()
    again = Archiving(tmp_path, keep=5)
    assert (18, [19, 20]) == (again.store.trimmed(note), every(again))
    new = await written(again, 20)
    await again.sweep()
    assert (18, [19, 20, *new]) == (again.store.trimmed(note), every(again))
    assert {*old} < {*again.paths()}
    again.close()
    third = Archiving(tmp_path, keep=5)
    assert [19, 20, *new] == every(third)
    third.close()


async def test_m2_an_age_limit_removes_whole_files_and_their_cursors(tmp_path):
    world = Archiving(tmp_path, keep=5, days=1)
    past, note = world.room.past, world.room.tables[1]
    for _ in range(4):
        await written(world, 10)
        await world.sweep()
        world.room.time += 40_000
    assert await world.sweep() == 0
    first = every(world)[0]
    assert first > 1
    assert first - 1 == world.store.trimmed(note)
    assert [*range(first, 41)] == every(world)
    window = await past.window(TopicFilter("Note/1"), note, ANN)
    assert first - 1 == window.trimmed
    start = past.moment(world.room.kernel.cursor(1), "from")
    assert Code.GONE is await refusal(past.window(TopicFilter("Note/1"), note, ANN, start))
    world.room.time += 200_000
    await world.sweep()
    assert ([], [*range(36, 41)]) == (world.paths(), every(world))
    world.close()


async def test_k12_no_file_is_removed_by_a_wrong_clock(tmp_path):
    world = Archiving(tmp_path, keep=5, days=1, removal_now=lambda: 0.0)
    await written(world, 40)
    await world.sweep()
    world.room.time += 200_000
    await world.sweep()
    assert [*range(1, 41)] == every(world)
    world.close()


async def test_m2_a_damaged_file_is_an_error_that_names_it(tmp_path):
    world = Archiving(tmp_path, keep=5, step=1_000)
    await written(world, 20)
    await world.sweep()
    (name,) = world.paths()
    (world.feature.index.place.directory / name).write_bytes(b"no Parquet")
    with pytest.raises(Exception, match=r"0-15\.parquet.*restore that file") as caught:
        every(world)
    assert Code.BUSY is caught.value.code
    world.close()


async def test_m2_a_file_that_was_moved_away_counts_as_trimmed(tmp_path):
    world = Archiving(tmp_path, keep=5, file_bytes=0)
    await written(world, 20)
    await world.sweep()
    first, *rest = world.paths()
    (world.feature.index.place.directory / first).unlink()
    every(world)
    note = world.room.tables[1]
    assert rest
    assert [*range(world.store.trimmed(note) + 1, 21)] == every(world)
    world.close()


async def test_m2_files_of_a_topic_table_that_is_no_more_are_put_aside(tmp_path):
    """A number of a part may be used again: its files are not another table's."""
    world = Archiving(tmp_path, keep=2)
    world.room.store.define(TopicTable("mqtt_home", HOME))
    await written(world, 9, "home/x")
    await world.sweep()
    assert [*range(1, 10)] == every(world, "home/x")
    world.close()
    (place,) = world.feature.index.place.directory.iterdir()
    (place / "source").write_text("/work")
    again = Archiving(tmp_path, keep=2)
    assert [8, 9] == every(again, "home/x")
    assert [f"{place.name}.1"] == [x.name for x in world.feature.index.place.directory.iterdir()]
    again.close()


async def test_m2_an_age_limit_holds_for_files_that_are_not_read_any_more(tmp_path):
    """Those from before a gap, too: what is in them is promised to be gone."""
    world = Archiving(tmp_path, keep=5, days=1)
    await written(world, 20)
    await world.sweep()
    place = world.feature.index.place.directory / str(*world.feature.index.numbers())
    world.feature.index.add(int(place.name), ArchivedRange(1_000, 1_001, place / "none"))
    await world.sweep()
    assert world.paths()
    world.room.time += 2 * 86_400
    world.feature.rows._groups.keep(place / "none", (Group(1_001, 1_001, 1 << 62),))
    await world.sweep()
    assert not world.paths()
    world.close()


async def test_m2_a_number_that_is_used_again_while_the_server_runs(tmp_path):
    """The former table's files are too old; those of the next one are read after a start."""
    world = Archiving(tmp_path, keep=2, days=1)
    store = world.room.store
    store.define(TopicTable("mqtt_home", HOME))
    await written(world, 9, "home/x")
    await world.sweep()
    await world.room.delete("home/x")
    world.room.time += 2 * 86_400
    await world.retention._trim(HOME, Keep(seconds=60))
    await world.sweep()
    assert not store.figures(HOME).archived
    assert not store.figures(HOME).events
    store.drop(TopicTable("mqtt_home", HOME))
    store.define(TopicTable("mqtt_work", TopicRoot("work")))
    await written(world, 9, "work/x")
    await world.sweep()
    expected = every(world, "work/x")
    assert 9 == len(expected)
    world.close()
    again = Archiving(tmp_path, keep=2, days=1)
    assert expected == every(again, "work/x")
    again.close()


async def test_m2_a_name_that_a_full_disk_did_not_take_is_written_later(tmp_path, monkeypatch):
    """Else nobody would know whose files they are."""

    def full(path, data):
        raise OSError(28, "No space left on device")

    world = Archiving(tmp_path, keep=2)
    await written(world, 9)
    with monkeypatch.context() as patch:
        patch.setattr(disk_place, "replace_file", full)
        await world.sweep()
    await world.sweep()
    (place,) = world.feature.index.place.directory.iterdir()
    assert "Note" == (place / "source").read_text()
    places = (tmp_path / "archive", place.parent, place)
    assert [0o700] * 3 == [stat.S_IMODE(path.stat().st_mode) for path in places]
    world.close()


async def test_m2_a_topic_table_with_archived_events_is_in_use(tmp_path):
    world = Archiving(tmp_path, keep=1)
    define(world.room)
    await written(world, 3, "home/x")
    figures = world.room.store.figures
    assert not figures(HOME).archived
    await world.sweep()
    assert figures(HOME).archived
    assert await world.room.reader.events_of(HOME) is None
    world.close()


async def test_m2_metrics_are_trimmed_without_a_file(tmp_path):
    world = Archiving(tmp_path)
    assert None is await world.feature.archiver.secure(TopicRoot("$SYS"), Keep(events=1), 0)
    world.close()


async def test_m2_reads_of_files_have_a_lane_of_their_own(tmp_path):
    """Reads of the log by a key or position do not wait for those of files."""
    world = Archiving(tmp_path, keep=5)
    await written(world, 20)
    reader, note = world.room.reader, world.room.tables[1]
    assert ReadLane.KEYED is reader._lane_of(0, [note])
    await world.sweep()
    lanes = [reader._lane_of(after, [note]) for after in (0, 14, 15, 20)]
    assert [ReadLane.SEARCH] * 2 + [ReadLane.KEYED] * 2 == lanes
    world.close()


async def test_m2_what_is_read_at_a_time_is_bounded(tmp_path):
    world = Archiving(tmp_path, keep=1)
    for _ in range(10):
        await world.room.put("Note/1", b'{"id": "1", "x": "' + b"y" * 1_000 + b'"}')
    note, keep = world.room.tables[1], Keep(events=1)
    by_bytes = world.store.oldest_beyond(note, keep, 0, OldestRoom(100, 2_500))
    by_events = world.store.oldest_beyond(note, keep, 0, OldestRoom(4, 10**9))
    assert [3, 4] == [len(by_bytes.rows), len(by_events.rows)]
    assert [3, 4] == [by_bytes.beyond, by_events.beyond]
    world.close()
