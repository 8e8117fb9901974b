"""Uploads end by those whose they are: by no other user, and not by what came before them."""

import asyncio
import threading
from dataclasses import replace

import pytest
from test_bulk_commit import World, dogs

from build import ANN
from rightful import Rightful
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import RESULTS_OF_USER_MAX
from rowcast.features.results.pending_commit import Order
from serving import PATIENCE_SECONDS

BEN = Caller("ben", ANN.grants, "http")


def order(*parts, table="Dog", cut="0badcafe:1"):
    rows = len(parts)
    return Order("up", table, "hourly", cut, parts, rows, replace=False, again=False)


def whose(world):
    return [upload.user for upload in world.results.uploads]


async def brought(caller=ANN, world=None):
    """Return a world to which a caller has brought one dog."""
    world = world or World()
    await world.results.stage("up", "0", "Dog", dogs(a="Rex"), caller)
    return world


async def test_m9_who_may_not_write_a_table_holds_no_upload_for_it(tmp_path):
    """M9: a part without rows, of which nothing else says so, would take a place and the disk."""
    room = Rightful()
    await room.rule("one", filter="Dog/#", effect="deny", actions=["write"], users=["ben"])
    world = World(room, str(tmp_path))
    with pytest.raises(Error) as refused:
        await world.results.stage("up", "0", "Dog", [], BEN)
    assert refused.value.code is Code.DENIED
    assert whose(world) == [*tmp_path.iterdir()] == []
    await world.results.stage("up", "0", "Dog", [], ANN)
    assert whose(world) == ["ann"]


async def test_m9_refused_first_parts_take_no_place():
    """M9: a job that is repeated with the same mistake would wait ten minutes for its user's."""
    world = World()
    for number in range(RESULTS_OF_USER_MAX + 1):
        with pytest.raises(Error) as refused:
            await world.results.stage(f"bad{number}", "0", "Dog", [5], ANN)
        assert refused.value.code is not Code.BUSY
    assert whose(world) == []
    await world.results.declare("declared", "Dog", 1, 1, ANN)
    with pytest.raises(Error):
        await world.results.stage("declared", "0", "Dog", [5], ANN)
    await brought(world=world)
    assert whose(world) == ["ann", "ann"]


async def test_m9_a_refused_part_leaves_those_that_come_beside_it():
    world = World()
    stage = world.results.stage
    said = await asyncio.gather(
        stage("up", "0", "Dog", dogs(a="Rex"), ANN),
        stage("up", "1", "Dog", [5], ANN),
        return_exceptions=True,
    )
    assert [None, Error] == [said[0], type(said[1])]
    assert (await world.results.commit(order("0"), ANN)).written == 1


@pytest.mark.parametrize("refused", [order("0"), order(table="Nothing")])
async def test_m9_the_refused_commit_of_another_user_leaves_an_upload(refused):
    world = await brought()
    with pytest.raises(Error) as error:
        await world.results.commit(refused, BEN)
    assert error.value.code is Code.NOT_FOUND
    assert (await world.results.commit(order("0"), ANN)).written == 1


async def test_m9_a_commit_of_another_user_leaves_an_upload_of_the_name_that_it_gives():
    """M9: of a result without rows, and of one that is asked for again."""
    world = await brought()
    for repeat in (False, True):
        assert (await world.results.commit(order(), BEN)).repeat is repeat
        assert whose(world) == ["ann"]
    assert (await world.results.commit(order("0"), ANN)).written == 1
    assert whose(world) == []


async def test_a_part_that_comes_too_late_leaves_the_next_upload_of_the_name(monkeypatch):
    world = await brought()
    (first,) = world.results.uploads
    begun, go = threading.Event(), threading.Event()
    write = first.file.write

    def slow(page):
        begun.set()
        assert go.wait(PATIENCE_SECONDS)
        write(page)

    monkeypatch.setattr(first.file, "write", slow)
    late = asyncio.create_task(world.results.stage("up", "1", "Dog", dogs(b="Ida"), ANN))
    await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    world.results.uploads.close(first)
    await brought(BEN, world)
    go.set()
    with pytest.raises(Error, match="discarded meanwhile"):
        await late
    assert whose(world) == ["ben"]


@pytest.mark.parametrize("name", ["job", "cut", "upload"])
async def test_a_name_that_is_too_long_is_refused_before_anything_is_kept_under_it(name):
    """The cut is in the name of the writer of each row: a megabyte of it was one of each."""
    world = await brought()
    asked = replace(order("0"), **{name: "x" * 301})
    with pytest.raises(Error, match=rf"^{name}: 'xxx") as refused:
        await world.results.commit(asked, ANN)
    assert refused.value.code is Code.INVALID
    assert (await world.results.commit(replace(order("0"), cut="x" * 300), ANN)).written == 1
