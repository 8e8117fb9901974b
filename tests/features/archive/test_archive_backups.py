"""The archive in a backup while the server goes on: merged files, and what is after its end."""

import shutil

import pytest
from archiving_server import Archiving, every, ranges, written

from build import code_of
from rowcast.core.errors import Code
from rowcast.features.archive.disk_place import DiskPlace
from rowcast.program import archive_backups
from rowcast.program.archive_backups import (
    Earlier,
    back_up_archive,
    copy_stored,
    digest_of,
    restore_archive,
)
from rowcast.store.backup import copy_database, parts_of
from rowcast_lake.archive.log_files import ParquetFiles


def backed_up(world, name="kept", earlier=None):
    """Back up what a world has."""
    place = world.folder / name
    place.mkdir()
    copied = copy_database(world.folder / "log.db", place / "log.db")
    parts = parts_of(place / "log.db")
    back_up_archive(world.folder, place, copied.epoch, parts, copied.head, earlier)
    return place, copied


def brought_back(place, copied, folder):
    """Restore into a folder, under the same epoch; return a world there."""
    folder.mkdir()
    shutil.copyfile(place / "log.db", folder / "log.db")
    restore_archive(place, folder, (copied.epoch, copied.epoch), copied.head)
    return Archiving(folder, keep=5)


@pytest.mark.heavy
async def test_o12_what_is_archived_after_the_copy_is_cut_off(tmp_path):
    """The last file of the part is merged with later events, whose numbers are used again."""
    world = Archiving(tmp_path, keep=5)
    numbers = await written(world, 40)
    await world.sweep()
    place = tmp_path / "kept"
    place.mkdir()
    copied = copy_database(tmp_path / "log.db", place / "log.db")
    await written(world, 60)
    await world.sweep()
    assert [x for x in ranges(world) if x[0] < 40 < x[1]], "a file goes on behind the copy"
    parts = parts_of(place / "log.db")
    back_up_archive(tmp_path, place, copied.epoch, parts, copied.head)
    world.close()
    again = brought_back(place, copied, tmp_path / "again")
    assert numbers == every(again)
    assert 40 == ranges(again)[-1][1]
    new = await written(again, 30)
    await again.sweep()
    assert [*numbers, *new] == every(again)
    again.close()


class Failing(DiskPlace):
    """Stands for a store that goes away while a restore copies within it."""

    def __init__(self, directory, copies=1, removes=True):
        super().__init__(directory)
        self.copies, self.removes = copies, removes

    def copy(self, path, other, target):
        if not self.copies:
            raise ConnectionError("the store is gone")
        self.copies -= 1
        shutil.copyfile(path, other.directory / target.parent.name / target.name)

    def remove(self, path):
        if not self.removes:
            raise ConnectionError("the store is gone")
        super().remove(path)


@pytest.mark.parametrize("removes", [True, False])
async def test_o12_a_restore_that_fails_leaves_no_objects_or_tells_of_them(
    tmp_path, caplog, removes
):
    world = Archiving(tmp_path, keep=5, file_bytes=0)
    await written(world, 40)
    await world.sweep()
    assert len(ranges(world)) > 1
    old, new = Failing(world.feature.index.place.directory), tmp_path / "archive" / "new"
    parts = parts_of(tmp_path / "log.db")
    with pytest.raises(ConnectionError, match="the store is gone"):
        copy_stored((old, Failing(new, removes=removes)), "new", 40, parts, shared=False)
    left = [path for path in new.rglob("*") if path.is_file()]
    assert bool(left) is not removes
    assert ("below new/ in log.archive_location cannot be removed" in caplog.text) is not removes
    world.close()


async def test_o12_a_file_that_is_merged_while_it_is_copied_is_found_in_the_other(
    tmp_path, monkeypatch
):
    world = Archiving(tmp_path, keep=5, file_bytes=0)
    numbers = await written(world, 40)
    await world.sweep()
    copied, number = [], next(iter(world.feature.index.numbers()))
    copy = shutil.copyfile

    def merging(source, target):
        if copied == []:
            files = [item.path for item in world.feature.index.chain(number)]
            name = f"{ranges(world)[0][0]}-{ranges(world)[-1][1]}.parquet"
            ParquetFiles(group_events=4).merge(files, files[0].with_name(name), {})
            for path in files[1:]:
                path.unlink()
        copied.append(source.name)
        copy(source, target)

    monkeypatch.setattr(archive_backups.shutil, "copyfile", merging)
    kept = backed_up(world)
    monkeypatch.undo()
    assert ["0-6.parquet", "6-12.parquet", "0-35.parquet", "source"] == copied
    world.close()
    again = brought_back(*kept, tmp_path / "again")
    assert 1 == len(ranges(again))
    assert numbers == every(again)
    again.close()


async def test_o12_files_that_go_whenever_they_are_listed_are_told(tmp_path, monkeypatch):
    world = Archiving(tmp_path, keep=5)
    await written(world, 40)
    await world.sweep()

    def gone(source, target):
        raise FileNotFoundError(2, "No such file", str(source))

    monkeypatch.setattr(archive_backups.shutil, "copyfile", gone)
    assert Code.BUSY == code_of(backed_up, world)
    world.close()


async def test_o12_a_file_of_an_earlier_backup_is_linked_unless_it_is_damaged(tmp_path):
    world = Archiving(tmp_path, keep=5, file_bytes=0)
    await written(world, 40)
    await world.sweep()
    first, _ = backed_up(world, "first")
    files = sorted(first.rglob("*.parquet"))
    earlier = Earlier(first, {str(x.relative_to(first)): digest_of(x) for x in files})
    files[0].write_bytes(b"PAR1")
    second, _ = backed_up(world, "second", earlier)
    there = [second / x.relative_to(first) for x in files]
    assert [2] * (len(files) - 1) == [x.stat().st_nlink for x in there[1:]]
    assert 1 == there[0].stat().st_nlink
    assert there[0].stat().st_size > 4
    world.close()


@pytest.mark.parametrize("upto", [1, 4, 5, 12])
async def test_o12_a_cut_file_has_the_rows_up_to_a_number(tmp_path, upto):
    world = Archiving(tmp_path, keep=5, step=1_000)
    await written(world, 20)
    await world.sweep()
    (item,) = world.feature.index.chain(next(iter(world.feature.index.numbers())))
    target = tmp_path / "cut.parquet"
    world.files.cut(item.path, target, upto, {})
    with world.files.open(target) as file:
        groups = file.groups()
        rows = [row[0] for i in range(len(groups)) for row in file.rows(i)]
    assert [*range(1, upto + 1)] == rows
    world.close()
