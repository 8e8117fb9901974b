"""Large results in tables that sites compare: newer writes win over staged rows, and over nothing.

Pages, and writes between them, come one at a time.
"""

import asyncio
from math import inf

import pytest
from test_bulk_commit import dogs
from test_staged_followed import Both, followed
from test_staged_results import Staged, read, subscribed

from build import ANN, EPOCH, NOW, TABLES
from rowcast.codecs import JSON
from rowcast.core.clock import PER_SECOND
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.lineage import client_of
from rowcast.core.topics import TopicFilter
from rowcast.features.retention.expiries import EndOfRecords
from rowcast.features.sites.feature import Sites
from rowcast.writes.known_versions import seen_by
from rowcast.writes.last_write_wins import put_stamp, stamp_of
from rowcast.writes.staged_commit import SupersededCounts, YieldScope
from rowcast.writes.write import FIRE_AND_FORGET, Receipt, Write
from virtual import turns

DOG = TABLES[0]
LATER, EARLIER = "ffffffff", "00000000"
"""Origins that win and lose where versions are equal."""


class Synced(Staged):
    """A kernel whose dogs are kept equal at several sites."""

    def __init__(self, path, **bounds):
        super().__init__(path, **bounds)
        self.sync()

    def sync(self, topics="#"):
        self.sites = Sites([TopicFilter(topics)])
        self.sites.install(self.room.kernel)

    def time(self, seconds):
        self.room.time = NOW + seconds

    async def begin(self, total=9):
        self.time(10)
        return self.room.committer.begin_staged(total, YieldScope({"Dog"}, lambda _: True))

    async def page(self, staged, **rows):
        """Stage a page: the name of each dog, None for the end of its record."""
        writes = [_admitted(self.room.kernel, f"Dog/{key}", name) for key, name in rows.items()]
        outcomes = await self.room.committer.stage(staged, writes)
        return [key for key, it in zip(rows, outcomes, strict=True)
                if isinstance(it, Receipt) and not it.late]  # fmt: skip

    async def switch(self, staged):
        """Switch; return what has given way."""
        told = []

        def conclude(_last, superseded):
            told.append(superseded)
            return ()

        await self.room.committer.switch(staged, conclude, lambda _: True)
        return told[0]

    async def put(self, key, name="by hand"):
        await self.room.put(f"Dog/{key}", b'{"name": "%s"}' % name.encode())

    async def delete(self, key):
        await self.room.kernel.write(Event(f"Dog/{key}", DELETE, b"", None, 1, True), ANN)

    async def remote(self, key, version, name="remote", origin=LATER):
        """Write what comes from another site; return whether it won."""
        kind, payload = (DELETE, b"") if name is None else (PUT, b'{"name": "%s"}' % name.encode())
        event = Event(f"Dog/{key}", kind, payload, JSON if payload else None, 1, True)
        put_stamp(event, str(version), origin)
        return not (await self.room.kernel.write(event, ANN)).late

    def at(self, key):
        """Return the events of a dog in the log."""
        return [event for event in self.log() if event.topic == f"Dog/{key}"]


def _admitted(kernel, topic, name):
    kind, payload = (DELETE, b"") if name is None else (PUT, b'{"name": "%s"}' % name.encode())
    event = Event(topic, kind, payload, JSON if payload else None, 1, True)
    event.client = client_of("hourly", "0badcafe:1")
    write = Write(event, ANN, FIRE_AND_FORGET, passed=True, part_of="a result")
    kernel.writes.admit(write)
    return write


def at(seconds):
    return int((NOW + seconds) * PER_SECOND)


async def test_k3_newer_writes_win_over_staged_rows_before_and_after_their_page(tmp_path):
    world = Synced(tmp_path)
    for key in "abcdef":
        await world.put(key, "old")
    staged = await world.begin()
    assert await world.page(staged, a="r", b="r", c=None, d=None, x="r") == list("abcdx")
    await world.put("a")
    await world.delete("b")
    await world.put("c")
    await world.put("e")
    await world.delete("f")
    before = world.records()
    assert await world.page(staged, e="r", f="r", g="r") == ["g"]
    assert world.records() == before
    assert await world.switch(staged) == SupersededCounts(2, 1)
    hand = {"Dog/a": "by hand", "Dog/c": "by hand", "Dog/e": "by hand"}
    assert world.records() == hand | {"Dog/x": "r", "Dog/g": "r"}
    told = [(event.topic[-1], event.kind) for event in world.log()[6:]]
    assert told[:5] == [("a", PUT), ("b", DELETE), ("c", PUT), ("e", PUT), ("f", DELETE)]
    assert told[5:] == [("d", DELETE), ("x", PUT), ("g", PUT)]
    figures = world.store.figures(DOG)
    assert (figures.events, figures.bytes) == (
        len(world.log()),
        sum(len(event.payload) for event in world.log()),
    )
    assert world.store.count(DOG) == 5
    versions = {event.version for event in world.log()[-3:]}
    assert versions == {staged.version}
    world.store.close()


async def test_k3_what_comes_from_other_sites_is_compared_by_version_and_origin(tmp_path):
    world = Synced(tmp_path)
    for key in "abcd":
        await world.put(key, "old")
    staged = await world.begin()
    same = staged.version
    await world.page(staged, a="r", b="r", c="r", d="r")
    assert await world.remote("a", at(5))  # newer than the record, and older than the row
    assert await world.remote("b", same + 1)
    assert await world.remote("c", same, origin=LATER)
    assert await world.remote("d", same, origin=EARLIER)
    assert set(world.records().values()) == {"remote"}
    assert await world.switch(staged) == SupersededCounts(2, 0)
    assert world.records() == {
        "Dog/a": "r", "Dog/b": "remote", "Dog/c": "remote", "Dog/d": "r",
    }  # fmt: skip
    for key in "abcd":
        stamps = [stamp_of(event, EPOCH) for event in world.at(key)]
        assert stamps == sorted(stamps)
    world.store.close()


async def test_k3_of_a_result_of_which_nothing_is_left_nobody_hears(tmp_path):
    world = Synced(tmp_path)
    staged = await world.begin()
    await world.page(staged, a="r", b="r")
    for key in "abc":
        await world.put(key)
    world.heard.events.clear()
    assert await world.switch(staged) == SupersededCounts(2, 0)
    assert world.heard.events == []
    assert set(world.records().values()) == {"by hand"}
    await world.put("a", "later")
    assert [event.seq for event in world.heard.events] == [staged.last + 1]
    assert world.room.store.head() == world.log()[-1].seq == staged.last + 1
    world.store.close()


async def test_k3_a_row_says_what_its_site_had_seen_when_its_page_was_decided(tmp_path):
    """So who overwrites knowingly makes no conflict elsewhere, and who does not makes one."""
    world = Synced(tmp_path)
    await world.put("a", "old")
    staged = await world.begin()
    await world.remote("a", at(5))
    await world.page(staged, a="r", b="r")
    await world.remote("b", at(6))
    await world.switch(staged)
    assert world.records() == {"Dog/a": "r", "Dog/b": "r"}
    seen = {event.topic: seen_by(event.properties) for event in world.log()[-2:]}
    assert seen == {"Dog/a": {LATER: at(5)}, "Dog/b": {}}
    world.store.close()


async def test_k3_a_staged_deletion_is_remembered_from_the_switch_on(tmp_path):
    world = Synced(tmp_path)
    for key in "abc":
        await world.put(key, "old")
    staged = await world.begin()
    await world.page(staged, a=None, b=None, c=None)
    assert await world.remote("a", at(4), None)
    assert await world.remote("b", at(4), None)
    assert await world.remote("b", at(5))  # what was deleted at 4, and nobody sees more yet
    assert await world.remote("c", staged.version + 1, None)
    assert await world.switch(staged) == SupersededCounts(0, 1)
    assert world.records() == {}
    for key in "ab":
        assert not await world.remote(key, at(6))
        assert not await world.remote(key, staged.version, origin=EARLIER)
        assert await world.remote(key, staged.version + 2)
    assert not await world.remote("c", staged.version + 1, origin=EARLIER)
    world.store.close()


async def test_k3_a_staged_deletion_that_nobody_will_see_is_not_remembered(tmp_path):
    world = Synced(tmp_path)
    await world.put("a", "old")
    staged = await world.begin()
    await world.page(staged, a=None)
    world.room.committer.abandon(staged)
    await world.room.committer.durable()
    assert await world.remote("a", at(4), None)
    assert await world.remote("a", at(5))
    assert world.records() == {"Dog/a": "remote"}
    world.store.close()


@pytest.mark.slow
async def test_m5_the_receipt_tells_what_was_written(tmp_path):
    world = Synced(tmp_path)
    many = {f"d{number:04}": "new" for number in range(2_500)}
    await world.write(dogs(**many, gone="x"), cut="0badcafe:1", replace=True)
    world.time(60)
    stage, pages, written = world.room.store.stage, [], []

    def staging(*arguments, **more):
        done = stage(*arguments, **more)
        pages.append(1)
        if len(pages) == 1:
            written.extend(asyncio.ensure_future(world.put(key)) for key in ("d0001", "gone"))
        return done

    world.room.store.stage = staging
    again = dict.fromkeys(many, "newer")
    receipt = await world.write(dogs(**again), cut="0badcafe:2", replace=True)
    await asyncio.gather(*written)
    assert len(pages) == 3
    told = receipt.rows, receipt.written, receipt.unchanged, receipt.removed
    assert told == (2_500, 2_499, 1, 0)
    expected = {f"Dog/{key}": "newer" for key in many}
    assert world.records() == expected | {"Dog/d0001": "by hand", "Dog/gone": "by hand"}
    assert all(event.version > 0 for event in world.log())
    world.store.close()


async def test_m5_a_synced_result_has_as_many_changes_as_any_other(tmp_path):
    """Rows that are as their records are no changes, though each says what it had seen."""
    world = Synced(tmp_path, changes=20)
    rows = {f"k{number}": "new" for number in range(20)}
    await world.results.declare("up", "Dog", 20, 0, ANN)
    assert (await world.write(dogs(**rows))).written == 20
    receipt = await world.write(dogs(**rows, one="x"), cut="0badcafe:2")
    assert (receipt.rows, receipt.written, receipt.unchanged) == (21, 1, 20)
    with pytest.raises(Error, match=r"more than 20 changes, .* results\.changes_max"):
        await world.write(dogs(**dict.fromkeys([*rows, "one"], "y")), cut="0badcafe:3")
    world.store.close()


async def test_a_result_that_was_begun_before_its_topics_are_synced_is_refused(tmp_path):
    """Its rows would have overwritten newer ones, which the other site keeps."""
    world = Staged(tmp_path)
    stage = world.room.store.stage

    def staging(*arguments, **more):
        world.room.kernel.synced.add(TopicFilter("Dog/#"))
        return stage(*arguments, **more)

    world.room.store.stage = staging
    rows = dogs(a="x", b="y")
    with pytest.raises(Error, match="synced with other sites since it was begun") as refused:
        await world.write(rows)
    assert refused.value.code is Code.BUSY
    assert world.records() == {}
    world.room.store.stage = stage
    assert (await world.write(rows)).written == 2
    world.store.close()


async def test_a_result_during_which_the_clock_was_set_back_is_refused(tmp_path):
    """A later write would have an older version than its rows."""
    world = Synced(tmp_path)
    staged = await world.begin()
    await world.page(staged, a="r")
    world.time(-3_600)
    await world.put("a")
    with pytest.raises(Error, match="the clock was set back"):
        await world.switch(staged)
    world.room.committer.abandon(staged)
    assert world.records() == {"Dog/a": "by hand"}
    world.store.close()


async def test_a_record_that_ends_while_a_result_replaces_it_is_not_ended_before_it(tmp_path):
    """Its end would be newer than the row that renews it."""
    world, lease = Synced(tmp_path), TABLES[3]
    room, kernel = world.room, world.room.kernel
    for key in "ab":
        await room.put(f"Lease/{key}", b'{"name": "old"}')
    world.time(50)
    staged = room.committer.begin_staged(1, YieldScope({"Lease"}, lambda topic: topic == "Lease/a"))
    await room.committer.stage(staged, [_admitted(kernel, "Lease/a", "renewed")])
    world.time(70)
    ends = EndOfRecords(kernel, room.now)
    assert await ends.expire_due() == room.now() + 1  # "a" is over, and looked at again later
    assert not [one for one in room.store.expired(room.now(), 9) if one.topic != "Lease/a"]
    assert room.committer.yields
    await world.switch(staged)
    page = room.store.scan(lease, TopicFilter("Lease/#"), "", 9)
    assert [(one.topic, one.decoded["name"]) for one in page.records] == [("Lease/a", "renewed")]
    assert await ends.expire_due() == NOW + 110
    world.time(111)
    assert await ends.expire_due() == inf
    assert not room.store.expired(room.now(), 9)
    assert not room.committer.yields
    world.store.close()


async def test_a_page_that_waits_for_its_turn_is_not_staged_when_nobody_wants_it(tmp_path):
    world = Synced(tmp_path)
    committer = world.room.committer
    staged = await world.begin()
    await committer.claim()
    paging = asyncio.ensure_future(world.page(staged, a="r"))
    await turns()
    assert committer._claims
    paging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paging
    committer.abandon(staged)
    committer.unclaim()
    await world.put("b")
    assert world.records() == {"Dog/b": "by hand"}
    assert not world.store.staging.tables
    world.store.close()


class BothSynced(Both):
    """A server with synced topics, and one that follows it."""

    make = Synced


async def test_k1_a_follower_lets_newer_writes_win_at_the_same_place_of_the_log(tmp_path):
    both = BothSynced(tmp_path)
    world, here = both.leader, both.follower
    for key in "abcd":
        await world.put(key, "old")
    await followed(both)
    live = subscribed(here, "Dog/#")
    staged = await world.begin()
    await world.page(staged, a="r", b=None, c=None, d="r")
    await world.put("a")
    await world.remote("d", at(5))
    await followed(both)
    both.restart()
    here = both.follower
    live = subscribed(here, "Dog/#")
    await world.put("b")
    await world.page(staged, e="r")
    await followed(both)
    assert here.seen() == (4, 7)
    await world.switch(staged)
    await followed(both)
    assert here.seen() == (4, 10)
    table = here.registry.shapes["Dog"].table
    assert [(e.seq, e.topic, e.version) for e in here.store.read(0, 99, [table])] == [
        (e.seq, e.topic, e.version) for e in world.log()
    ]
    got = [event.topic for event in await read(live, 4)]
    assert got == ["Dog/b", "Dog/c", "Dog/d", "Dog/e"]
    page = here.store.scan(table, TopicFilter("Dog/#"), "", 99)
    assert {one.topic: one.decoded["name"] for one in page.records} == world.records()
    await world.remote("c", at(6))
    await followed(both)
    assert here.seen() == (4, 10)
    both.close()
