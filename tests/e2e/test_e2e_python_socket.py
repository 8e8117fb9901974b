"""The Python client's WebSocket over kills of the server (C21, O10)."""

import asyncio
from itertools import count

from rowcast_client import Presence, Rowcast, Socket, SocketBounds, Will
from serving import PATIENCE_SECONDS, Server

SCHEMA = """
type Counter @table @export { id: ID @primaryKey n: Long! even: Boolean }
type Presence @table @export { id: ID @primaryKey here: Boolean }
"""
KILLS = 3
WRITES = 40
"""At least so many between two kills."""
PATIENT = SocketBounds(answer_seconds=PATIENCE_SECONDS)
GONE = Will("Presence/ann", {"here": False})


class Reader:
    """Follows a set of records; notes each number that comes, in order."""

    def __init__(self, events):
        self.events = events
        self.rows, self.heard, self.kinds = {}, [], []
        self.is_current = asyncio.Event()

    async def follow(self):
        async for event in self.events:
            self.kinds.append(event.kind)
            if event.kind == "current":
                self.is_current.set()
            elif event.kind in {"leave", "delete"}:
                del self.rows[event.topic]
            else:
                self.rows[event.topic] = event.value
                self.heard.append(event.value["n"])


async def write(socket, counter, stop):
    """Write numbers until told to stop; return the last."""
    for n in counter:
        await socket.put(f"Counter/{n % 7}", {"n": n, "even": n % 2 == 0})
        if stop.is_set() and n % WRITES == 0:
            return n
    raise AssertionError


async def test_a_kill_loses_nothing_and_doubles_nothing(tmp_path):
    """O10, C21: kill -9 amid the writes; the followed sets are the server's, the will is there."""
    with Server(tmp_path, SCHEMA) as server:
        async with Rowcast(server.url) as rows, Socket(rows, will=GONE, bounds=PATIENT) as socket:
            await socket.put("Presence/ann", {"here": True})
            every = Reader(socket.subscribe("Counter/#"))
            even = Reader(socket.live("Counter", "even==true"))
            following = [asyncio.create_task(one.follow()) for one in (every, even)]
            await asyncio.gather(every.is_current.wait(), even.is_current.wait())
            counter, last = count(1), 0
            for _ in range(KILLS):
                stop = asyncio.Event()
                writing = asyncio.create_task(write(socket, counter, stop))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                stop.set()
                last = await writing
            end = await socket.ping()
            for one in (every, even):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while last not in one.heard:
                        await asyncio.wait(following, timeout=0.01)
            assert [*range(1, last + 1)] == every.heard
            assert [*range(2, last + 1, 2)] == even.heard
            assert "reset" not in every.kinds + even.kinds
            assert "gap" not in every.kinds + even.kinds
            for one, query in ((every, ""), (even, "even==true")):
                page = await rows.query("Counter", query)
                shown = {f"Counter/{row['id']}": row for row in page.rows}
                assert shown == one.rows
            assert end.partition(":")[0] == page.position.partition(":")[0]
            past = await rows.history("Presence/ann", "last=1000")
            assert [True, *[False] * KILLS] == [event["value"]["here"] for event in past.events]
            for task in following:
                task.cancel()
        await until_equal(server, {"id": "ann", "here": False})


async def until_equal(server, value):
    async with Rowcast(server.url) as rows:
        assert value == (await rows.get("Presence/ann")).value


async def test_c21_a_program_is_there_again_after_a_kill(tmp_path):
    """C21: the killed server writes that it is gone, and the program that it is there."""
    present, gone = {"here": True}, {"here": False}
    with Server(tmp_path, SCHEMA) as server:
        async with (
            Rowcast(server.url) as rows,
            Presence(rows, "Presence/ann", present=present, gone=gone, again_seconds=0.05),
        ):
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)

            async def past():
                found = await rows.history("Presence/ann")
                return [event["value"]["here"] for event in found.events]

            async with asyncio.timeout(PATIENCE_SECONDS):
                while [True, False, True] != (await past())[:3]:
                    pass
        async with Rowcast(server.url) as rows:
            assert (await rows.get("Presence/ann")).value["here"] is False
