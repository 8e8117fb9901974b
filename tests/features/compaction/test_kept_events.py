"""Events that stay beyond the history: the newest of each key, whatever happens (E16)."""

from dataclasses import replace
from random import Random

import pytest

from build import ANN, KEY, NOTE, Code, Server, refusal
from journaled import journaled
from memory_log import MemoryLog
from rowcast.codecs import CBOR, encode
from rowcast.core.errors import Error
from rowcast.core.events import CURRENT, DELETE, EXPIRY, GAP, MESSAGE, PUT, Event
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.topics import TopicFilter
from rowcast.features.compaction.compacted_reads import CompactedTables
from rowcast.features.compaction.event_keys import EventKeys
from rowcast.features.compaction.facts import Place, place_change, place_of
from rowcast.features.compaction.feature import CompactionBounds, LogCompaction
from rowcast.features.compaction.kept_events import KeptBounds, KeptEvents, TrimmedEvent
from rowcast.features.retention.retention import Retention, RetentionSettings
from rowcast.journal.applying import InlineApplying
from rowcast.journal.follower_store import FollowerStore
from rowcast.log.followed_log import FollowedLog
from rowcast.log.log import Head
from rowcast.store.older_rows import OldestRoom
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Keep
from rowcast.subscriptions.subscribed_filter import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription

ALL = TopicFilter("Stay/#")
SITE = Attribute("site", Type.STRING)
KEYS = [("site",), ("clientId",), ("topic",), ("site", "clientId"), ("id", "clientId")]

CLIENTS = ["pump", "fan", "Ann", "lamp", ""]


def table_by(*words):
    return Table(
        "Stay", "Stay", (KEY, SITE), compacts=True, kept_by=words, tombstone_seconds=100,
        history_events=4,
    )  # fmt: skip


class Follower:
    """A process that follows: it has tables of its own, and no compaction but what it reads."""

    def __init__(self, folder, epoch, table):
        self.batches = []
        tables = SqlStore(f"sqlite:///{folder / 'copy.db'}", synced=False, epoch=epoch)
        log = FollowedLog(epoch, Head(0, 0))
        self.store = FollowerStore(tables, log, InlineApplying(tables, log), lambda: 0)
        self.room = Server((table, NOTE), store=self.store)
        self.feature = CompactedTables(self.room.store, (table,))
        self.feature.install(self.room.kernel)

    def follow(self):
        """Take what has come."""
        for batch in self.batches:
            self.store.take(batch)
        self.batches.clear()


class World:
    """A server whose table keeps four events, and what by itself; its tables outlive restarts."""

    def __init__(self, folder, table, kept=None, event_bytes=200):
        self.path = f"sqlite:///{folder / 'log.db'}"
        self.table = table
        self.store = SqlStore(self.path)
        self.log = MemoryLog(self.store.epoch)
        self.follower = Follower(folder, self.store.epoch, table)
        bounds = CompactionBounds(9, OldestRoom(3, 9_999), kept or KeptBounds(99, 99_999))
        self.bounds = replace(bounds, event_bytes=event_bytes)
        self.events = []
        self.time = 0

    async def start(self, table=None):
        self.table = table or self.table
        self.room = Server((self.table, NOTE), store=journaled(self.store, self.log))
        self.room.store.on_appended = self.follower.batches.append
        self.time = self.room.time = self.time or self.room.time
        self.feature = LogCompaction(self.room.store, (self.table, NOTE), self.bounds)
        self.feature.install(self.room.kernel)

        async def facts(owner):
            return self.store.states(owner)

        await self.room.kernel.restore(facts)
        settings = RetentionSettings(Keep(), 0, step_events=2)
        self.retention = Retention(self.room.kernel, (self.table, NOTE), settings, self.room.now)
        return self

    def close(self):
        self.store.close()
        self.follower.store.close()

    def noted(self, receipt):
        self.events.append(receipt.event)
        return receipt.event.seq

    async def put(self, name, site=None, client="", **facts):
        payload = b'{"site":"%s"}' % site.encode() if site else b"{}"
        return self.noted(await self.room.put(f"Stay/{name}", payload, client=client, **facts))

    async def say(self, name, site=None, client=""):
        payload = b'{"site":"%s"}' % site.encode() if site else b"{}"
        return self.noted(await self.room.say(f"Stay/{name}", payload, client=client, qos=1))

    async def delete(self, name, client=""):
        event = Event(f"Stay/{name}", DELETE, b"", qos=1, retain=True, client=client)
        return self.noted(await self.room.kernel.write(event, ANN, None))

    @property
    def trimmed(self):
        return self.room.store.trimmed(self.table)

    async def kept(self, feature=None, topics=ALL):
        return await (feature or self.feature).kept(self.table, topics, self.trimmed)

    async def numbers(self):
        """Return the numbers of the events that stay, of each kind and of all processes."""
        self.follower.follow()
        kept = [event.fields for event in await self.kept()]
        assert kept == [event.fields for event in await self.kept(self.follower.feature)]
        return [event.seq for event in await self.kept()]

    async def window(self, start=None, topics=ALL, **facts):
        """Return the numbers of the events from one point on, and those of the last three."""
        past = self.room.past
        moment = None if start is None else past.moment(self.room.cursor(start), "from")
        window = await past.window(topics, self.table, ANN, moment, keeps=True, **facts)
        found = [event.seq async for page in past.pages(window, ANN) for event in page]
        last = [event.seq for event in await past.last(window, ANN, 3)]
        assert found[-3:] == last
        return found


@pytest.fixture
async def world(tmp_path, request):
    made = await World(tmp_path, table_by(*getattr(request, "param", ("site",)))).start()
    yield made
    made.close()


def reference(world, upto):
    """Return what stays of all events up to a number, by the words of the documentation."""
    kept = {}
    for event in world.events:
        if event.seq > upto:
            break
        if event.kind == DELETE:
            kept = {key: item for key, item in kept.items() if item.topic != event.topic}
        site = event.payload.partition(b'"site":"')[2].partition(b'"')[0] or None
        parts = {
            "site": site,
            "clientId": event.client or None,
            "topic": event.topic,
            "id": event.topic,
        }
        key = tuple(parts[word] for word in world.table.kept_by)
        if None not in key:
            kept[key] = event
    return sorted(event.seq for event in kept.values())


async def happen(world, chance):
    name, site = f"{chance.randrange(5)}", chance.choice(["x", "y", "z", None])
    what, client = chance.random(), chance.choice(CLIENTS)
    if what < 0.2:
        await world.delete(name, client)
    elif what < 0.5:
        await world.say(name, site, client)
    else:
        await world.put(name, site, client)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("world", KEYS, indirect=True)
async def test_e16_beyond_the_history_the_newest_event_of_each_key_stays(world, seed):
    """E16: by any key, over restarts, for all who read the past, and at a process that follows."""
    chance, most = Random(seed), 0
    for _ in range(120):
        await happen(world, chance)
        if chance.random() < 0.15:
            await world.retention.sweep()
        if chance.random() < 0.05:
            await world.start()
        if chance.random() < 0.3:
            kept, upto = reference(world, world.trimmed), world.trimmed
            assert kept == await world.numbers()
            rest = [event.seq for event in world.events if event.seq > upto]
            assert kept + rest == await world.window()
            after = chance.randrange(0, world.events[-1].seq)
            assert [seq for seq in kept + rest if seq > after] == await world.window(after)
            most = max(most, len(kept))
    assert most > 1


async def test_e16_a_deletion_takes_what_is_kept_of_its_record_along(world):
    """E16: once it leaves the history itself; what others have at the key's value was there."""
    first = await world.put("a", "x")
    other = await world.put("b", "y")
    await world.delete("a")
    for _ in range(2):
        await world.put("c")
    await world.retention.sweep()
    assert [first] == await world.numbers()
    for _ in range(4):
        await world.put("c")
    await world.retention.sweep()
    assert [other] == await world.numbers()


@pytest.mark.parametrize("world", [("clientId",)], indirect=True)
async def test_e16_a_kept_deletion_stays_as_long_as_a_tombstone(world):
    """E16: over a restart."""
    await world.put("a", client="pump")
    gone = await world.delete("a", "pump")
    for _ in range(4):
        await world.put("b", client="fan")
    await world.retention.sweep()
    assert [gone] == await world.numbers()
    world.room.time += 60
    world.time = world.room.time
    await world.start()
    await world.retention.sweep()
    assert [gone] == await world.numbers()
    world.room.time += 41
    await world.retention.sweep()
    assert [] == await world.numbers()


async def test_e16_the_oldest_go_where_too_many_or_too_large_ones_would_stay(tmp_path):
    world = await World(tmp_path, table_by("site"), KeptBounds(2, 99_999)).start()
    seqs = [await world.put(name, name) for name in "abc"]
    await world.put("d", "y" * 300)
    for _ in range(4):
        await world.say("e")
    await world.retention.sweep()
    assert seqs[1:] == await world.numbers()
    assert seqs[1:2] == [it.seq for it in await world.feature.kept(world.table, ALL, seqs[1])]
    await world.put("b", "c" * 300)  # whose key is another one
    large = f'{{"site":"c","more":"{"x" * 300}"}}'.encode()
    world.noted(await world.room.put("Stay/b", large))
    for _ in range(4):
        await world.say("e")
    await world.retention.sweep()
    assert seqs[1:2] == await world.numbers()  # of "c" there is a newer one, which is too large
    world.close()


def test_no_more_bytes_stay_than_their_bound():
    kept = KeptEvents(KeptBounds(9, 10))
    kept.note([TrimmedEvent(n, str(n), PUT, 0, str(n), b"1234") for n in (1, 2, 3)], 0)
    assert (["1"], ["2", "3"]) == (kept.forget(0, 0), list(kept.known))
    assert [] == kept.forget(0, 0)


async def test_what_expires_is_kept_no_longer(world):
    seq = await world.put("a", "x", properties={EXPIRY: 50})
    for _ in range(4):
        await world.say("e")
    await world.retention.sweep()
    assert [seq] == await world.numbers()
    world.room.time += 50
    assert [] == await world.kept()  # whether it was forgotten or not
    await world.retention.sweep()
    assert {} == {key: 1 for _, key, _ in world.store.states("compaction//kept/")}


async def test_events_of_another_key_are_dropped_when_the_schema_changes(world):
    await world.put("a", "x")
    for _ in range(4):
        await world.say("e")
    await world.retention.sweep()
    await world.start(table_by("clientId"))
    last = await world.say("e", client="fan")
    for _ in range(4):
        await world.say("e", client="pump")
    await world.retention.sweep()
    assert [last] == [event.seq for event in await world.kept()]


class Refusing:
    """A committer whose facts the disk refuses."""

    def __init__(self, committer):
        self._committer = committer

    def __getattr__(self, name):
        return getattr(self._committer, name)

    def keep(self, _changes, done=None):
        if done is not None:
            done(Error(Code.BUSY, "the disk is full"))


async def test_nothing_is_trimmed_that_could_not_be_kept(world, monkeypatch):
    seq = await world.put("a", "x")
    for _ in range(4):
        await world.say("e")
    kernel = world.room.kernel
    monkeypatch.setattr(kernel, "committer", Refusing(kernel.committer))
    assert (0, []) == (await world.retention.sweep(), await world.kept())
    monkeypatch.undo()
    assert 1 == await world.retention.sweep()
    await world.start()
    assert [seq] == await world.numbers()


async def test_e16_who_returns_gets_what_stayed_then_the_ends_of_records(world):
    """E16: at a process that follows as at the other one; without places to go on from."""
    first = await world.put("a", "x")
    await world.put("b", "x")
    await world.put("c", "y")
    await world.say("c", "z")
    await world.delete("a")
    for _ in range(4):
        await world.say("e")
    await world.retention.sweep()
    world.follower.follow()
    for feature, room in (
        (world.feature, world.room),
        (world.follower.feature, world.follower.room),
    ):
        subscription = Subscription(room.reader)
        interest = SubscribedFilter(ALL)
        interest.past = await feature.past(interest, first, ANN)
        room.kernel.watch(subscription, interest, ANN, first)
        heard = []
        while [CURRENT] != [kind for _, kind, _ in heard[-1:]]:
            heard += [(e.topic, e.kind, e.seq > 0) for e, _ in await subscription.batch(9)]
        ends = [("Stay/b", PUT, False), ("Stay/c", PUT, False), ("Stay/c", MESSAGE, False)]
        assert [*ends, ("Stay/a", DELETE, False)] == heard[:4]
        assert [("Stay/b", "snapshot"), ("Stay/c", "snapshot")] == [it[:2] for it in heard[4:6]]
        assert [GAP, CURRENT] == [kind for _, kind, _ in heard[6:]]


async def test_a_range_by_time_has_what_stayed_of_that_time(world):
    times = []
    for name in "abc":
        times.append(int(world.room.time * 1000))
        await world.put(name, name)
        world.room.time += 10
    for _ in range(4):
        await world.say("e")
    await world.retention.sweep()
    past = world.room.past
    start, end = past.moment(times[1], "from"), past.moment(times[2], "to")
    window = await past.window(ALL, world.table, ANN, start, end, keeps=True)
    assert ["Stay/b"] == [it.topic async for page in past.pages(window, ANN) for it in page]
    assert window.trimmed == world.trimmed
    plain = past.window(ALL, world.table, ANN, start, end)
    assert Code.GONE is await refusal(plain)
    assert 1 == len(await world.kept(topics=TopicFilter("Stay/a")))


def test_an_attribute_named_as_a_word_is_the_attribute(world):
    attributes = (KEY, Attribute("clientId", Type.STRING), Attribute("topic", Type.INT))
    table = Table("Stay", "Stay", attributes, compacts=True, kept_by=("clientId", "topic"))
    keys = EventKeys(table, world.room.kernel.transcoder)
    assert ["clientId:String", "topic:Int"] == keys.spelling


async def test_e16_a_process_that_follows_hears_of_what_is_noted_later(world):
    """E16: what it has read once is read again; readers of one time share it."""
    first = await world.put("a", "x")
    for name in "ab":
        await world.put(name, "y")
        await world.delete(name)
        for _ in range(4):
            await world.say("e", name)
        await world.retention.sweep()
        world.follower.follow()
        pasts = [
            await world.follower.feature.past(SubscribedFilter(ALL), first, ANN) for _ in range(2)
        ]
        assert pasts[0].held is pasts[1].held
        assert pasts[0].deleted[-1].record_id == name
        assert [it.fields for it in pasts[0].kept] == [it.fields for it in await world.kept()]
    assert [it.payload for it in pasts[0].kept] == [b'{"site":"a"}']


def test_a_place_of_a_version_without_keys_is_read():
    assert Place("0badcafe", 3, 7) == place_of(encode(["0badcafe", 3, 7], CBOR))
    place = Place("0badcafe", 3, 7, ("site:String",), 2)
    assert place == place_of(place_change("Stay", place).value)


async def test_a_range_that_is_trimmed_meanwhile_is_refused_before_it_begins(world):
    """E16: so its reader gets 410, and no answer that breaks off."""
    await world.put("a", "x")
    for _ in range(5):
        await world.say("e")
    await world.retention.sweep()
    window = await world.room.past.window(ALL, world.table, ANN, keeps=True)
    assert window.kept
    await world.say("e")
    await world.retention.sweep()
    assert Code.GONE is await refusal(anext(world.room.past.pages(window, ANN)))
