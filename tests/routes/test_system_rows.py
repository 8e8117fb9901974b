"""System rows: read, selected and counted like a table's, made when asked for (M11)."""

import asyncio

import pytest

from build import ANN, Server
from rowcast.core.callers import NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Table
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.routes.system_rows import SystemRows, time_text
from rowcast.store.store import Change

ANY = Table("$SYS/things", None)


class Things(SystemRows):
    """Rows whose names are numbers, the greatest first; every third is gone when it is asked."""

    path = "$SYS/things"
    rows_max, slice_rows = 15, 4

    count = 30

    def names(self):
        return [f"{number:03}" for number in range(self.count, 0, -1)]

    def row(self, name, *, whole):
        number = int(name)
        if number % 3 == 0 or number > self.count:
            return None
        return {"n": number, "whole": whole, "even": number % 2 == 0}


def things(room, name="", caller=ANN):
    return Things(room.kernel, f"$SYS/things/{name}", name, caller)


async def listed(query="", **options):
    rows = await things(Server(), **options).get(parse_query(query, ANY) if query else None)
    return [row["n"] if isinstance(row, dict) else row for row in rows]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("limit(3)", [29, 28, 26]),
        ("limit(2,5)", [26, 25, 23]),
        ("even==true&limit(2)", [28, 26]),
        ("n=lt=6", [5, 4, 2, 1]),
        ("even==true&sort(+n)&limit(3)", [2, 4, 8]),
        ("even==true&sort(-n)&limit(1,3)&select(n)", [26, 22]),
        ("even=true&limit(2)", [28, 26]),
        ("even!=true&n=lt=6", [5, 1]),
        ("[n=4|n=28]&even=true", [28, 4]),
        ("even=true&sort(+n)&limit(2)", [2, 4]),
        ("n=x", []),
        ("limit(100)", [29, 28, 26, 25, 23, 22, 20, 19, 17, 16, 14, 13, 11, 10, 8]),
        ("", [29, 28, 26, 25, 23, 22, 20, 19, 17, 16, 14, 13, 11, 10, 8]),
    ],
)
async def test_rows_are_selected(query, expected):
    assert expected == await listed(query)


async def test_too_many_are_not_sorted():
    with pytest.raises(Error) as refused:
        await listed("sort(+n)")
    assert (Code.TOO_LARGE, True) == (refused.value.code, "conditions" in refused.value.message)


async def test_a_page_token_is_refused():
    with pytest.raises(Error) as refused:
        await listed("sort(+n)&after(x)")
    assert Code.INVALID == refused.value.code


@pytest.mark.parametrize(
    ("name", "query", "expected"),
    [
        ("004", "", {"n": 4, "whole": True, "even": True}),
        ("004", "select(n,even)", {"n": 4, "even": True}),
        ("003", "", None),
        ("099", "", None),
    ],
)
async def test_one_row_is_whole(name, query, expected):
    query = parse_query(query, ANY) if query else None
    assert expected == await things(Server(), name).get(query)


async def test_who_may_not_read_does_not():
    with pytest.raises(Error) as refused:
        await things(Server(), caller=Caller("rob", NONE)).get()
    assert Code.DENIED == refused.value.code


class Fussy(Hook):
    """Keeps some rows for itself."""

    def can_read(self, caller, topic):
        return not topic.endswith(("1", "2"))


async def test_hooks_may_keep_rows_back():
    """G6: those of a list are left out, one that is asked for is refused."""
    hooks = Hooks()
    hooks.add(Fussy())
    room = Server(hooks=hooks)
    rows = await things(room).get(parse_query("n=lt=15", ANY))
    assert [14, 13, 10, 8, 7, 5, 4] == [row["n"] for row in rows]
    with pytest.raises(Error) as refused:
        await things(room, "002").get()
    assert Code.DENIED == refused.value.code


async def test_durable_waits_for_what_was_changed():
    room = Server()
    room.kernel.committer.keep((Change("a", "b", b"c"),))
    await things(room).durable()
    assert [("a", "b", b"c")] == room.store.states("a")


async def test_durable_tells_what_kept_it_off():
    room = Server()

    def full(_events, _changes=()):
        raise Error(Code.BUSY, "the disk is full")

    room.store.commit = full
    room.kernel.committer.keep((Change("a", "b", b"c"),))
    with pytest.raises(Error) as refused:
        await things(room).durable()
    assert Code.BUSY == refused.value.code


async def test_durable_may_be_given_up():
    """A client that is gone does not mind when the disk answers."""
    room = Server()
    room.writer.held = True
    task = asyncio.ensure_future(things(room).durable())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    room.writer.release()
    await room.kernel.committer.settle()
    assert task.cancelled()


def test_an_owner_says_which_rows_there_are():
    bare = SystemRows(None, "$SYS/x", "", ANN)
    with pytest.raises(NotImplementedError):
        bare.names()
    with pytest.raises(NotImplementedError):
        bare.row("1", whole=True)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, None), (1.5, "1970-01-01T00:00:01.500Z"), (0, "1970-01-01T00:00:00.000Z")],
)
def test_how_times_are_spelt(seconds, expected):
    assert expected == time_text(seconds)
