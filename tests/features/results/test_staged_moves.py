"""Large results that move to another table: all tables show them at one position, or none does."""

import asyncio
from dataclasses import replace

import pytest
from test_bulk_commit import World, dogs
from test_staged_followed import Both, followed
from test_staged_results import Staged, read, subscribed

from build import ANN, NOW, TABLES, Listener, Server, turns
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT
from rowcast.core.result_limits import STAGED_GAP
from rowcast.core.topics import TopicFilter
from rowcast.core.transaction_parts import span_of
from rowcast.features.deadlines.deadlines import Deadlines
from rowcast.features.hooks.bounds import HookBounds
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.results.hook_notices import OWNER, PendingNotice
from rowcast.features.results.pending_commit import Order
from rowcast.features.sites.feature import Sites
from rowcast.store.sqlite import SqlStore

MANY = {f"d{number:04}": "new" for number in range(1_200)}
"""More than one page."""
OLD = [f"n{number:04}" for number in range(1_300)]
BOTH = {f"Dog/{key}" for key in MANY}, {f"Note/{key}" for key in OLD}


async def bring(world, table, rows, cut):
    """Commit rows of a table that replace the job's earlier ones."""
    name = f"x{cut}"
    await world.results.stage(name, "0", table, rows, ANN)
    order = Order(name, table, "hourly", f"0badcafe:{cut}", ("0",), len(rows), True, False)
    return await world.results.commit(order, ANN)


def notes(keys):
    return [{"id": key} for key in keys]


def table(world, name):
    return world.room.registry.shapes[name].table


def topics(world, name):
    """The topics of all records of a table."""
    page = world.room.store.scan(table(world, name), TopicFilter(f"{name}/#"), "", 10_000)
    return {record.topic for record in page.records}


def seen(world):
    """Return the records of both tables, and how many events of each there are."""
    log = [len(world.room.store.read(0, 10_000, [table(world, it)])) for it in ("Dog", "Note")]
    return topics(world, "Dog"), topics(world, "Note"), log


def figures(world):
    """Return the counts of both tables."""
    store = world.room.store
    return [(store.count(table(world, it)), store.figures(table(world, it)).events)
            for it in ("Dog", "Note")]  # fmt: skip


@pytest.mark.slow
async def test_m5_a_result_that_moves_is_seen_in_both_tables_at_one_position(tmp_path):
    world = Staged(tmp_path)
    await bring(world, "Note", notes(OLD), 1)
    before, state = world.room.committer.announced, seen(world)
    assert (set(), BOTH[1], [0, 1_300]) == state
    here = [subscribed(world, text) for text in ("#", "Dog/#", "Note/#", "Note/n0007", "Note/no")]
    result, shown = asyncio.ensure_future(bring(world, "Dog", dogs(**MANY), 2)), []
    while not result.done():
        await world.room.put("Lease/a", b"{}")
        shown.append(seen(world))
    after = BOTH[0], set(), [1_200, 2_600]
    assert len(shown) > 3
    assert all(one in (state, after) for one in shown)
    assert shown[:3] == [state] * 3
    receipt = result.result()
    assert (receipt.rows, receipt.written, receipt.removed) == (1_200, 1_200, 1_300)
    assert seen(world) == after
    assert figures(world) == [(1_200, 1_200), (0, 2_600)]
    assert [it.progress.behind for it in here] == [True, True, True, True, False]
    got = [event for event in await read(here[0], 2_500 + len(shown)) if event.topic != "Lease/a"]
    numbers = [event.seq for event in got]
    assert numbers == list(range(numbers[0], numbers[0] + 2_500))
    assert numbers[0] - before > STAGED_GAP
    assert {span_of(event) for event in got} == {(numbers[0], numbers[-1])}
    assert len({event.version for event in got}) == 1
    assert receipt.position == world.room.kernel.cursor(numbers[-1])
    assert {event.topic for event in await read(here[1], 1_200)} == BOTH[0]
    gone = await read(here[2], 1_300)
    assert {(event.topic, event.kind) for event in gone} == {(it, DELETE) for it in BOTH[1]}
    assert [event.topic for event in await read(here[3], 1)] == ["Note/n0007"]
    resumed = subscribed(world, "#", since=numbers[1_150])
    assert [event.seq for event in await read(resumed, 1_349)][:1_349] == numbers[1_151:]
    await world.room.put("Note/n0001", b'{"name": "again"}')
    assert topics(world, "Note") == {"Note/n0001"}
    world.store.close()


@pytest.mark.slow
@pytest.mark.parametrize("page", [1, 3])
async def test_m5_a_result_that_moves_and_fails_leaves_both_tables(tmp_path, page):
    """In a page of its rows, or of what it removes; and it may be brought again."""
    world = Staged(tmp_path)
    await bring(world, "Note", notes(OLD), 1)
    state, store, stage, pages = seen(world), world.room.store, world.room.store.stage, []

    def failing(*arguments, **more):
        pages.append(arguments[0].name)
        if len(pages) > page:
            raise Error(Code.BUSY, "the disk is full")
        return stage(*arguments, **more)

    store.stage = failing
    with pytest.raises(Error, match="the disk is full"):
        await bring(world, "Dog", dogs(**MANY), 2)
    assert pages[-1] == {1: "Note", 3: "Note"}[page] or page == 1
    store.stage = stage
    assert seen(world) == state
    assert (await bring(world, "Dog", dogs(**MANY), 3)).removed == 1_300
    assert seen(world)[:2] == (BOTH[0], set())
    world.store.close()


@pytest.mark.heavy
async def test_nothing_of_a_result_that_was_given_up_is_in_the_next_one(tmp_path):
    """Also where a full disk has refused to note that, so that both follow the same number."""
    world = Staged(tmp_path)
    committer, store = world.room.committer, world.room.committer._store
    stage, abandon, pages = store.stage, store.abandon, []
    committer.give_back_seconds = 3_600

    def refused():
        raise Error(Code.BUSY, "the disk is full")

    def failing(*arguments, **more):
        pages.append(1)
        if len(pages) > 1:
            refused()
        return stage(*arguments, **more)

    store.stage, store.abandon = failing, refused
    with pytest.raises(Error, match="the disk is full"):
        await world.write(dogs(**MANY))
    store.stage, store.abandon = stage, abandon
    assert (await world.write(dogs(a="Rex", b="Ida"), job="another")).written == 2
    assert world.records() == {"Dog/a": "Rex", "Dog/b": "Ida"}
    assert len(world.log()) == 2
    world.store.close()


async def test_m5_a_small_result_that_moves_is_one_batch(tmp_path):
    world = Staged(tmp_path, staged_min=1_000)
    await bring(world, "Note", notes(OLD[:30]), 1)
    before = world.room.committer.commits
    world.heard = Listener(world.room, "#")
    receipt = await bring(world, "Dog", dogs(a="Rex", b="Ida"), 2)
    assert (receipt.written, receipt.removed) == (2, 30)
    assert world.room.committer.commits == before + 1
    numbers = [event.seq for event in world.heard.events]
    assert {span_of(event) for event in world.heard.events} == {(numbers[0], numbers[-1])}
    assert len(numbers) == 32
    world.store.close()


async def test_what_a_result_would_remove_beyond_the_setting_is_said_before_the_upload(tmp_path):
    world = Staged(tmp_path, changes=40)
    await bring(world, "Note", notes(OLD[:40]), 1)
    world.results.bounds = replace(world.results.bounds, changes=39)
    told = "40 records of earlier results that are not in Dog, and one changes at most 39"
    with pytest.raises(Error, match=rf"{told}\. .* or set results\.changes_max") as refused:
        await world.results.declare("up", "Dog", 1, 0, ANN, replaces="hourly")
    assert refused.value.code is Code.TOO_LARGE
    with pytest.raises(Error, match=told):
        await bring(world, "Dog", dogs(a="Rex"), 2)
    await world.results.declare("up", "Dog", 1, 0, ANN, replaces="another")
    world.results.bounds = replace(world.results.bounds, changes=40)
    await world.results.declare("up", "Dog", 1, 0, ANN, replaces="hourly")
    with pytest.raises(Error, match="more than 40 changes"):
        await bring(world, "Dog", dogs(a="Rex"), 3)
    assert len(topics(world, "Note")) == 40
    world.results.bounds = replace(world.results.bounds, changes=41)
    assert (await bring(world, "Dog", dogs(a="Rex"), 4)).removed == 40
    world.store.close()


@pytest.mark.parametrize("undeclared", ["route", "reject"])
async def test_topics_of_a_job_that_no_table_declares_any_more_are_left(tmp_path, undeclared):
    """Nobody sees them; they do not count, and a job is not refused for them."""
    world = Staged(tmp_path)
    await bring(world, "Note", notes(OLD[:30]), 1)
    world.store.close()
    world = object.__new__(Staged)
    world.store = SqlStore(tmp_path / "rowcast.db")
    tables = [one for one in TABLES if one.name != "Note"]
    room = Server(tables, store=world.store, undeclared=undeclared)
    World.__init__(world, room, staged_min=1, changes=2)
    await world.results.declare("up", "Dog", 2, 0, ANN, replaces="hourly")
    receipt = await bring(world, "Dog", dogs(a="Rex", b="Ida"), 2)
    assert (receipt.written, receipt.removed) == (2, 0)
    assert set(world.records()) == {"Dog/a", "Dog/b"}
    world.store.close()


# -- sites -----------------------------------------------------------------------------------------


async def test_k3_a_result_gives_way_in_those_of_its_tables_that_are_synced(tmp_path):
    world = Staged(tmp_path)
    room, hand = world.room, b'{"name": "by hand"}'
    await bring(world, "Note", notes(OLD[:4]), 1)
    sites = Sites([TopicFilter("Note/#")])
    sites.install(room.kernel)
    room.time = NOW + 10
    stage, names, yields = room.store.stage, [], []
    writing = []

    def staging(table, *arguments, **more):
        done = stage(table, *arguments, **more)
        names.append((table.name, more["yields"]))
        if len(names) == 2:
            yields.extend(room.committer.yields_at(it) for it in ("Note/n0000", "Dog/a"))
            puts = [room.put(topic, hand) for topic in ("Note/n0001", "Dog/b")]
            writing.extend(map(asyncio.ensure_future, puts))
        return done

    room.store.stage = staging
    receipt = await bring(world, "Dog", dogs(a="r", b="r"), 2)
    await asyncio.gather(*writing)
    assert names == [("Dog", False), ("Note", True)]
    assert yields == [True, False]
    assert (receipt.written, receipt.removed) == (2, 3)
    assert world.records() == {"Dog/a": "r", "Dog/b": "r"}
    assert topics(world, "Note") == {"Note/n0001"}
    assert figures(world) == [(2, 3), (1, 8)]
    assert not room.committer.yields_at("Note/n0000")
    world.store.close()


async def test_a_table_that_is_synced_only_since_a_result_was_begun_refuses_it(tmp_path):
    world = Staged(tmp_path)
    await bring(world, "Note", notes(OLD[:4]), 1)
    stage = world.room.store.stage

    def staging(*arguments, **more):
        world.room.kernel.synced.add(TopicFilter("Note/#"))
        return stage(*arguments, **more)

    world.room.store.stage = staging
    with pytest.raises(Error, match="synced with other sites since it was begun"):
        await bring(world, "Dog", dogs(a="x", b="y"), 2)
    assert (world.records(), len(topics(world, "Note"))) == ({}, 4)
    world.store.close()


# -- processes that follow -------------------------------------------------------------------------


@pytest.mark.heavy
async def test_k1_a_follower_shows_both_tables_at_the_position_of_the_switch(tmp_path):
    both = Both(tmp_path)
    await bring(both.leader, "Note", notes(OLD), 1)
    await followed(both)
    here = both.follower
    state = seen(here)
    dog, note, one, other = (
        subscribed(here, it) for it in ("Dog/#", "Note/#", "Note/n0007", "Note/none")
    )
    await here.kernel.read("Note/n0001", ANN)
    known = len(both.batches)
    await bring(both.leader, "Dog", dogs(**MANY), 2)
    for until in range(known, both.names().index("switch", known) + 1):
        await followed(both, until)
        assert seen(here) == state
    await followed(both)
    assert seen(here) == seen(both.leader) == (BOTH[0], set(), [1_200, 2_600])
    assert figures(here) == figures(both.leader)
    with pytest.raises(Error) as missing:
        await here.kernel.read("Note/n0001", ANN)
    assert missing.value.code is Code.NOT_FOUND
    assert [it.progress.behind for it in (dog, note, one, other)] == [True, True, True, False]
    assert {event.topic for event in await read(dog, 1_200)} == BOTH[0]
    assert {(event.topic, event.kind) for event in await read(note, 1_300)} == {
        (topic, DELETE) for topic in BOTH[1]
    }
    assert [event.topic for event in await read(one, 1)] == ["Note/n0007"]
    both.close()


@pytest.mark.heavy
@pytest.mark.parametrize("pages", range(1, 5))
async def test_a_follower_that_ends_between_pages_of_two_tables_goes_on(tmp_path, pages):
    both = Both(tmp_path)
    await bring(both.leader, "Note", notes(OLD), 1)
    known = len(both.batches)
    await bring(both.leader, "Dog", dogs(**MANY), 2)
    staged = [at for at, name in enumerate(both.names()) if name == "stage" and at >= known]
    assert len(staged) == 4
    await followed(both, staged[pages - 1] + 1)
    both.restart()
    assert seen(both.follower)[:2] == (set(), BOTH[1])
    await followed(both)
    assert seen(both.follower) == seen(both.leader)
    both.close()


async def test_a_follower_without_one_of_the_tables_shows_the_others(tmp_path):
    """As one whose schema lacks it does not show the rows of that one."""
    both = Both(tmp_path)
    await bring(both.leader, "Note", notes(OLD[:3]), 1)
    await followed(both)
    store = both.follower.store
    await bring(both.leader, "Dog", dogs(a="x", b="y"), 2)
    declared = store.declared
    store.declared = lambda name: None if name == "Note" else declared(name)
    live = subscribed(both.follower, "Dog/#")
    await followed(both)
    assert [event.topic for event in await read(live, 2)] == ["Dog/a", "Dog/b"]
    both.close()


# -- features --------------------------------------------------------------------------------------


@pytest.mark.heavy
async def test_g18_m5_hooks_hear_of_what_a_result_writes_in_each_table(tmp_path):
    told, hooks = [], Hooks(HookBounds(notices=20))
    hooks.on("publish", lambda event, _session: told.append((event.kind, event.topic)))
    world = object.__new__(Staged)
    world.store = SqlStore(tmp_path / "rowcast.db")
    World.__init__(world, Server(hooks=hooks, store=world.store), staged_min=1)
    tellings = world.results.notices
    await bring(world, "Note", notes(OLD), 1)
    await bring(world, "Dog", dogs(**MANY), 2)
    telling = asyncio.create_task(tellings.run())
    while list(world.room.store.states(OWNER)):
        await asyncio.sleep(0)
        assert not telling.done()
    telling.cancel()
    first, second = told[:1_300], told[1_300:]
    assert set(first) == {(PUT, topic) for topic in BOTH[1]}
    assert len(second) == 2_500
    assert set(second) == {(PUT, it) for it in BOTH[0]} | {(DELETE, it) for it in BOTH[1]}
    world.store.close()


def test_what_an_earlier_version_kept_until_hooks_are_told_is_told():
    kept = PendingNotice(("Dog",), 5, 9, ANN).fact().value
    earlier = kept.replace(b'"tables": ["Dog"]', b'"table": "Dog"')
    assert earlier != kept
    assert [PendingNotice.of("9", it).tables for it in (kept, earlier)] == [("Dog",), ("Dog",)]


async def test_deadlines_of_both_tables_are_from_the_last_write_on(tmp_path):
    """Also where a record of either is written while its table's events are read."""
    store = SqlStore(tmp_path / "rowcast.db")
    tables = [replace(it, deadline_seconds=30) if it.name in {"Dog", "Note"} else it
              for it in TABLES]  # fmt: skip
    world = World(Server(tables, store=store), staged_min=1)
    room, told = world.room, Listener(world.room, "$stale/#")
    await bring(world, "Note", notes("xyz"), 1)
    for topic in ("Note/mine", "Dog/b"):
        await room.put(topic, b'{"name": "old"}')
    deadlines = Deadlines(room.kernel, tables, room.now)
    await deadlines.start()
    await turns(20)
    page, written = room.kernel.reader.page, asyncio.Event()

    async def page_later(*told):
        events = await page(*told)
        await written.wait()
        return events

    room.kernel.reader.page = page_later
    await bring(world, "Dog", dogs(a="Rex", b="Ida"), 2)
    room.time += 20
    await turns(20)
    for topic in ("Dog/b", "Note/x"):  # while older events of them are read
        await room.put(topic, b'{"name": "later"}')
    written.set()
    await turns(20)
    room.time += 11  # versions of one time are some microseconds apart
    deadlines._look()
    await turns(20)
    assert ["$stale/Dog/a", "$stale/Note/mine"] == sorted(told.topics)
    room.time += 20
    deadlines._look()
    await turns(20)
    assert ["$stale/Dog/b", "$stale/Note/x"] == sorted(told.topics[2:])
    deadlines.stop()
    store.close()
