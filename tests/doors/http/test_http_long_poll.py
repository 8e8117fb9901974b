"""Long polls over REST (B18)."""

import asyncio
import json

import pytest

from asgi import EPOCH, asgi
from build import turns
from rowcast.core.callers import SERVER
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event

NEVER = 3_600.0


@pytest.fixture
async def rest():
    async with asgi(poll_seconds=NEVER) as opened:
        for number in (1, 2):
            await opened.put(f"/Dog/{number}", b'{"name":"Rex","age":%d}' % number)
        yield opened


async def polling(rest, path):
    """Begin a poll that has to wait."""
    task = asyncio.ensure_future(rest.get(path))
    await turns(60)
    assert not task.done()
    return task


def told(answer):
    return [(row["topic"], row["_op"], row["_seq"]) for row in answer.value]


async def test_what_happened_is_answered_at_once(rest):
    """B18: the events after the cursor, as history has them, and the next cursor."""
    got = await rest.get(f"/Dog/?since={EPOCH}:1&live=true")
    assert (got.status, told(got)) == (200, [("Dog/2", "put", 2)])
    assert got.value == (await rest.get(f"/Dog/?from={EPOCH}:1")).value
    assert got.headers["rowcast-position"] == f"{EPOCH}:2"


@pytest.mark.parametrize("path", ["/Dog/", "/Dog/2", "/Dog"])
async def test_it_waits_for_the_next_event(rest, path):
    task = await polling(rest, f"{path}?since={EPOCH}:2&live=true")
    await rest.put("/Note/1", b'{"text":"x"}')
    await turns(60)
    assert not task.done()
    await rest.delete("/Dog/2")
    got = await task
    assert (told(got), got.headers["rowcast-position"]) == (
        [("Dog/2", "delete", 4)],
        f"{EPOCH}:4",
    )


async def test_conditions_select_and_limit(rest):
    """B18: an event that matches no condition does not end the wait."""
    path = f"/Dog/?since={EPOCH}:2&live=true&age=gt=5&select=age"
    task = await polling(rest, path)
    await rest.put("/Dog/1", b'{"name":"Rex","age":3}')
    await turns(60)
    assert not task.done()
    await rest.put("/Dog/1", b'{"name":"Rex","age":9}')
    got = await task
    assert [(row["value"], row["_seq"]) for row in got.value] == [(9, 4)]
    few = await rest.get(f"/Dog/?since={EPOCH}:0&live=true&limit=1")
    assert (len(few.value), few.headers["rowcast-position"]) == (1, f"{EPOCH}:1")
    assert "link" not in few.headers


async def test_polls_in_turn_miss_nothing(rest):
    """B18: each begins at the position of the one before; writes go on between and meanwhile."""
    found, position = [], f"{EPOCH}:2"
    task = asyncio.ensure_future(rest.get(f"/Dog/?since={position}&live=true"))
    for number in range(20):
        await rest.put("/Dog/1", json.dumps({"name": "Rex", "age": number}).encode())
        await turns(number % 7)
        if task.done() or number == 19:
            got = await task
            found += [row["value"]["age"] for row in got.value]
            position = got.headers["rowcast-position"]
            task = asyncio.ensure_future(rest.get(f"/Dog/?since={position}&live=true"))
    while len(found) < 20:
        got = await task
        found += [row["value"]["age"] for row in got.value]
        position = got.headers["rowcast-position"]
        task = asyncio.ensure_future(rest.get(f"/Dog/?since={position}&live=true"))
    task.cancel()
    assert found == list(range(20))


async def test_the_wait_has_an_end():
    """B18: an empty list, and a position from which nothing is missed."""
    async with asgi(poll_seconds=0.001) as rest:
        await rest.put("/Note/1", b'{"text":"x"}')
        got = await rest.get(f"/Dog/?since={EPOCH}:0&live=true")
        assert (got.status, got.value) == (200, [])
        assert got.headers["rowcast-position"] == f"{EPOCH}:1"
        head = await rest.head(f"/Dog/?since={EPOCH}:0&live=true")
        assert (head.status, head.headers["rowcast-position"]) == (200, f"{EPOCH}:1")


async def test_a_stop_of_the_server_ends_it(rest):
    task = await polling(rest, f"/Dog/?since={EPOCH}:2&live=true")
    rest.edge.closing.set()
    assert (await task).value == []


async def test_a_client_that_goes_leaves_nothing_behind(rest):
    """C26: the subscription that woke it is gone, too."""
    before = len(rest.kernel.bus.trie) if hasattr(rest.kernel.bus, "trie") else None
    task = asyncio.ensure_future(
        rest.ask("GET", f"/Dog/?since={EPOCH}:2&live=true", chunks=[b"", "gone"])
    )
    with pytest.raises(ValueError, match="unpack"):
        await task
    if before is not None:
        assert len(rest.kernel.bus.trie) == before


async def test_a_cursor_of_another_log_is_gone(rest):
    """C11: read the records again."""
    refused = await rest.get("/Dog/?since=deadbeef:1&live=true")
    assert refused.status == 410


async def test_without_waiting_it_is_history(rest):
    got = await rest.get(f"/Dog/?since={EPOCH}:2&live=false")
    assert (got.status, got.value) == (200, [])


@pytest.mark.parametrize("more", ["&last=3", "&to=now", "&every=1m", "&asof=-1h", "&sort(age)"])
async def test_other_words_are_refused(rest, more):
    """P5."""
    assert (await rest.get(f"/Dog/?since={EPOCH}:2&live=true{more}")).status == 400


async def test_who_may_no_longer_sign_in_gets_nothing_that_comes(rest):
    """L8: a poll waits for longer than a request takes."""
    task = await polling(rest, f"/Dog/?since={EPOCH}:2&live=true")

    def gone(_caller):
        raise Error(Code.DENIED, "ben is disabled")

    rest.edge.kernel.reauthorization.judges.append(gone)
    rest.edge.kernel.reauthorization.changed()
    await rest.edge.kernel.write(Event("Dog/3", PUT, b'{"name":"Bo"}', retain=True), SERVER)
    got = await task
    assert (got.status, got.value["detail"]) == (403, "ben is disabled")
