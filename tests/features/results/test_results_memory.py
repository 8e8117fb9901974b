"""What a result has in memory does not grow with its rows (M5): topics, names, routes, facts."""

import asyncio
import json

import pytest
from test_bulk_commit import ANN, World, dogs

from build import Server
from rowcast.core.errors import Code, Error
from rowcast.features.results.memory import Memory, owner_of
from rowcast.features.results.own_topics import AHEAD, OWN, TOPICS
from rowcast.results.result_bounds import ChangeBounds
from rowcast.results.result_changes import Author, Changes, nothing_before
from rowcast.results.result_writing import write_result
from rowcast.results.topic_shards import shard_of
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Change

OWNER = owner_of(ANN, "hourly")
HELD, NAMES = 5_000, 2_000
"""Bounds in bytes, which a result of some hundred rows exceeds."""


class Small(World):
    """A kernel that has little of a result in memory, and stages each."""

    def __init__(self, path, **bounds):
        self.store = SqlStore(path / "rowcast.db")
        most = {"staged_min": 1, "held_bytes": HELD, "names_bytes": NAMES, **bounds}
        super().__init__(Server(store=self.store), str(path), **most)
        self.together = 0
        """The most bytes of facts that were committed together."""
        self.room.committer.on_facts.append(self._count)
        for name in ("commit", "switch"):
            setattr(self.room.store, name, self._counting(getattr(self.room.store, name)))

    def _count(self, changes):
        size = sum(len(change.value or b"") for change in changes)
        self.together = max(self.together, size)

    def _counting(self, call):
        def counted(*arguments):
            self._count(arguments[-1])
            return call(*arguments)

        return counted

    def facts(self, prefix):
        return {(owner, name): value for owner, name, value in self.room.store.states(prefix)}

    def own(self):
        """The topics that the job's facts list."""
        names = json.loads(self.facts(OWNER)[OWNER, OWN])["names"]
        found = self.facts("result-names/")
        assert {name for _, name in found} <= set(names)
        return sorted(topic for value in found.values() for topic in json.loads(value))


@pytest.fixture
async def world(tmp_path):
    world = Small(tmp_path)
    yield world
    world.store.close()


def many(count, name="new"):
    return dogs(**{f"d{number:04}": name for number in range(count)})


def topics(count):
    return [f"Dog/d{number:04}" for number in range(count)]


@pytest.mark.heavy
async def test_m5_no_more_topics_of_a_result_are_in_memory_than_a_bound(world, tmp_path):
    bounds = ChangeBounds(held_bytes=HELD)
    made = Changes(world.room.kernel, Author("hourly", "", ANN), bounds, str(tmp_path))
    most = 0
    for start in range(0, 3_000, 50):
        await world.results.stage("up", str(start), "Dog", many(3_000)[start : start + 50], ANN)
        (upload,) = world.results.uploads
        async for page in upload.pages([str(start)]):
            await made.add(page)
            most = max(most, made.topics.held_bytes)
    assert 0 < most <= HELD
    sizes = [len(shard.rows) async for shard in made.compared(nothing_before)]
    assert (sum(sizes), made.count) == (3_000, 3_000)
    assert max(sizes) < 60
    assert all(map(made.has, topics(3_000)))
    made.close()


async def test_m5_rows_of_a_result_are_no_routes_and_no_cached_records(world):
    await world.room.put("Dog/mine", b'{"name": "Tom"}')
    known = set(world.room.registry.known)
    await world.write(many(300), replace=True)
    assert set(world.room.registry.known) <= known | {"Dog/d0000"}
    assert len(world.room.cache) == 0


@pytest.mark.heavy
async def test_m5_names_of_own_records_are_written_a_few_at_a_time(world):
    """Whatever they are all together, no batch of the log has more of them than a bound."""
    await world.write(many(900), replace=True)
    assert world.own() == topics(900)
    assert NAMES < world.together < 3 * NAMES + len(world.facts(OWNER)[OWNER, OWN])
    receipt = await world.write(many(880, "newer"), cut="0badcafe:2", replace=True)
    assert (receipt.written, receipt.removed) == (880, 20)
    assert world.own() == topics(880)
    assert (OWNER, AHEAD) not in world.facts(OWNER)
    receipt = await world.write([], cut="0badcafe:3", replace=True)
    assert (receipt.removed, world.own(), world.names()) == (880, [], {})


@pytest.mark.heavy
async def test_m5_a_result_with_the_same_keys_writes_no_names(world):
    await world.write(many(300), replace=True)
    names = world.facts("result-names/")
    await world.write(many(300, "newer"), cut="0badcafe:2", replace=True)
    assert world.facts("result-names/") == names
    assert len(names) > 100


@pytest.mark.heavy
async def test_m5_names_of_a_result_that_fails_are_not_the_jobs_and_go_with_the_next(world):
    await world.write(many(300), replace=True)
    switch = world.room.store.switch

    def refuse(*_):
        raise Error(Code.BUSY, "the disk is full")

    world.room.store.switch = refuse
    with pytest.raises(Error, match="the disk is full"):
        await world.write(many(900, "newer"), cut="0badcafe:2", replace=True)
    world.room.store.switch = switch
    assert json.loads(world.facts(OWNER)[OWNER, AHEAD]) == "2"
    assert len(world.facts("result-names/")) > 256
    receipt = await world.write(many(200), cut="0badcafe:3", replace=True)
    assert (receipt.removed, receipt.unchanged) == (100, 200)
    assert world.own() == topics(200)
    assert (OWNER, AHEAD) not in world.facts(OWNER)


async def test_own_records_of_an_earlier_version_are_replaced(world):
    """Which had all topics in facts of the job: a restart finds them, and the next result."""
    await world.write(many(40))
    old = {}
    for topic in topics(40):
        old.setdefault(f"{TOPICS}{shard_of(topic)}", []).append(topic)
    kept = [Change(OWNER, name, json.dumps(some).encode()) for name, some in old.items()]
    world.room.committer.keep(kept)
    await world.room.committer.durable()
    own = Memory.of(OWNER, world.room.store.states(OWNER)).own
    note = world.room.registry.shapes["Note"].table
    declared = world.room.registry.declared()
    dog = world.room.registry.shapes["Dog"].table
    assert (own.outside(note, declared), own.outside(dog, declared)) == (40, 0)
    receipt = await world.write(many(10), cut="0badcafe:2", replace=True)
    assert (receipt.unchanged, receipt.removed) == (10, 30)
    assert world.own() == topics(10)
    assert not any(name.startswith(TOPICS) for _, name in world.facts(OWNER))


async def test_own_records_that_are_many_are_read_a_shard_at_a_time(world):
    await world.write(many(300), replace=True)
    own, asked = Memory.of(OWNER, world.room.store.states(OWNER)).own, []

    async def facts(prefix):
        asked.append(prefix)
        return world.room.store.states(prefix)

    found = [await own.on(shard, facts, at_once=10) for shard in range(256)]
    assert sorted(topic for shard in found for topic in shard) == topics(300)
    assert max(map(len, found)) < 10
    assert len(asked) == len(set(asked)) == len(world.facts("result-names/"))
    asked.clear()
    assert [await own.on(shard, facts) for shard in range(256)] == found
    assert len(asked) == 1


async def test_m5_a_commit_whose_client_leaves_goes_on_and_is_busy_until_its_end(
    world, monkeypatch
):
    refused = asyncio.Event()

    async def write_when_refused(*arguments):
        writing.cancel()
        await refused.wait()
        await write_result(*arguments)

    monkeypatch.setattr("rowcast.features.results.results.write_result", write_when_refused)
    writing = asyncio.create_task(world.write(many(300), replace=True))
    with pytest.raises(asyncio.CancelledError):
        await writing
    with pytest.raises(Error, match="a result of the job hourly is being committed"):
        await world.write(many(1), cut="0badcafe:2", replace=True)
    refused.set()
    await asyncio.gather(*world.results._committing.values())
    assert world.own() == topics(300)
    await world.results.stop()
