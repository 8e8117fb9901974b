"""Compaction on real doors: who returns after a trim holds what REST answers (E16)."""

import json
from contextlib import aclosing
from random import Random

import pytest
from websockets.asyncio.client import connect

from rowcast.core.errors import Code, Error
from rowcast.features.compaction.feature import CompactionBounds, LogCompaction
from rowcast.program.features import FEATURES, Plug
from rowcast.store.older_rows import OldestRoom
from rowcast_client import Problem, Rowcast
from serving import application

SCHEMA = """
type Note @table(maxCount: 4, compact: ["id"]) @export { id: ID @primaryKey n: Int }
type Other @table(maxCount: 4) @export { id: ID @primaryKey n: Int }
type Stay @table(maxCount: 2, compact: ["site"]) @export { id: ID @primaryKey site: String n: Int }
type place @table(maxCount: 4, compact: ["id"]) @export { id: ID @primaryKey n: Int }
"""
SETTINGS = {"history.sweep_seconds": 3600}


def features(tombstones_max=1000):
    """Return those of a server, that looks through a few events at a time."""
    bounds = CompactionBounds(tombstones_max, OldestRoom(3, 10_000))

    def made(it):
        return LogCompaction(it.store, it.schema.tables, bounds)

    return [Plug(it.name, made if it.name == "compaction" else it.make) for it in FEATURES]


def url_of(program):
    return f"http://127.0.0.1:{program.http_port}"


async def sweep(program):
    """Trim what is beyond the limits."""
    await program.kernel.reader.until_reached(program.kernel.committer.announced)
    return await program.features["retention"].retention.sweep()


class Away:
    """A client that comes and goes, with what it holds, its cursor, and what it heard."""

    def __init__(self, chance=None, table="Note"):
        self.chance = chance
        self.table = table
        self.rows = {}
        self.cursor = ""
        self.kinds = []
        self.gaps = []

    def take(self, event):
        self.kinds.append(event.kind)
        if event.kind == "reset":
            self.rows.clear()
        elif event.kind == "gap":
            self.gaps.append(event.gap)
        elif event.kind == "delete":
            self.rows.pop(event.topic, None)
        elif event.kind in {"snapshot", "put", "patch"}:
            self.rows[event.topic] = event.value

    async def come(self, rows, last):
        """Listen until the last write came; now and then be cut off before that."""
        self.kinds, self.gaps = [], []
        while True:
            begin = {"since": self.cursor} if self.cursor else {}
            async with aclosing(rows.subscribe(f"{self.table}/#", **begin)) as events:
                async for event in events:
                    self.take(event)
                    self.cursor = events.cursor
                    marked = event.topic == f"{self.table}/z" and event.value
                    if marked and event.value["n"] == last and self.is_there(event.kind):
                        return
                    if event.kind == "current" and self.rows.get(f"{self.table}/z") == {
                        "id": "z",
                        "n": last,
                    }:
                        return
                    if self.chance is not None and self.chance.random() < 0.1:
                        break

    def is_there(self, kind):
        """Whether a record is the last to come: after a snapshot there is a mark."""
        return kind != "snapshot"


async def stored(rows, table="Note"):
    return {f"{table}/{row['id']}": row for row in (await rows.query(table, "limit(500)")).rows}


async def happen(program, rows, chance, number):
    """Write, delete, say something, and now and then trim; the last write is the mark."""
    for _ in range(chance.randrange(1, 12)):
        topic = f"Note/{chance.randrange(12)}"
        what = chance.random()
        if what < 0.35:
            try:
                await rows.delete(topic)
            except Problem as problem:
                assert 404 == problem.status
        elif what < 0.5:
            await rows.publish(topic, {"n": 1})
        else:
            await rows.put(topic, {"n": chance.randrange(100)})
        if chance.random() < 0.3:
            await sweep(program)
    await rows.put("Note/z", {"n": number})
    if chance.random() < 0.7:
        await sweep(program)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("most", [1000, 3])
async def test_e16_who_returns_holds_what_rest_answers(tmp_path, seed, most):
    """E16: over trims, cuts and restarts; only where a tombstone was forgotten it begins anew."""
    chance, number = Random(seed), 0
    clients = [Away(chance) for _ in range(3)]
    resets, compacted = 0, 0
    for _ in range(2):
        async with (
            application(tmp_path, SCHEMA, SETTINGS, features(most)) as program,
            Rowcast(url_of(program)) as rows,
        ):
            for _ in range(8):
                number += 1
                await happen(program, rows, chance, number)
                client = chance.choice(clients)
                await client.come(rows, number)
                assert await stored(rows) == client.rows
                resets += client.kinds.count("reset")
                compacted += sum(gap["reason"] == "compacted" for gap in client.gaps)
    assert compacted > 3
    assert (resets > 0) == (most == 3)


@pytest.mark.heavy
async def test_e16_a_returning_reader_gets_the_ends_only(tmp_path):
    """E16: the deletions, what was written last, a gap and the mark; nothing that is unchanged."""
    async with (
        application(tmp_path, SCHEMA, SETTINGS, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        for name in "abc":
            await rows.put(f"Note/{name}", {"n": 0})
        since = (await rows.put("Note/d", {"n": 0})).cursor
        await rows.put("Note/c", {"n": 1})
        await rows.delete("Note/b")
        for n in range(9):
            await rows.put("Note/a", {"n": n})
        assert 11 == await sweep(program)
        await rows.put("Note/d", {"n": 1})
        async with aclosing(rows.subscribe("Note/#", since=since)) as events:
            heard = []
            async for event in events:
                heard.append((event.kind, event.topic, event.value and event.value["n"]))
                if event.topic == "Note/d":
                    break
        response = await rows.request("GET", "/Note/a?from=0")
        asof = await refused(rows.get("Note/a", f"asof={since}"))
    assert [("delete", "Note/b", None), ("snapshot", "Note/c", 1)] == heard[:2]
    assert [("gap", "", None), ("current", "", None)] == heard[2:4]
    assert [("put", "Note/a", n) for n in (5, 6, 7, 8)] == heard[4:8]
    assert ("put", "Note/d", 1) == heard[8]
    assert response.headers["rowcast-trimmed"] and 4 == len(response.json())
    assert 410 == asof.status


async def test_e16_a_websocket_gets_them_too(tmp_path):
    """E16: beside another subscription of its connection."""
    async with (
        application(tmp_path, SCHEMA, SETTINGS, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        await rows.put("Note/a", {"n": 0})
        since = (await rows.put("Note/b", {"n": 0})).cursor
        await rows.delete("Note/a")
        for n in range(9):
            await rows.put("Note/z", {"n": n})
        await sweep(program)
        async with connect(url_of(program).replace("http", "ws") + "/Other/") as socket:
            command = {"id": 1, "op": "subscribe", "topic": "Note/+", "since": since}
            await socket.send(json.dumps(command))
            said, heard = {}, []
            while heard[-1:] != [("put", "Note/z")] or said["value"]["n"] != 8:
                said = json.loads(await socket.recv())
                if said.get("subscription") and "kind" in said:
                    heard.append((said["kind"], said["topic"]))
                elif said.get("ack"):
                    assert said["resumed"]
    assert [("delete", "Note/a"), ("gap", None), ("current", None)] == heard[:3]
    assert [("put", "Note/z")] * 4 == heard[3:]


async def refused(call):
    with pytest.raises(Problem) as caught:
        await call
    return caught.value


@pytest.mark.heavy
async def test_a_table_that_does_not_compact_begins_anew(tmp_path):
    async with (
        application(tmp_path, SCHEMA, SETTINGS, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        since = (await rows.put("Other/z", {"n": 0})).cursor
        for n in range(9):
            await rows.put("Other/z", {"n": n})
        await sweep(program)
        client = Away(table="Other")
        client.cursor = since
        await client.come(rows, 8)
    assert "reset" == client.kinds[0]


async def test_with_an_archive_a_cursor_gets_every_event(tmp_path):
    """E16: what was trimmed is read there, and nothing is left out."""
    settings = SETTINGS | {"log.archive": True}
    async with (
        application(tmp_path, SCHEMA, settings, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        since = (await rows.put("Note/z", {"n": 0})).cursor
        for n in range(9):
            await rows.put("Note/z", {"n": n})
        await sweep(program)
        client = Away()
        client.cursor = since
        await client.come(rows, 8)
    assert ["put"] * 9 == client.kinds


@pytest.mark.parametrize("asked", ["topic=Note/%23&topic=Other/%23", "n=ge=0"])
async def test_streams_of_several_tables_and_live_queries_begin_anew(tmp_path, asked):
    async with (
        application(tmp_path, SCHEMA, SETTINGS, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        since = (await rows.put("Note/z", {"n": 0})).cursor
        for n in range(9):
            await rows.put("Note/z", {"n": n})
        await sweep(program)
        path = "/" if "topic" in asked else "/Note/"
        headers = {"Accept": "text/event-stream", "Last-Event-ID": since}
        async with rows._http.stream("GET", url_of(program) + f"{path}?{asked}",
                                     headers=headers) as answer:  # fmt: skip
            assert "false" == answer.headers["rowcast-resumed"]


async def delete_and_write(rows, table):
    """Delete a record that a client still holds, write others; return the cursor of that client."""
    await rows.put(f"{table}/a", {"n": 0})
    since = (await rows.put(f"{table}/z", {"n": 0})).cursor
    await rows.delete(f"{table}/a")
    for n in range(9):
        await rows.put(f"{table}/z", {"n": n})
    return since


async def heard_first(rows, table, since):
    async with aclosing(rows.subscribe(f"{table}/#", since=since)) as events:
        event = await anext(events)
    return event.kind, event.topic


@pytest.mark.parametrize("table", ["Note", "place"])
async def test_e16_a_restart_keeps_what_was_deleted_of_any_table(tmp_path, table):
    """E16: whatever its name, which is a part of where its deletions are stored."""
    async with (
        application(tmp_path, SCHEMA, SETTINGS, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        since = await delete_and_write(rows, table)
        await sweep(program)
    async with (
        application(tmp_path, SCHEMA, SETTINGS, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        assert ("delete", f"{table}/a") == await heard_first(rows, table, since)


class Busy:
    """A kernel whose committer refuses the first facts, as when too many wait for the disk."""

    def __init__(self, kernel):
        self.reader, self.stage, self.committer = kernel.reader, kernel.stage, self
        self.durable, self._keep = kernel.committer.durable, kernel.committer.keep
        self.refused = 0

    def keep(self, changes, done=None):
        if self.refused:
            self._keep(changes, done)
            return
        self.refused += 1
        if done is not None:
            done(Error(Code.BUSY, "too many facts wait"))


async def test_e16_nothing_is_trimmed_whose_deletions_were_refused(tmp_path):
    """E16: they are written with the next sweep, and are there after a restart."""
    async with (
        application(tmp_path, SCHEMA, SETTINGS, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        since = await delete_and_write(rows, "Note")
        compaction = program.features["compaction"]
        compaction._kernel = busy = Busy(program.kernel)
        assert (0, 1) == (await sweep(program), busy.refused)
        assert 8 == await sweep(program)
    async with (
        application(tmp_path, SCHEMA, SETTINGS, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        assert ("delete", "Note/a") == await heard_first(rows, "Note", since)


async def test_e16_a_range_has_the_newest_event_of_each_key_beyond_the_history(tmp_path):
    """E16: in any form of it, page by page, from a cursor and in long polls; a series has none."""
    async with (
        application(tmp_path, SCHEMA, SETTINGS, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        first = (await rows.put("Stay/0", {"site": "x", "n": 0})).cursor
        for n, site in enumerate("xyzyx", 1):
            await rows.put(f"Stay/{n % 2}", {"site": site, "n": n})
        assert 4 == await sweep(program)

        async def told(terms):
            answer = await rows.request("GET", f"/Stay/?{terms}")
            assert answer.is_success, answer.text
            return [it["value"]["n"] for it in answer.json()], answer

        numbers, answer = await told("from=0")
        assert [1, 2, 3, 4, 5] == numbers
        assert "rowcast-trimmed" in answer.headers
        assert [1, 2, 3, 4, 5] == (await told(f"from={first}"))[0]
        assert [1, 2, 3, 4, 5] == (await told(f"since={first}&live=true"))[0]
        assert [3, 4, 5] == (await told("last=3"))[0]
        assert [1, 5] == (await told("from=0&site==x"))[0]
        page, answer = await told("from=0&limit=2")
        path = answer.links["next"]["url"]
        assert ([1, 2], [3, 4]) == (page, (await told(path.partition("?")[2]))[0])
        at_topic = (await rows.request("GET", "/Stay/0?from=0")).json()
        assert [2, 4] == [it["value"]["n"] for it in at_topic]
        series = (await rows.request("GET", "/Stay/?from=-1h&every=1h&fn=count&select=n")).json()
        assert 2 == sum(bucket["events"] for bucket in series)
        assert 410 == (await refused(rows.get("Stay/0", f"asof={first}"))).status


@pytest.mark.heavy
async def test_e16_a_table_declared_for_a_first_level_compacts_its_topics(tmp_path):
    """E16: of undeclared topics the retained messages stay; a declared level keeps every end."""
    schema = 'type Home @table(maxCount: 2, compact: ["topic"]) @export(name: "home")'
    settings = SETTINGS | {"topics.keep_events": 2}
    async with (
        application(tmp_path, schema, settings, features()) as program,
        Rowcast(url_of(program)) as rows,
    ):
        for level in ("home", "yard"):
            await rows.put(f"{level}/gate", "open")
            for n in range(6):
                await rows.publish(f"{level}/room/{n % 3}", n)
        await sweep(program)

        async def told(level):
            answer = await rows.request("GET", f"/{level}/?from=0")
            assert answer.is_success, answer.text
            return {it["topic"]: it["value"] for it in answer.json()}

        rooms = {f"home/room/{n % 3}": n for n in range(3, 6)}
        assert {"home/gate": "open"} | rooms == await told("home")
        assert {"yard/room/1": 4, "yard/room/2": 5} == await told("yard")
        assert "open" == (await rows.get("yard/gate")).value
