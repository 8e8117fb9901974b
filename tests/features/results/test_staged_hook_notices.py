"""Hooks that are told of writes hear of each row of a staged result, at their pace (G18, M5)."""

import asyncio
import itertools

import pytest
from test_bulk_commit import World, dogs

from build import ANN, Server
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE
from rowcast.features.hooks.bounds import HookBounds
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.results.hook_notices import OWNER, HookNotices
from rowcast.store.sqlite import SqlStore

MANY = {f"d{number:04}": "new" for number in range(2_500)}
"""More than two pages."""


class Told(World):
    """A kernel on tables of SQL with a listener for writes; it may wait, and is stopped."""

    def __init__(self, path, waits, hear=None):
        self.store = SqlStore(path / "rowcast.db")
        self.heard, self.users = [], set()
        self.all = asyncio.Event()
        self.hear = hear

        def note(event, session):
            self.told.append((event.kind, event.topic, event.seq))
            self.users.add((session.user, session.door))

        async def note_later(event, session):
            await asyncio.sleep(0)
            if self.hear is not None:
                await self.hear(event)
            note(event, session)

        self.told = []
        hooks = Hooks(HookBounds(notices=20))
        hooks.on("publish", note_later if waits else note)
        super().__init__(Server(hooks=hooks, store=self.store), staged_min=1)
        self.notices = self.results.notices
        self.failures = lambda: [one.figures.failures for one in hooks._attached]

    async def settle(self, count):
        """Let it be told until so many were heard of."""
        task = asyncio.create_task(self.notices.run())
        while len(self.told) < count or self.facts():  # what is heard is noted
            await asyncio.sleep(0)
            assert not task.done()
        task.cancel()
        await asyncio.wait((task,))

    def facts(self):
        return list(self.room.store.states(OWNER))

    def close(self):
        self.store.close()


@pytest.mark.heavy
@pytest.mark.parametrize("waits", [False, True])
async def test_g18_m5_hooks_hear_of_each_row_of_a_staged_result_once(tmp_path, waits):
    world = Told(tmp_path, waits)
    assert (await world.write(dogs(**MANY), replace=True)).written == 2_500
    assert world.told == []  # they are told while the job has its answer
    await world.settle(2_500)
    assert [topic for _, topic, _ in world.told] == [f"Dog/{key}" for key in MANY]
    numbers = [seq for _, _, seq in world.told]
    assert numbers == list(range(numbers[0], numbers[0] + 2_500))
    assert world.users == {("ann", "http")}
    world.told.clear()
    few = dict(list(MANY.items())[:5])
    await world.write(dogs(**few), cut="0badcafe:2", replace=True)
    await world.settle(2_495)
    assert {kind for kind, _, _ in world.told} == {DELETE}
    assert len({topic for _, topic, _ in world.told}) == 2_495
    assert world.failures() == [0]  # nothing was lost because it came too fast
    world.close()


@pytest.mark.heavy
async def test_g18_m5_a_restart_goes_on_to_tell_where_it_was(tmp_path):
    first = Told(tmp_path, waits=True)
    stopped = asyncio.Event()

    async def hear(event):
        if len(first.told) >= 1_500:
            stopped.set()
            await asyncio.Event().wait()

    first.hear = hear
    await first.write(dogs(**MANY))
    task = asyncio.create_task(first.notices.run())
    await stopped.wait()
    task.cancel()
    await asyncio.wait((task,))
    first.close()
    again = Told(tmp_path, waits=True)
    again.notices.restore(again.facts())
    await again.settle(1_500)
    assert len(first.told) == 1_500
    assert [topic for _, topic, _ in again.told] == [f"Dog/{key}" for key in list(MANY)[1_000:]]
    assert again.users == {("ann", "http")}
    again.close()


@pytest.mark.heavy
async def test_m5_a_result_that_is_not_seen_is_told_to_nobody(tmp_path):
    world = Told(tmp_path, waits=False)
    store, switch = world.room.store, world.room.store.switch

    def fails(*_):
        raise Error(Code.BUSY, "the disk is full")

    store.switch = fails
    with pytest.raises(Error, match="the disk is full"):
        await world.write(dogs(**MANY))
    store.switch = switch
    assert world.facts() == []
    await world.write(dogs(a="1", b="2"))
    await world.settle(2)
    assert [topic for _, topic, _ in world.told] == ["Dog/a", "Dog/b"]
    world.close()


async def test_m5_results_are_refused_while_listeners_are_far_behind(tmp_path):
    world = Told(tmp_path, waits=False)
    for number in range(16):
        await world.write(dogs(a=f"{number}", b=f"{number}"), cut=f"0badcafe:{number}")
    with pytest.raises(Error, match="yet to hear of 16 large results") as refused:
        await world.write(dogs(a="x", b="x"), cut="0badcafe:99")
    assert refused.value.code is Code.BUSY
    await world.settle(32)
    assert (await world.write(dogs(a="x", b="x"), cut="0badcafe:99", caller=ANN)).written == 2
    world.close()


@pytest.mark.heavy
async def test_g18_m5_rows_that_cannot_be_read_are_told_later(tmp_path, monkeypatch, caplog):
    world = Told(tmp_path, waits=False)
    await world.write(dogs(**MANY))
    world.notices = HookNotices(world.room.kernel, retry_seconds=0)
    world.notices.restore(world.facts())
    read, reads = world.room.kernel.reader.read, itertools.count()

    async def refused_at_first(*arguments):
        if next(reads) in {0, 2}:
            raise Error(Code.BUSY, "the store is busy")
        return await read(*arguments)

    monkeypatch.setattr(world.room.kernel.reader, "read", refused_at_first)
    await world.settle(2_500)
    assert [topic for _, topic, _ in world.told] == [f"Dog/{key}" for key in MANY]
    assert 2 == caplog.text.count("hooks are notified of a large result later: the store is busy")
    world.close()
