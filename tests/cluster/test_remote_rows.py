"""Rows of processes that follow: asked for, listed below their node, and ended there (M11)."""

import asyncio
from types import SimpleNamespace

import pytest

from rowcast.cluster.messages import ROWS_WANTED, unpack
from rowcast.cluster.remote_rows import RemoteRows, RowAnswers
from rowcast.core.errors import Code, Error

PATH = "$SYS/things"


class Kind:
    """Rows of one process."""

    def __init__(self, name, ended, rows):
        self._name, self._ended, self._rows = name, ended, rows

    def names(self):
        return list(self._rows)

    def row(self, name, *, whole):
        return {"id": name, "whole": whole} if name in self._rows else None

    async def delete(self):
        if self._name not in self._rows:
            raise Error(Code.NOT_FOUND, f"there is no {self._name}")
        self._ended.append(self._name)


class World:
    """One process that numbers, and some that follow; ``silent`` ones do not answer."""

    def __init__(self, rows, silent=(), seconds=60.0):
        self.ended, self.links = [], {}
        self.all = SimpleNamespace(connected=lambda: self.links, on_rows=None)
        self.elsewhere = RemoteRows(self.all, "a", seconds)
        for node, names in rows.items():
            follower = SimpleNamespace(tell=self._answer)
            follower.answers = RowAnswers(
                follower, {PATH: lambda name, names=names: Kind(name, self.ended, names)}
            )
            tell = (lambda _: None) if node in silent else self._read_caller(follower)
            self.links[node] = SimpleNamespace(tell=tell)

    @staticmethod
    def _read_caller(follower):
        def tell(message):
            kind, content = unpack(message)
            assert kind == ROWS_WANTED
            follower.on_rows_wanted(content)

        return tell

    def _answer(self, message):
        self.all.on_rows(unpack(message)[1])


async def test_rows_are_listed_below_their_node():
    world = World({"b": ["1", "2"], "c": ["1"]})
    found = await world.elsewhere.rows(PATH)
    assert list(found) == ["b/1", "b/2", "c/1"]
    assert found["b/2"] == {"id": "b/2", "node": "b", "whole": False}
    assert await world.elsewhere.rows(PATH, "c/1") == {
        "c/1": {"id": "c/1", "node": "c", "whole": True}
    }
    for missing in ("c/2", "x/1"):
        assert await world.elsewhere.rows(PATH, missing) == {}
    assert await world.elsewhere.rows("$SYS/others") == {}


async def test_a_silent_process_does_not_hold_up_the_list():
    world = World({"b": ["1"], "c": ["1"]}, silent="b", seconds=0.0)
    assert list(await world.elsewhere.rows(PATH)) == ["c/1"]
    with pytest.raises(Error) as caught:
        await world.elsewhere.end(PATH, "b/1")
    assert caught.value.code is Code.BUSY


async def test_rows_are_ended_where_they_are():
    world = World({"b": ["1"], "c": ["1/x"]})
    await world.elsewhere.end(PATH, "c/1/x")
    assert world.ended == ["1/x"]
    for missing in ("c/2", "x/1"):
        with pytest.raises(Error) as caught:
            await world.elsewhere.end(PATH, missing)
        assert caught.value.code is Code.NOT_FOUND


async def test_an_answer_that_nobody_waits_for_is_dropped():
    world = World({"b": ["1"]})
    world.all.on_rows((99, {}, None))
    world.all.on_rows((98, {}, ["NOT_FOUND", "x"]))
    await asyncio.sleep(0)
    assert list(await world.elsewhere.rows(PATH)) == ["b/1"]
