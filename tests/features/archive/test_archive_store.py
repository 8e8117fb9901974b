"""An archive in an object store: sent before the trim, read by a cache, and cuts (M2)."""

import itertools
import logging
import shutil
import uuid

import pytest
from archiving_server import Archiving, every, ranges, written

from amounts import amount
from build import Code, Error, code_of
from object_store import BUCKET, object_store
from rowcast.core.archive_limits import ARCHIVE_TAIL_BYTES
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.features.archive.archive_index import ArchiveIndex
from rowcast.features.archive.archived_rows import ArchivedRows
from rowcast.features.archive.archiver import ArchiverBounds
from rowcast.store.older_rows import Span
from rowcast_lake.archive.log_files import ParquetFiles
from rowcast_lake.archive.store_place import StorePlace
from rowcast_lake.stores.object_paths import ObjectPath

STEPS = ("copy_from", "stat", "iterdir", "read_text", "write_bytes", "remove", "chunks")


@pytest.fixture(scope="module")
def variables():
    with object_store() as found:
        yield found


@pytest.fixture
def make(variables, monkeypatch, tmp_path):
    """Return what makes a world; each has the store of the test, and a cache that is empty."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    place = ObjectPath.of(f"s3://{BUCKET}/{uuid.uuid4().hex}")

    def new(cache_bytes=1 << 30, tail_bytes=ARCHIVE_TAIL_BYTES, **words):
        cache = tmp_path / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        files = ParquetFiles(group_events=4)

        def stored(epoch):
            return StorePlace(place / epoch, cache / epoch, cache_bytes, files, tail_bytes)

        return Archiving(tmp_path, stored=stored, **words)

    return new


class Cut:
    """A store that fails at the n-th call of one of its methods, or at all."""

    def __init__(self, monkeypatch, steps, at=None):
        self.calls = itertools.count()
        self.at = at
        self.failed = False
        for step in steps:
            monkeypatch.setattr(ObjectPath, step, self.failing(getattr(ObjectPath, step)))

    def failing(self, real):
        def call(path, *rest, **words):
            if self.at is None or next(self.calls) == self.at:
                self.failed = True
                raise OSError("the network is gone")
            return real(path, *rest, **words)

        return call


def objects(world):
    place = world.feature.index.place.store
    return sorted(str(path)[len(f"{place}/") :] for path in place.rglob() if "." in path.name)


@pytest.mark.slow
async def test_m2_what_is_trimmed_is_in_the_store_and_read_there(make):
    world = make(keep=5)
    numbers = await written(world, 60)
    assert 55 == await world.sweep()
    number = next(iter(world.feature.index.numbers()))
    wanted = sorted(f"{number}/{after}-{last}.parquet" for after, last in ranges(world))
    assert wanted == objects(world)
    world.close()
    again = make(keep=5)
    assert [] == again.paths()
    assert numbers == every(again)
    assert wanted == again.paths()
    again.close()


@pytest.mark.slow
@pytest.mark.parametrize("cache_bytes", [1, 8_000])
async def test_m2_the_cache_is_bounded_and_all_is_read(make, cache_bytes):
    """What is read stays; what was read longest ago goes."""
    world = make(keep=5, file_bytes=0, cache_bytes=cache_bytes)
    numbers = await written(world, 60)
    await world.sweep()
    assert len(objects(world)) > 5
    for _ in range(2):
        assert numbers == every(world)
        files = [*world.feature.index.place.directory.rglob("*.parquet")]
        assert len(files) == 1 or sum(x.stat().st_size for x in files) <= cache_bytes
        assert len(files) < len(objects(world))
    world.close()


@pytest.mark.slow
@pytest.mark.parametrize("step", ["copy_from", "stat", "read_text", "write_bytes", "remove"])
async def test_m2_a_cut_at_any_call_of_the_store_loses_nothing(make, monkeypatch, step):
    """Then the server goes on, or is started again without its cache; the next sweep trims."""
    world = make(keep=5)
    numbers = []
    for at in itertools.count(0, amount(long=1, short=3)):  # odd: every second starts again
        numbers += await written(world, 12)
        with monkeypatch.context() as patch:
            cut = Cut(patch, [step], at)
            await world.sweep()
        if not cut.failed:
            break
        assert numbers == every(world)
        if at % 2:
            world.close()
            world = make(keep=5)
            assert numbers == every(world)
        numbers += await written(world, 12)
        await world.sweep()
        assert "" == world.feature.archiver.problem
        assert numbers[-6] == world.store.trimmed_here(world.room.tables[1])
        assert numbers == every(world)
    assert at > 0
    world.close()


@pytest.mark.slow
async def test_m2_while_the_store_is_away_nothing_is_trimmed_and_that_is_told(
    make, monkeypatch, caplog
):
    world = make(keep=5)
    numbers = await written(world, 20)
    await world.sweep()
    numbers += await written(world, 20)
    with monkeypatch.context() as patch, caplog.at_level(logging.INFO, "rowcast.archive"):
        Cut(patch, STEPS)
        assert [0, 0] == [await world.sweep(), await world.sweep()]
        (row,) = world.feature._listed().values()
        assert "events cannot be archived, so they are not trimmed: s3://" in row["error"]
        assert 1 == sum("network is gone" in line for line in caplog.messages)
        assert numbers == every(world)  # from the cache
        shutil.rmtree(world.feature.index.place.directory)
        world.feature.rows._rows._values.clear()
        with pytest.raises(Error, match=r"cannot be read for now: s3://.*network is gone") as told:
            every(world)
        assert Code.BUSY == told.value.code
        (source,) = [world.room.tables[1]]
        newest = world.store.history(source, "Note/1", 3)
        assert numbers[-3:] == [event.seq for event in newest]
    assert 20 == await world.sweep()
    assert "" == world.feature.archiver.problem
    assert numbers == every(world)
    world.close()


@pytest.mark.heavy
async def test_m2_a_start_without_the_store_claims_no_trim(make, monkeypatch):
    """Reads of what is archived are refused, those of the log are not; all is well afterwards."""
    world = make(keep=5)
    numbers = await written(world, 20)
    await world.sweep()
    world.close()
    with monkeypatch.context() as patch:
        Cut(patch, STEPS)
        world = make(keep=5)
        note = world.room.tables[1]
        numbers += await written(world, 10)
        assert 0 == await world.sweep()
        assert (15, 0) == (world.store.trimmed_here(note), world.store.trimmed(note))
        assert Code.BUSY == code_of(every, world)
        assert Code.BUSY == code_of(world.store.since, note, 1)
        assert numbers[15:] == [x.seq for x in world.store.follow(note, "Note/1", 15, 100)]
        assert "the archive cannot be read: s3://" in world.feature.archiver.problem
    with pytest.raises(Error, match="try again"):  # it was told that nothing is missing
        every(world)
    assert numbers == every(world)
    assert 10 == await world.sweep()
    assert numbers == every(world)
    world.close()


@pytest.mark.slow
async def test_m2_a_time_is_found_by_the_ends_of_files(make):
    """Of many files one is fetched: that with the first event of this time."""
    world = make(keep=5, file_bytes=0)
    numbers = await written(world, 60)
    times = [event.version for event in world.store.follow(world.room.tables[1], "Note/1", 0, 99)]
    await world.sweep()
    world.close()
    again = make(keep=5, file_bytes=0)
    assert len(ranges(again)) > 5
    assert numbers[30] - 1 == again.store.since(again.room.tables[1], times[30])
    assert 1 == len(again.paths())
    again.close()


@pytest.mark.heavy
async def test_m2_a_large_footer_is_read_whole(make):
    world = make(keep=5, step=1_000, tail_bytes=100)
    await written(world, 60)
    await world.sweep()
    (item,) = world.feature.index.chain(next(iter(world.feature.index.numbers())))
    known = world.files.groups(item.path)
    item.path.unlink()
    assert known == world.files.groups(item.path)
    assert not item.path.exists()
    world.close()


@pytest.mark.parametrize("at", [0.5, 0.999])
async def test_m2_a_damaged_object_is_refused_by_name(make, at):
    """In its rows, or its footer."""
    world = make(keep=5, step=1_000)
    await written(world, 60)
    await world.sweep()
    world.close()
    again = make(keep=5)
    (name,) = objects(again)
    place = again.feature.index.place.store / name
    content = bytearray(place.read_bytes())
    content[int(len(content) * at) - 20] ^= 1
    place.write_bytes(bytes(content))
    with pytest.raises(Error, match=r"cannot be read \(0-55\.parquet: "):
        every(again)
    again.close()


async def test_m2_a_damaged_file_of_the_cache_is_fetched_again(make):
    world = make(keep=5, step=1_000)
    numbers = await written(world, 60)
    await world.sweep()
    (item,) = world.feature.index.chain(next(iter(world.feature.index.numbers())))
    whole = item.path.read_bytes()
    item.path.write_bytes(whole[:-30] + b"?" + whole[-29:])
    assert numbers == every(world)
    assert whole == item.path.read_bytes()
    world.close()


def damaged(path, at):
    """Change a bit of a copy; return its content before."""
    whole = path.read_bytes()
    place = int(len(whole) * at)
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    return whole


async def test_m2_a_damaged_copy_is_fetched_again_by_the_next_read(make):
    """Its summary is read from the store; a page is refused once, and then fetched anew."""
    world = make(keep=5, step=1_000)
    numbers = await written(world, 60)
    await world.sweep()
    (item,) = world.feature.index.chain(next(iter(world.feature.index.numbers())))
    known = world.files.groups(item.path)
    whole = damaged(item.path, 0.999)
    assert known == world.files.groups(item.path)
    item.path.write_bytes(whole)
    damaged(item.path, 0.3)
    with pytest.raises(Error, match="cannot be read"):
        every(world)
    assert numbers == every(world)
    assert whole == item.path.read_bytes()
    world.close()


@pytest.mark.heavy
async def test_m2_files_are_merged_although_a_copy_of_one_is_damaged(make):
    world = make(keep=5, file_bytes=0)
    numbers = await written(world, 40)
    await world.sweep()
    world.feature.archiver._bounds = ArchiverBounds()
    (number,) = world.feature.index.numbers()
    before = ranges(world)
    damaged(world.feature.index.chain(number)[-1].path, 0.3)
    with pytest.raises(OSError, match="damaged"):
        world.feature.archiver._merge_all(number)
    world.feature.archiver._merge_all(number)
    assert len(ranges(world)) < len(before)
    assert numbers == every(world)
    world.close()


def another_process(world):
    """Return the number of the part, and another process' place and index of the same files."""
    place, number = world.feature.index.place, next(iter(world.feature.index.numbers()))
    other = StorePlace(place.store, place.directory.with_name("other"))
    index = ArchiveIndex(other)
    index.look(number, "Note", 35)
    return number, other, index


@pytest.mark.slow
async def test_m2_another_process_finds_what_was_merged(make):
    """A worker's index is older: the file it names is gone, and the rows are in another one."""
    world = make(keep=5, file_bytes=0)
    await written(world, 40)
    await world.sweep()
    number, other, index = another_process(world)
    assert len(index.chain(number)) > 3
    world.feature.archiver._bounds = ArchiverBounds()
    world.feature.archiver._merge_all(number)
    rows = ArchivedRows(index, other).walk(number, Span(0, 35), lambda: None)
    assert [*range(1, 36)] == [row[0] for row in rows]
    assert ranges(world) == [(x.after, x.last) for x in index.chain(number)]
    world.close()


@pytest.mark.heavy
async def test_m2_what_is_merged_while_it_is_fetched_is_read_from_the_merged_file(
    make, monkeypatch
):
    """The store found it when it was opened, and does not when it is read."""
    world = make(keep=5, file_bytes=0)
    await written(world, 40)
    await world.sweep()
    number, other, index = another_process(world)
    world.feature.archiver._bounds = ArchiverBounds()
    whole = ObjectPath.chunks

    def merged_meanwhile(path, size):
        monkeypatch.setattr(ObjectPath, "chunks", whole)
        with path.files.open_input_stream(path.key) as stream:
            world.feature.archiver._merge_all(number)
            yield stream.read(size)

    monkeypatch.setattr(ObjectPath, "chunks", merged_meanwhile)
    rows = ArchivedRows(index, other).walk(number, Span(0, 35), lambda: None)
    assert [*range(1, 36)] == [row[0] for row in rows]
    world.close()


async def test_m2_files_of_a_topic_table_that_is_no_more_are_put_aside_in_the_store(make):
    world = make(keep=2)
    world.store.define(TopicTable("mqtt_home", TopicRoot("home")))
    await written(world, 9, "home/x")
    await world.sweep()
    (name,) = objects(world)
    number = name.partition("/")[0]
    place = world.feature.index.place
    (place.store / number / "source").write_bytes(b"/other")
    world.close()
    again = make(keep=2)
    assert [f"{number}.1/{name.partition('/')[2]}"] == objects(again)
    assert [] == ranges(again)
    again.close()


async def test_m2_a_bucket_that_is_not_there_is_no_empty_archive(variables, monkeypatch, tmp_path):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    place = StorePlace(ObjectPath.of("s3://nobody/x"), tmp_path)
    with pytest.raises(ConnectionError, match="s3://nobody/x cannot be reached"):
        place.folders()


@pytest.mark.heavy
async def test_m2_what_another_node_has_removed_leaves_the_cache(make):
    """A node that follows keeps no copy of what is too old, or merged."""
    world = make(keep=5, file_bytes=0)
    await written(world, 30)
    await world.sweep()
    every(world)
    index = world.feature.index
    (number,) = index.numbers()
    oldest, *rest = index.chain(number)
    assert oldest.path.exists()
    (
        index.place.store / oldest.path.parent.name / oldest.path.name
    ).remove()  # as another node does
    index.renew(number, rest[-1].last)
    assert not oldest.path.exists()
    assert tuple(rest) == index.chain(number)
    world.close()
