"""Rows whose record they do not depend on: admitted and compared once, and staged as they are."""

import asyncio
import json
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace

import pytest
from test_bulk_commit import World, dogs
from test_staged_results import MANY, Staged

from build import ANN, DOG, Server
from rightful import Rightful
from rowcast.core.errors import Code, Error
from rowcast.features.results.pending_commit import Order
from rowcast.features.rights.rule_syntax import rule_of
from rowcast.store.sqlite import SqlStore
from serving import PATIENCE_SECONDS, until

OLD = dict.fromkeys(MANY, "old")
PLAIN = replace(DOG, attributes=DOG.attributes[:3])
"""Without times that the server sets, which would need the record."""


class Instead:
    """An object of which some attributes are others; one of a compiled class takes none."""

    def __init__(self, real, **others):
        self._real = real
        vars(self).update(others)

    def __getattr__(self, name):
        return getattr(self._real, name)


class Plain(Staged):
    """The same on a table where a row needs nothing of its record."""

    def __init__(self, path, table=PLAIN, **bounds):
        self.store = SqlStore(path / "rowcast.db")
        room = Server((table,), store=self.store)
        World.__init__(self, room, **{"staged_min": 1, **bounds})


@pytest.mark.heavy
async def test_each_record_is_read_once_and_each_row_admitted_twice(tmp_path):
    """As it comes, and when it is compared."""
    world = Plain(tmp_path)
    await world.write(dogs(**OLD))
    lookup, admit, read, admitted = world.room.store.lookup, world.room.kernel.writes.admit, [], []

    def counted(wanted):
        read.extend(topic for _, topic in wanted)
        return lookup(wanted)

    def counting(write, **facts):
        admitted.append(write.event.topic)
        return admit(write, **facts)

    world.room.store.lookup = counted
    world.room.kernel.writes = Instead(world.room.kernel.writes, admit=counting)
    receipt = await world.write(dogs(**MANY | {"d0007": "old"}), cut="0badcafe:2")
    assert (receipt.written, receipt.unchanged) == (2_499, 1)
    assert Counter(read) == {f"Dog/{key}": 1 for key in MANY}
    assert Counter(admitted) == {f"Dog/{key}": 2 for key in MANY}
    assert world.records() == {f"Dog/{key}": "new" for key in MANY} | {"Dog/d0007": "old"}
    assert {event.client for event in world.log()[2_500:]} == {"job/hourly@0badcafe:2"}
    world.store.close()


@pytest.mark.heavy
async def test_m5_what_others_write_after_the_comparison_is_overwritten(tmp_path):
    """M5: also where they write what the result writes; two rows with one key are none."""
    world = Plain(tmp_path)
    await world.write(dogs(**OLD))
    begin = world.room.committer.begin_staged
    written = []

    def late(*arguments):
        for name in ("by hand", "new"):
            key = f"Dog/d{len(written):04}"
            put = world.room.put(key, f'{{"name": "{name}"}}'.encode())
            written.append(asyncio.ensure_future(put))
        return begin(*arguments)

    world.room.kernel.committer = Instead(world.room.committer, begin_staged=late)
    with pytest.raises(Error, match="two rows of the result are for Dog/d0003"):
        await world.write([*dogs(**MANY), *dogs(d0003="twice")], cut="0badcafe:2")
    assert not written
    receipt = await world.write(dogs(**MANY), cut="0badcafe:3")
    await asyncio.gather(*written)
    assert receipt.written == 2_500
    assert world.records() == {f"Dog/{key}": "new" for key in MANY}
    world.store.close()


@pytest.mark.heavy
async def test_times_that_the_server_sets_are_those_of_the_record_as_before(tmp_path):
    world = Plain(tmp_path, DOG)
    await world.write(dogs(**OLD))
    created = {event.topic: json.loads(event.payload)["created"] for event in world.log()}
    world.room.time += 60
    await world.write(dogs(**MANY), cut="0badcafe:2")
    new = world.log()[2_500:]
    assert {event.topic: json.loads(event.payload)["created"] for event in new} == created
    assert len(created) == len(new) == 2_500
    updated = {json.loads(event.payload)["updated"] for event in new}
    assert min(updated) >= world.room.time * 1000
    world.store.close()


async def test_m9_rules_that_change_after_the_comparison_hold(tmp_path):
    """M9: rows are admitted again under them."""
    room = Rightful(store=SqlStore(tmp_path / "rowcast.db"))
    world = World(room, staged_min=1)
    begin = room.committer.begin_staged
    denied = {"filter": "Cat/2", "actions": ["write"], "users": ["ann"], "effect": "deny"}

    def ruled(*arguments):
        room.rights.replace([rule_of("one", denied, room.rights.policy.tables)])
        return begin(*arguments)

    room.kernel.committer = Instead(room.committer, begin_staged=ruled)
    rows = [{"id": str(number), "name": "x"} for number in range(3)]
    await world.results.stage("up", "0", "Cat", rows, ANN)
    order = Order("up", "Cat", "j", "", ("0",), 3, replace=False, again=False)
    with pytest.raises(Error, match="ann may not write 'Cat/2'") as refused:
        await world.results.commit(order, ANN)
    assert refused.value.code is Code.DENIED
    assert room.store.count(room.registry.shapes["Cat"].table) == 0
    room.store.close()


@pytest.mark.heavy
async def test_the_next_page_is_made_while_the_tables_take_one(tmp_path):
    world = Plain(tmp_path, DOG)
    stage, admit, admitted, held = world.room.store.stage, world.room.kernel.writes.admit, [], []

    def counting(write, **facts):
        admitted.append(write.event.topic)
        return admit(write, **facts)

    def holding(*arguments, **more):
        applied = stage(*arguments, **more)
        if held:
            return applied
        held.append((Future(), applied))
        return held[0][0]

    world.room.store.stage = holding
    world.room.kernel.writes = Instead(world.room.kernel.writes, admit=counting)
    result = asyncio.ensure_future(world.write(dogs(**MANY)))
    await until(lambda: held and len(admitted) == 2 * len(MANY) + 2_000)
    assert not result.done()
    ended, applied = held[0]
    ended.set_result(applied.result(PATIENCE_SECONDS))
    assert (await result).written == len(MANY)
    assert len(admitted) == 3 * len(MANY)
    world.store.close()
