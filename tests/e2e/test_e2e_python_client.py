"""The Python client against a server that is killed, and whose users change (O10)."""

import asyncio
from contextlib import suppress

import pytest

from rowcast.core.errors import Code
from rowcast_client import Problem, Rowcast
from serving import Server, rowcast

WRITES = 60
KILL_AT = 20
"""So many writes before the kill; the others are repeated until they are acknowledged."""
FORMATS = ("json", "cbor", "msgpack")


async def written(rows, n, back):
    """Write a number under a mark; again when the server is back, if no word came."""
    mark = {"Rowcast-Producer": f"test:1:{n}"}
    try:
        await rows.put(f"Counter/{n % 7}", {"n": n}, headers=mark)
    except Problem as problem:
        if problem.is_final:
            raise
        await back.wait()
        await rows.put(f"Counter/{n % 7}", {"n": n}, headers=mark)


async def numbers(url, name, live, back):
    """Return the numbers that a subscription hears, up to the last that is written."""
    heard = []
    async with Rowcast(url, format=name, wait=lambda _: back.wait()) as rows:
        async for event in rows.subscribe("Counter/#", start="new"):
            if event.kind == "current":
                live.release()
            elif event.kind == "put":
                heard.append(event.value["n"])
                if event.value["n"] == WRITES:
                    return heard
            else:
                raise AssertionError(event)
    return heard


async def test_a_kill_loses_nothing_and_doubles_nothing(tmp_path):
    """O10: kill -9 amid the writes; every number comes once, in order, in each format."""
    with Server(tmp_path) as server:
        live, back = asyncio.Semaphore(0), asyncio.Event()
        readers = [asyncio.create_task(numbers(server.url, name, live, back)) for name in FORMATS]
        for _ in FORMATS:
            await live.acquire()
        async with Rowcast(server.url) as rows:
            for n in range(1, KILL_AT + 1):
                await written(rows, n, back)
            killing = asyncio.create_task(asyncio.to_thread(server.kill))
            writing = asyncio.create_task(written(rows, KILL_AT + 1, back))
            await killing
            await asyncio.to_thread(server.start)
            back.set()
            await writing
            for n in range(KILL_AT + 2, WRITES + 1):
                await written(rows, n, back)
        expected = list(range(1, WRITES + 1))
        assert [expected] * len(FORMATS) == list(await asyncio.gather(*readers))


async def test_who_may_not_watch_any_more_is_told(tmp_path):
    """O10, L11: a live subscription ends with the Problem that says why."""
    data = tmp_path / "data"
    for name, role in (("ann", "admin"), ("ben", "clerk")):
        rowcast("user", "add", name, "--role", role, "--data", data, stdin="pencil\n")
    with Server(tmp_path) as server:
        async with (
            Rowcast(server.url, user="ann", password="pencil") as ann,
            Rowcast(server.url, user="ben", password="pencil") as ben,
        ):
            events = ben.subscribe("Dog/#", start="new", patient=True)
            assert "current" == (await anext(events)).kind
            await ann.patch("$SYS/users/ben", {"disabled": True})
            with pytest.raises(Problem) as told:
                await anext(events)
            assert told.value.is_final
            assert told.value.code in {Code.UNAUTHENTICATED, Code.DENIED}
            with suppress(StopAsyncIteration):
                raise AssertionError(await anext(events))


async def test_a_float_is_the_same_on_every_way(tmp_path):
    """A2: an integer at a Float is a float in the log and in the record, put or patched."""
    schema = "type Dog @table @export { id: ID @primaryKey weight: Float }"
    with Server(tmp_path, schema) as server:
        said = []
        for method, body in (("PUT", '{"weight":5}'), ("PATCH", '{"weight":5}')):
            kind = {"content-type": "application/json"}
            server.request(method, "/Dog/1", content=body, headers=kind).raise_for_status()
            said.append(server.request("GET", "/Dog/1").text)
            said.append(server.request("GET", "/Dog/1?last=1").text)
        assert 4 == sum('"weight":5.0' in text for text in said), said
