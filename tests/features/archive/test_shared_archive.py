"""An archive that several nodes write and read: overlaps, folders by name, agreement."""

from pathlib import Path

import pytest
from archiving_server import Archiving, every, written

from build import Code, Error
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.features.archive.archive_folders import folder_of
from rowcast.features.archive.archive_index import ArchivedRange, ArchiveIndex, chain_of
from rowcast.features.archive.disk_place import DiskPlace
from rowcast.program.cluster_checks import agreed, check_cluster
from rowcast.program.config import load_config

CLUSTER = {
    "cluster.name": "home",
    "cluster.node": "a",
    "cluster.peers": "a=127.0.0.1:6222",
    "cluster.secret": "s" * 16,
    "log.archive": "true",
}


@pytest.mark.parametrize(
    ("ranges", "chain"),
    [
        (["0-5", "5-8", "5-10"], ["0-5", "5-10"]),
        (["0-8", "5-12", "12-14"], ["0-8", "5-12", "12-14"]),
        (["0-8", "7-9", "8-12"], ["0-8", "8-12"]),
        (["0-3", "1-2", "3-4", "2-6", "5-7"], ["0-3", "2-6", "5-7"]),
        (["0-5", "6-9"], ["6-9"]),
        (["0-9", "2-4", "5-9"], ["0-9"]),
        ([], []),
    ],
)
def test_m2_a_chain_is_the_fewest_files_that_reach_the_end(ranges, chain):
    found = chain_of(ArchivedRange(*map(int, x.split("-")), Path(x)) for x in ranges)
    assert chain == [f"{item.after}-{item.last}" for item in found]


def shared(folder, place, first):
    """Return a server that shares a place; the number of each of its topic tables is its own."""
    folder.mkdir()
    world = Archiving(folder, keep=3, place=place)
    levels = ("home", "work") if first else ("work", "home")
    for level in levels:
        world.room.store.define(TopicTable(f"mqtt_{level}", TopicRoot(level)))
    return world


@pytest.mark.heavy
async def test_m2_nodes_whose_parts_have_other_numbers_share_their_files(tmp_path):
    """Who takes over goes on where the other one ended; each reads all, under its own numbers."""
    place = DiskPlace(tmp_path / "shared")
    worlds = [shared(tmp_path / name, place, name == "a") for name in "ab"]
    numbers = [world.room.store.log_parts() for world in worlds]
    assert numbers[0] != numbers[1]
    wanted = {}
    for turn in range(4):
        for level in ("home", "work"):
            for world in worlds:
                told = await written(world, 7, f"{level}/x")
            wanted.setdefault(level, []).extend(told)
        sweeper, follower = (worlds[turn % 2], worlds[1 - turn % 2])
        await sweeper.sweep()
        follower.room.kernel.archive = None  # it only applies the trims
        for number, (name, _) in follower.room.store.log_parts().items():
            trimmed = next(t for n, t in sweeper.room.store.log_parts().values() if n == name)
            follower.feature.index.look(number, name, trimmed)
        await follower.sweep()
        follower.room.kernel.archive = follower.feature.archiver
        for world in worlds:
            for level, seqs in wanted.items():
                assert seqs == every(world, f"{level}/x")
    for world in worlds:
        world.close()


async def test_m2_what_a_server_archived_is_read_when_it_is_a_node(tmp_path):
    world = Archiving(tmp_path, keep=3)
    numbers = await written(world, 20)
    await world.sweep()
    place = world.feature.index.place
    (folder,) = place.folders()
    world.close()
    world = Archiving(tmp_path, keep=3, place=place)
    assert numbers == every(world)
    numbers += await written(world, 20)
    await world.sweep()
    assert numbers == every(world)
    assert {folder, folder_of("Note")} == {*place.folders()}
    world.close()


def test_m2_what_another_node_merged_alike_is_left_to_it(tmp_path):
    """Each of two nodes would remove what the other one relies on."""
    index = ArchiveIndex(DiskPlace(tmp_path), "a1")
    index.prepare(1, "Note")
    mine, others = (index.path(1, 0, 8).with_name(f"0-8-{name}.parquet") for name in ("a1", "b1"))
    for path in (mine, others):
        path.touch()
    index.renew(1)
    (known,) = index.chain(1)
    new = ArchivedRange(0, 8, others if known.path == mine else mine)
    assert () == index.merge(1, new)
    assert [(0, 8)] == [item[:2] for item in index.chain(1)]


class Away(DiskPlace):
    """A place that is away while ``asked`` is counted."""

    def __init__(self, directory):
        super().__init__(directory)
        self.asked = 0

    def names(self, folder):
        self.asked += 1
        raise ConnectionError(f"{folder} is away")


def test_m2_a_node_asks_a_place_that_is_away_once(tmp_path):
    """A reader waits for one answer, not for one of each part."""
    index = ArchiveIndex(Away(tmp_path), "a1")
    for number in range(5):
        index.look(number, f"Part{number}", 9)
    assert 1 == index.place.asked
    assert dict.fromkeys(range(5), 9) == {n: index.closed(n) for n in index.numbers()}


def test_m2_a_node_has_no_archive_of_its_own():
    with pytest.raises(Error, match=r"set log\.archive_location") as caught:
        check_cluster(load_config(None, {}, CLUSTER))
    assert Code.INVALID == caught.value.code
    check_cluster(load_config(None, {}, CLUSTER | {"log.archive_location": "s3://lake/x"}))


def test_m2_nodes_agree_on_the_place():
    def of(place):
        return agreed(load_config(None, {}, CLUSTER | place), "type Dog @table { id: ID }")

    first = of({"log.archive_location": "s3://lake/x"})
    assert first == of({"log.archive_location": "s3://lake/x/"})
    assert first != of({"log.archive_location": "s3://lake/y"})
    assert first != of({"log.archive": "false"})


def test_m2_what_is_forgotten_is_the_file_that_is_too_old(tmp_path):
    """A reader may find that it was merged meanwhile: the merged file has younger events."""
    place = DiskPlace(tmp_path)
    place.begin(folder_of("Dog"), "Dog")
    for name in ("0-5-a", "5-9-a"):
        (tmp_path / folder_of("Dog") / f"{name}.parquet").touch()
    index = ArchiveIndex(place, "b")
    index.read({1: ("Dog", 9)}, clean=False)
    old, young = index.chain(1)
    (tmp_path / folder_of("Dog") / "0-9-a.parquet").touch()
    index.renew(1, 9)
    merged = index.chain(1)
    index.forget(1, old)
    assert merged == index.chain(1) != (old, young)
    assert [(0, 9)] == [item[:2] for item in merged]
