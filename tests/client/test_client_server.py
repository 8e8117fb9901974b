"""The Python client against the whole program: formats, refusals, restarts (O10)."""

import asyncio
import json
import re
import sys
from contextlib import aclosing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from rowcast.core.errors import Code
from rowcast_client import Problem, Rowcast, SyncRowcast
from serving import application, rowcast

SCHEMA = """
type Dog @table @export { id: ID @primaryKey name: String! age: Int breed: String }
type Meter @table @export @deliver(policy: "latest") { id: ID @primaryKey n: Int }
type Kept @table @export { id: ID @primaryKey at: Date price: Decimal raw: Bytes big: Long }
"""
DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "clients.md"


PLAIN = {"at": "2026-01-31T12:00:00Z", "price": "1.10", "raw": "AP8=", "big": 2**53 + 1}
LOGIN = b'{"user": "ann", "password": "pencil"}'


@pytest.fixture
async def program(tmp_path):
    async with application(tmp_path, SCHEMA) as running:
        yield running


def seq_of(cursor):
    return int(cursor.rpartition(":")[2])


def url_of(program):
    return f"http://127.0.0.1:{program.http_port}"


@pytest.fixture
async def rows(program):
    async with Rowcast(url_of(program)) as client:
        yield client


async def test_a_line_of_a_long_answer_ends_only_where_the_server_ends_it(program, rows):
    """O10: text of a record may have what other programs take for the end of a line."""
    names = ["a\u2028b", "a\x85b", "a\u2029"]
    await rows.upsert("Dog", [{"id": str(n), "name": name} for n, name in enumerate(names)])

    def read():
        with SyncRowcast(url_of(program)) as client:
            return [*client.lines("/Dog/", {"Accept": "application/x-ndjson"})]

    found = await asyncio.to_thread(read)
    assert names == [json.loads(line)["name"] for line in found]


async def test_it_writes_what_a_query_selects(program, rows):
    """B12, B22: with a dry run and a confirmed number, by both clients."""
    await rows.upsert("Dog", [{"id": str(n), "name": "x", "age": n} for n in range(5)])
    told = (await rows.delete_where("Dog", "age=gt=2", dry_run=True)).answer
    assert {"count": 2, "sample": ["3", "4"], "dry_run": True} == told
    assert 2 == (await rows.patch_where("Dog", "age=gt=2", {"breed": "pug"})).answer["count"]
    with pytest.raises(Problem, match="4 were confirmed"):
        await rows.delete_where("Dog", "breed=pug", confirm=4)
    made = {"op": "put", "topic": "Dog/3", "value": {"name": "z", "breed": "pug"}}
    assert 1 == len((await rows.transaction([made])).answer)
    deleted = await rows.delete_where("Dog", "breed=pug", confirm=2)
    assert deleted.cursor == deleted.answer["position"]

    def blocking():
        with SyncRowcast(url_of(program)) as client:
            one = client.patch_where("Dog", "age=1", {"age": 9}, confirm=1).answer["count"]
            client.upsert("Dog", [{"id": "1", "name": "y"}])
            writes = [{"op": "patch", "topic": f"Dog/{n}", "value": {"age": 9}} for n in (0, 1)]
            assert [False, False] == [row["created"] for row in client.transaction(writes).answer]
            return one, client.delete_where("Dog", "", confirm=3).answer["count"]

    assert (1, 3) == await asyncio.to_thread(blocking)


async def take(events, count):
    """Return so many events."""
    found = []
    async for event in events:
        found.append(event)
        if len(found) == count:
            return found
    raise AssertionError(found)


async def test_it_reads_and_writes_on_conditions(rows):
    first = await rows.put("Dog/a b", {"name": "Rex"}, if_none_match="*")
    got = await rows.get("Dog/a b")
    assert (201, {"id": "a b", "name": "Rex"}) == (first.status, got.value)
    assert first.cursor == got.cursor
    second = await rows.patch("Dog/a b", {"age": 3}, if_match=first.cursor)
    with pytest.raises(Problem) as late:
        await rows.delete("Dog/a b", if_match=first.cursor)
    assert (412, Code.PRECONDITION) == (late.value.status, late.value.code)
    with pytest.raises(Problem) as wrong:
        await rows.put("Dog/x", {"age": "old"})
    assert {"name", "age"} == {one["path"] for one in wrong.value.problems}
    past = await rows.history("Dog/a b")
    assert [None, 3] == [event["value"].get("age") for event in past.events]
    assert {"name": "Rex", "age": 3} == (await rows.get("Dog/a b", "select(name,age)")).value
    assert 204 == (await rows.delete("Dog/a b", if_match=second.cursor)).status
    with pytest.raises(Problem) as gone:
        await rows.get("Dog/a b")
    assert (404, True) == (gone.value.status, gone.value.is_final)


async def test_it_pages_creates_and_takes_lists(rows):
    made = await rows.create("Dog", {"name": "New"})
    assert "New" == (await rows.get(f"Dog/{made.id}")).value["name"]
    await rows.delete(f"Dog/{made.id}")
    many = await rows.create("Dog", [{"id": f"p{n}", "name": str(n)} for n in range(3)])
    assert ["p0", "p1", "p2"] == [one["id"] for one in many.answer]
    page = await rows.query("Dog", "limit(2)")
    rest = await rows.query("Dog", page.next)
    assert ["p0", "p1", "p2"] == [row["id"] for row in page.rows + rest.rows]
    assert "" == rest.next
    # Figures of the server are records too, and may be written between the two pages.
    assert [page.position, rest.position] == sorted([page.position, rest.position], key=seq_of)


async def test_text_bytes_and_messages_come_as_they_are(rows):
    async with aclosing(rows.subscribe("home/+", "Dog/1", start="new", meta=True)) as events:
        assert "current" == (await take(events, 1))[0].kind
        await rows.put("home/text", "plain words", type="text/plain")
        await rows.put("home/bytes", b"\x00\xff", type="application/octet-stream")
        said = await rows.publish("home/text", {"n": 1})
        heard = await take(events, 3)
    got = [await rows.get("home/text"), await rows.get("home/bytes")]
    assert [("plain words", "text/plain"), (b"\x00\xff", "application/octet-stream")] == [
        (one.value, one.type) for one in got
    ]
    assert [("put", "plain words"), ("put", b"\x00\xff"), ("message", {"n": 1})] == [
        (event.kind, event.value) for event in heard
    ]
    assert said.cursor == heard[2].cursor
    assert "message" == heard[2].fields["_op"]


async def test_c23_a_commit_follows_each_transaction(rows):
    """C23: what came up to it is as of its cursor."""
    writes = [{"op": "put", "topic": f"{it}/c", "value": {"name": "c"}} for it in ("Dog", "home")]
    asked = rows.subscribe("Dog/#", "home/#", start="new", commits=True)
    async with aclosing(asked) as events:
        assert {"current", "commit"} == {event.kind for event in await take(events, 2)}
        told = (await rows.transaction(writes)).answer
        heard = await take(events, 3)
    assert ["put", "put", "commit"] == [event.kind for event in heard]
    assert told[-1]["position"] == heard[-1].cursor == asked.cursor


@pytest.mark.heavy
async def test_m4_values_come_as_often_as_asked(program, rows):
    """M4: the newest value comes, and all others are counted; by both clients."""
    async with aclosing(rows.subscribe("Dog/#", start="new", conflate="10ms")) as events:
        await take(events, 1)
        live = [one for door in program.kernel.doors for one in door.subscriptions()]
        assert [0.01] == [it.conflate for one in live for it in one.interests]
        for age in range(30):
            await rows.put("Dog/m", {"name": "Max", "age": age})
        came = passed = 0
        async for event in events:
            passed += event.gap["count"] if event.gap else 0
            came += event.kind == "put"
            if event.kind == "put" and event.value["age"] == 29:
                break
    assert 30 == came + passed
    with pytest.raises(Problem, match="conflate is a duration"):
        await asyncio.to_thread(first_of_blocking, url_of(program), conflate="often")


def first_of_blocking(url, **options):
    """Return the first event for the client without asyncio."""
    with SyncRowcast(url) as client:
        return next(iter(client.subscribe("Dog/#", **options)))


@pytest.mark.parametrize("name", ["json", "cbor", "msgpack"])
async def test_the_formats_give_one_value(program, name):
    """O10, A19: what a client writes, it reads and hears: dates as its format has them."""
    value = {
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "price": Decimal("1.10"),
        "raw": b"\x00\xff",
        "big": 2**53 + 1,
    }
    async with Rowcast(url_of(program), format=name) as rows:
        expected = {"id": "1"} | (PLAIN if name == "json" else value)
        await rows.put("Kept/1", expected)
        assert expected == (await rows.get("Kept/1")).value
        assert [expected] == (await rows.query("Kept")).rows
        async with aclosing(rows.subscribe("Kept/#")) as events:
            first, mark = await take(events, 2)
        assert ("snapshot", expected, "current") == (first.kind, first.value, mark.kind)
        with pytest.raises(Problem, match="big") as wrong:
            await rows.put("Kept/2", {"big": "many"})
        assert 422 == wrong.value.status


@pytest.mark.heavy
async def test_it_goes_on_over_a_restart_without_loss_or_repeats(tmp_path):
    """O10: 0 lost, 0 doubled; what happened meanwhile comes from the log."""
    states, waiting = [], asyncio.Event()

    def hear(state):
        states.append(state)
        if state == "waiting":
            waiting.set()

    async with application(tmp_path, SCHEMA) as program:
        url, port = url_of(program), program.http_port
        rows = Rowcast(url, wait=lambda _: asyncio.sleep(0))
        events = rows.subscribe("Dog/r", on_state=hear)
        assert ["current"] == [event.kind for event in await take(events, 1)]
        for age in range(5):
            await rows.put("Dog/r", {"name": "r", "age": age})
        heard = await take(events, 3)  # two are still to be read when the server ends
        cursor = events.cursor
        reading = asyncio.create_task(take(events, 7))
    await waiting.wait()
    async with application(tmp_path, SCHEMA, {"http.port": port}):
        async with SyncHands(url) as hands:
            for age in range(5, 10):
                await hands.put(age)
        heard += await reading
        async with aclosing(rows.subscribe("Dog/r", since=cursor)) as again:
            repeated = await take(again, 7)
    await events.aclose()
    await rows.close()
    assert list(range(10)) == [event.value["age"] for event in heard]
    assert heard[3:] == repeated
    assert heard[-1].cursor == events.cursor
    assert ["connecting", "live", "waiting"] == states[:3]


class SyncHands:
    """Writes with the client that has no asyncio, in a thread."""

    def __init__(self, url):
        self.rows = SyncRowcast(url)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.rows.close()

    async def put(self, age):
        await asyncio.to_thread(self.rows.put, "Dog/r", {"name": "r", "age": age})


async def test_a_cursor_of_another_log_is_a_reset_and_then_the_records(rows):
    """O10: exactly one reset."""
    await rows.put("Dog/1", {"name": "Rex"})
    async with aclosing(rows.subscribe("Dog/#", since="0badcafe:1")) as events:
        kinds = [event.kind for event in await take(events, 3)]
    assert ["reset", "snapshot", "current"] == kinds


async def test_a_loop_may_be_left_and_a_client_closed_at_any_moment(program, caplog):
    """O10: no connection stays, and nothing is reported to the loop."""

    async def first():
        async with Rowcast(url_of(program)) as rows:
            async for event in rows.subscribe("Dog/#"):
                return event.kind
        return None

    assert "current" == await first()
    async with Rowcast(url_of(program)) as rows:
        await rows.put("Dog/1", {"name": "Rex"})
        async for event in rows.subscribe("Dog/#"):
            assert "snapshot" == event.kind
            break
        second = rows.subscribe("Dog/2", start="new")
        assert "current" == (await anext(second)).kind
        async with Rowcast(url_of(program)) as other:  # the one that was left is gone already
            while len((await other.query("$SYS/streams")).rows) > 1:
                pass
        reading = asyncio.create_task(anext(second, None))
        await asyncio.sleep(0)
    assert await reading is None
    async with Rowcast(url_of(program)) as other:
        while (await other.query("$SYS/streams")).rows:
            pass
    with pytest.raises(StopAsyncIteration):
        await anext(second)
    assert [] == [record for record in caplog.records if record.name == "asyncio"]


async def test_a_gap_is_told(rows):
    """O10, M4: what the server did not pass on stands in the stream with its count."""
    first, *_ = [await rows.put("Meter/1", {"n": n}) for n in range(5)]
    async with aclosing(rows.subscribe("Meter/1", since=first.cursor)) as events:
        told, last = await take(events, 2)
    assert ("gap", 3, "conflated") == (told.kind, told.gap["count"], told.gap["reason"])
    assert ("put", 4) == (last.kind, last.value["n"])


@pytest.mark.slow  # the command hashes a password
async def test_who_may_not_is_told(tmp_path):
    """O10: wrong credentials are a Problem at once, in calls and in subscriptions."""
    done = rowcast("user", "add", "ann", "--data", tmp_path / "data", stdin="pencil\n")
    assert 0 == done.returncode, done.stderr
    settings = {"security.anonymous": "nobody"}
    async with application(tmp_path, SCHEMA, settings) as program:
        url = url_of(program)
        async with Rowcast(url, user="ann", password="pencil") as ann:
            assert 201 == (await ann.put("Dog/1", {"name": "Rex"})).status
            async with aclosing(ann.subscribe("Dog/#")) as events:
                assert 2 == len(await take(events, 2))
            token = (await ann.request("POST", "/$SYS/login", LOGIN)).json()["token"]
        async with Rowcast(url, token=token) as by_token:
            assert "Rex" == (await by_token.get("Dog/1")).value["name"]
        async with Rowcast(url, user="ann", password="pen") as wrong:
            with pytest.raises(Problem) as told:
                await wrong.get("Dog/1")
            assert (401, Code.UNAUTHENTICATED) == (told.value.status, told.value.code)
            with pytest.raises(Problem) as told:
                await take(wrong.subscribe("Dog/#", patient=True), 1)
            assert 401 == told.value.status


async def test_nobody_there_is_told_at_once(program):
    url = url_of(program)
    await program.stop()
    async with Rowcast(url) as rows:
        with pytest.raises(Problem, match="no server answers") as told:
            await take(rows.subscribe("#"), 1)
    assert (0, Code.BUSY, False) == (told.value.status, told.value.code, told.value.is_final)


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("number", range(2))
async def test_the_examples_of_the_manual_print_what_it_says(program, named, number):
    """O10, O3: docs/clients.md, typed as it stands there: with an address, and without."""
    text = DOCUMENT.read_text(encoding="utf-8")
    example = r"```python\n(import asyncio\n.*?)```\n\nIt prints:\n\n```\n(.*?)```"
    code, printed = re.findall(example, text, re.DOTALL)[number]
    if not named:  # the server of the README, which here has a free port
        code = code.replace("http://127.0.0.1:9926", url_of(program))
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *([url_of(program)] if named else [])),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await child.communicate()
    assert (0, printed) == (child.returncode, out.decode())
