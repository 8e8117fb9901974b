"""Tombstones: each deletion is known for as long as promised, over restarts (E16)."""

from dataclasses import replace

import pytest

from build import ANN, DOG, NOTE, Caller, Server
from rowcast.core.callers import Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import CURRENT, DELETE, GAP, MESSAGE, PUT
from rowcast.core.topics import TopicFilter
from rowcast.features.compaction.feature import CompactionBounds, LogCompaction
from rowcast.features.compaction.tombstones import Tombstones, TrimmedVersion
from rowcast.features.retention.retention import Retention, RetentionSettings
from rowcast.store.older_rows import OldestRoom
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Keep
from rowcast.subscriptions.compacted_past import CompactedPast
from rowcast.subscriptions.subscribed_filter import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription

KEPT = replace(NOTE, compacts=True, tombstone_seconds=100, history_events=1)
ALL = TopicFilter("Note/#")


def events(*kinds):
    """Return events of records that are named by the kinds' second letter."""
    return [TrimmedVersion(n + 1, it[1], {"+": PUT, "-": DELETE, "!": MESSAGE}[it[0]], n)
            for n, it in enumerate(kinds)]  # fmt: skip


def known(tombstones, position, upto=99):
    tombstones.upto = max(tombstones.upto, upto)
    return told(tombstones, position, upto)


def told(tombstones, position, upto, topics=ALL):
    """Return the topics of the deletions that a reader is told of."""
    found = tombstones.between(position, upto)
    return None if found is None else topics_of(CompactedPast(KEPT, topics, position, upto, found))


def topics_of(past):
    pages = [past.deletions(n, n + 2) for n in range(0, len(past.deleted), 2)]
    return [event.topic for page in pages for event in page]


def test_a_deletion_is_known_until_the_record_is_written_again():
    tombstones = Tombstones(10)
    changed = tombstones.note(events("-a", "-b", "+a", "!b", "-c"), 7)
    assert {"a": None, "b": 2, "c": 5} == {k: v and v.seq for k, v in changed.items()}
    assert ["Note/b", "Note/c"] == known(tombstones, 0)
    assert ["Note/c"] == known(tombstones, 2)
    assert {} == tombstones.note(events("-b"), 8)  # it was noted before


def test_deletions_of_other_topics_are_not_told():
    tombstones = Tombstones(10)
    tombstones.note(events("-a", "-b"), 7)
    assert ["Note/b"] == told(tombstones, 0, 2, TopicFilter("Note/b"))
    assert ["Note/a"] == told(tombstones, 0, 1)
    assert None is told(tombstones, 0, 3)  # more was trimmed than noted
    (first, second) = CompactedPast(KEPT, ALL, 0, 2, tombstones.between(0, 2)).deletions(0, 9)
    assert (first.version, second.version, first.seq) == (0, 1, 0)


def test_the_oldest_are_forgotten_by_age_and_by_number():
    """E16: a cursor from before the last one that was forgotten is too old."""
    tombstones = Tombstones(2)
    tombstones.note(events("-a"), 5)
    tombstones.note(events("-a", "-b", "-c"), 50)
    assert [] == Tombstones(2).forget(99)
    assert ["a"] == tombstones.forget(0)  # too many
    assert (None, ["Note/b", "Note/c"]) == (known(tombstones, 0), known(tombstones, 1))
    assert [] == tombstones.forget(50)
    assert ["b", "c"] == tombstones.forget(50.1)
    assert (None, []) == (known(tombstones, 2), known(tombstones, 3))


class World:
    """A server whose table keeps one event; its store outlives restarts."""

    def __init__(self, folder):
        self.path = f"sqlite:///{folder / 'log.db'}"
        self.tables = (KEPT, DOG)
        self.store = SqlStore(self.path)
        self.time = 0

    async def start(self, *, compacts=True, reading=None):
        self.room = Server(self.tables, store=self.store, reading=reading)
        self.time = self.room.time = self.time or self.room.time
        self.feature = LogCompaction(
            self.room.store, self.tables if compacts else (), CompactionBounds(9, OldestRoom(2, 99))
        )
        self.feature.install(self.room.kernel)

        async def facts(owner):
            return self.store.states(owner)

        await self.room.kernel.restore(facts)
        settings = RetentionSettings(Keep(), 0, step_events=3)
        self.retention = Retention(self.room.kernel, self.tables, settings, self.room.now)
        return self

    async def write(self, *topics):
        """Write or, with a minus, delete; return the number of the last one."""
        for topic in topics:
            if topic[0] == "-":
                done = await self.room.delete(f"Note/{topic[1:]}")
            else:
                done = await self.room.put(f"Note/{topic}")
        return done.event.seq

    async def past(self, after, filter_="Note/#", caller=ANN):
        interest = SubscribedFilter(TopicFilter(filter_))
        found = await self.feature.past(interest, after, caller)
        return None if found is None else topics_of(found)


@pytest.fixture
async def world(tmp_path):
    made = await World(tmp_path).start()
    yield made
    made.store.close()


async def test_e16_deletions_are_noted_before_they_are_trimmed(world):
    first = await world.write("a", "b", "c")
    await world.write("-a", "-b", "b", "-c", "x", "x")
    assert 8 == await world.retention.sweep()
    assert (["Note/a", "Note/c"], ["Note/c"]) == (
        await world.past(first),
        await world.past(first, "Note/c"),
    )
    assert None is await world.past(first, "#")
    await world.start()
    assert ["Note/a", "Note/c"] == await world.past(first)


async def test_e16_deletions_of_others_are_passed_over_page_by_page(world):
    await world.start(reading={"table_scan_records": 1})
    first = await world.write("a", "b", "c", "d")
    await world.write("-a", "-b", "-c", "-d", "x", "x")
    await world.retention.sweep()
    subscription = Subscription(world.room.reader)
    interest = SubscribedFilter(TopicFilter("Note/c"))
    interest.past = await world.feature.past(interest, first, ANN)
    world.room.kernel.watch(subscription, interest, ANN)
    heard = []
    while [CURRENT] != [kind for _, kind in heard[-1:]]:
        heard += [(event.topic, event.kind) for event, _ in await subscription.batch(9)]
    assert [("Note/c", DELETE), ("", GAP), ("", CURRENT)] == heard


async def test_e16_a_tombstone_stays_as_long_as_declared(world):
    first = await world.write("a", "b")
    await world.write("-a", "x", "x")
    await world.retention.sweep()
    world.room.time += 100
    await world.retention.sweep()
    assert ["Note/a"] == await world.past(first)
    world.room.time += 1
    await world.retention.sweep()
    assert (None, []) == (await world.past(first), await world.past(first + 1))
    await world.start()
    assert (None, []) == (await world.past(first), await world.past(first + 1))


async def test_what_was_trimmed_while_the_table_did_not_compact_is_not_known(world):
    first = await world.write("a", "b")
    last = await world.write("-a", "x")
    await world.retention.sweep()
    await world.start(compacts=False)
    await world.write("-b", "x", "x")
    await world.retention.sweep()
    await world.start()
    assert (None, None) == (await world.past(first), await world.past(last))
    now = await world.write("x", "c")
    await world.write("-c", "x")
    await world.retention.sweep()
    assert ["Note/c"] == await world.past(now)
    await world.start()
    assert ["Note/c"] == await world.past(now)


async def test_tombstones_of_another_log_are_dropped(world):
    await world.write("a", "-a", "x", "x")
    await world.retention.sweep()
    world.feature._store.epoch = "0badcafe"
    world.feature._restore(world.store.states("compaction/"))
    assert {} == world.feature.tombstones["Note"].known


class Refusing:
    """A committer whose facts the disk refuses."""

    def __init__(self, committer):
        self._committer = committer

    def __getattr__(self, name):
        return getattr(self._committer, name)

    def keep(self, _changes, done=None):
        if done is not None:
            done(Error(Code.BUSY, "the disk is full"))


async def test_nothing_is_trimmed_while_the_disk_refuses(world, monkeypatch):
    first = await world.write("a", "-a", "x", "x")
    kernel = world.room.kernel
    monkeypatch.setattr(kernel, "committer", Refusing(kernel.committer))
    assert (0, 0) == (await world.retention.sweep(), world.room.store.trimmed(KEPT))
    monkeypatch.undo()
    assert 3 == await world.retention.sweep()
    await world.start()
    assert ["Note/a"] == await world.past(0)
    assert [] == await world.past(first - 1)


async def test_who_may_not_read_each_record_begins_anew(world, monkeypatch):
    """E16: a deletion might tell of a record that was hidden."""
    first = await world.write("a")
    await world.write("-a", "x", "x")
    await world.retention.sweep()
    caller = Caller("rita", Grants(read=True), "http")
    assert ["Note/a"] == await world.past(first, caller=caller)

    class Compares:
        compares = True

    monkeypatch.setattr(world.room.kernel, "stage", lambda _: Compares())
    assert None is await world.past(first, caller=caller)
