"""Increments: pages of the log that bring a snapshot forward, exactly (S6, S8, M2)."""

import asyncio
import json
from dataclasses import replace

import pytest
from changing import Changing, rows_of

from http_clients import http_client
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT
from rowcast_lake.snapshots.changes import page_name
from rowcast_lake.snapshots.export import export
from rowcast_lake.snapshots.fold import chain
from rowcast_lake.snapshots.manifest import read_manifest

QUIET = {"mqtt.sys_interval": 0}


@pytest.fixture
def world(tmp_path):
    return Changing(tmp_path, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "settings"), [(0, {}), (1, QUIET)])
async def test_a_snapshot_and_its_changes_are_the_later_snapshot(tmp_path, seed, settings):
    """M2, S6, S10: digest(snapshot N + events N+1..M) = digest(table at M), for each table."""
    world = Changing(tmp_path, seed)
    async with world.running(**settings):
        await world.writer.put_accounts(*world.writer.amounts)
        await world.writer.write(40)
        names = [await world.snapshot()]
        for _ in range(3):
            for _ in range(world.writer.random.randrange(1, 4)):
                await world.writer.write(25)
                await world.writer.transfer()
                await world.page()
            names.append(await world.snapshot())
            await world.page()
        for first, last in zip([*names[:-1], *names], [*names[1:], *[names[-1]] * 4], strict=True):
            world.expect_folds(first, last)


@pytest.mark.slow
async def test_pages_follow_one_another(world):
    """S6: each begins where the last one ended, also over snapshots; without news there is none."""
    async with world.running(**QUIET):
        with pytest.raises(Error, match="no snapshot yet") as refused:
            await world.page()
        assert Code.NOT_FOUND == refused.value.code
        await world.writer.write(10)
        first = int(await world.snapshot())
        assert await world.page() is None
        ends = [first]
        for turn in range(3):
            await world.writer.write(10)
            if turn == 1:
                await world.snapshot()
            name = await world.page()
            ends.append(int(name[-18:]))
            assert page_name(ends[-2] + 1, ends[-1]) == name
        assert await world.page() is None
        assert 3 == len(chain(world.items(), first, ends[-1]))
        assert 1 == len(chain(world.items(), ends[1] + 1, ends[2] - 1))


@pytest.mark.heavy
async def test_a_later_snapshot_may_have_histories(world):
    """S6, S8: they are not compared, because increments have events and no intervals."""
    async with world.running(**QUIET):
        await world.writer.write(10)
        first = await world.snapshot()
        await world.writer.write(10)
        await world.page()
        last = await asyncio.to_thread(export, replace(world.order, history=True))
    assert "Dog_history" in read_manifest(last.place).tables
    world.expect_folds(first, last.place.name)


async def test_a_page_says_what_happened(world):
    """S6, S8: one row for each event, with its kind, writer and origin; deletions have a key."""
    async with world.running(**QUIET):
        await world.snapshot()
        say, write = world.writer.of, world.kernel.write_all
        events = [
            say("Dog/1", PUT, b'{"name": "Rex", "age": 3, "secret": "x", "more": 1}'),
            say("Dog/1", PATCH, b'{"age": 4}'),
            say("Dog/1", MESSAGE, b'{"name": "Bark", "secret": "y"}'),
            say("Dog/1", DELETE),
            say("Free/a", PUT, bytes([255]), "image/png"),
            say("home/x", PUT, b"on"),
            say("home/x", DELETE),
            say("home/x", MESSAGE, b"hello"),
        ]
        for event in events:
            await write([event], world.ann, atomic=False)
        page = f"changes/{await world.page()}"
        dogs = rows_of(world.directory, page, "Dog")
        assert [("put", 3), ("patch", 4), ("message", None), ("delete", None)] == [
            (row["_op"], row["age"]) for row in dogs
        ]
        assert ["Rex", "Rex", "Bark", None] == [row["name"] for row in dogs]
        assert {"1"} == {row["id"] for row in dogs}
        assert {"more": 1} == json.loads(dogs[0]["_extra"])
        assert [None, None] == [dogs[3][name] for name in ("_extra", "_payload")]
        assert {("Dog/1", "ann")} == {(row["_topic"], row["_client"]) for row in dogs}
        assert "secret" not in dogs[0]
        assert not any(b"secret" in path.read_bytes() for path in world.parquet(page))
        (free,) = rows_of(world.directory, page, "Free")
        assert (bytes([255]), "image/png") == (free["_payload"], free["_content_type"])
        retained = rows_of(world.directory, page, "_retained")
        assert [("put", b"on"), ("delete", None)] == [
            (row["_op"], row["payload"]) for row in retained
        ]
        said = rows_of(world.directory, page, "mqtt_home")
        assert [b"on", b"", b"hello"] == [row["payload"] for row in said]


@pytest.mark.slow
async def test_a_log_that_was_trimmed_meanwhile_is_told(world):
    """S6: changes go on from a fresh snapshot, and the hole is in the names, never in silence."""
    async with world.running(**QUIET):
        old = await world.snapshot()
        await world.writer.write(30)
        await world.page()
        await world.writer.write(30)
        await world.trim("Dog")
        with pytest.raises(Error, match=r"Dog is gone up to \d+; make a fresh snapshot") as refused:
            await world.page()
        assert Code.GONE == refused.value.code
        fresh = await world.snapshot()
        await world.writer.write(30)
        name = await world.page()
        assert page_name(int(fresh) + 1, world.head) == name
        last = await world.snapshot()
        world.expect_folds(fresh, last)
        with pytest.raises(
            Error, match=r"there are no changes from .* rowcast export --changes makes"
        ):
            world.expect_folds(old, last)


@pytest.mark.heavy
async def test_a_schema_may_change_between_snapshot_and_changes(world):
    """S11, M2: an attribute that came later is null before, and the fold is the new snapshot."""
    async with world.running(**QUIET):
        await world.writer.write(30)
        first = await world.snapshot()
        await world.writer.write(10)
        await world.page()
    world.schema = world.schema.replace("name: String,", "name: String, since: Int,")
    async with world.running(**QUIET):
        say, write = world.writer.of, world.kernel.write_all
        await write([say("Dog/new", PUT, b'{"since": 7}')], world.ann, atomic=False)
        await world.writer.write(10)
        await world.page()
        last = await world.snapshot()
        world.expect_folds(first, last)
        dogs = {row["id"]: row["since"] for row in rows_of(world.directory, last, "Dog")}
        assert dogs.pop("new") == 7
        assert set(dogs.values()) == {None}


async def test_a_subscriber_goes_on_from_the_cut(world):
    """M2, S13: snapshot N and what SSE brings after its cut are the table at every later moment."""
    async with world.running(**QUIET):
        await world.writer.write(40)
        name = await world.snapshot()
        cut = read_manifest(world.directory / name).cut
        state = {row["_topic"]: row["_seq"] for row in rows_of(world.directory, name, "Account")}
        for _ in range(10):
            await world.writer.transfer()
        await world.writer.put_accounts(0)
        head = world.kernel.cursor(world.head)
        headers = {"accept": "text/event-stream", "last-event-id": cut}
        async with http_client(base_url=world.url) as client:
            async with client.stream("GET", "/Account/", headers=headers) as stream:
                async for line in stream.aiter_lines():
                    if not line.startswith("data: "):
                        continue
                    event = json.loads(line.removeprefix("data: "))
                    if event["topic"]:
                        state[event["topic"]] = int(event["cursor"].partition(":")[2])
                    if event["cursor"] == head:
                        break
            listed = (await client.get("/Account/?meta=true")).json()
        assert {f"Account/{row['id']}": row["_seq"] for row in listed} == state
