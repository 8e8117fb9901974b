"""Marks after transactions on SSE and WebSocket, for those who ask (C23)."""

import json

import pytest

from http_server import HttpServer, ask, hear, say
from rowcast.codecs import CBOR, JSON, MSGPACK, decode
from rowcast.core.errors import Code
from rowcast.core.events import DELETE, MESSAGE, PUT, Event


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        yield running


async def together(doors, *writes):
    """Write all or none; return the cursor of the last event."""
    events = [
        Event(topic, kind, b"" if kind == DELETE else b'{"n": 1}', JSON, 1, kind != MESSAGE)
        for kind, topic in writes
    ]
    outcomes = await doors.kernel.write_all(events, doors.caller, atomic=True)
    return doors.kernel.cursor(outcomes[-1].event.seq)


def told(envelopes):
    """Return kind and topic of envelopes."""
    return [(it["kind"], it["topic"]) for it in envelopes]


BEGUN = [("current", None), ("commit", None)]
TWO = (("put", "Dog/1"), ("put", "Cat/1"), ("commit", None))


async def test_c23_sse_marks_a_transaction_over_several_tables(doors):
    """C23: after its last event, with its position as data and id; a single write has one, too."""
    async with doors.sse("/?topic=Dog/%23&topic=Cat/%23&commits=true&start=new") as stream:
        assert BEGUN == told(await stream.values(2))
        await together(doors, (PUT, "Dog/1"), (PUT, "Chat/1"), (PUT, "Cat/1"))
        end = await together(doors, (PUT, "Dog/2"), (DELETE, "Cat/1"), (PUT, "Chat/1"))
        alone = doors.kernel.cursor((await doors.write("Cat/3")).seq)
        blocks = await stream.next(8)
    envelopes = [json.loads(block["data"]) for block in blocks]
    rest = [("put", "Dog/2"), ("delete", "Cat/1"), ("commit", None), ("put", "Cat/3")]
    assert [*TWO, *rest, ("commit", None)] == told(envelopes)
    mark = {"cursor": end, "topic": None, "kind": "commit", "version": None}
    assert ("commit", end, mark) == (blocks[5]["event"], blocks[5]["id"], envelopes[5])
    assert alone == blocks[7]["id"]


async def test_c23_a_stream_that_begins_with_records_has_its_first_mark_after_them(doors):
    await together(doors, (PUT, "Dog/1"), (PUT, "Cat/1"))
    async with doors.sse("/?topic=Dog/%23&topic=Cat/%23&commits=true") as stream:
        found = await stream.values(4)
    assert ["snapshot", "snapshot", "current", "commit"] == [it["kind"] for it in found]
    assert doors.kernel.head == found[-1]["cursor"]


async def test_c23_a_stream_cut_anywhere_goes_on_and_has_each_transaction_once(doors):
    """C23, C9: cut after each event, also between the last one and its mark."""
    start = doors.kernel.head
    for _ in range(3):
        await together(doors, (PUT, "Dog/1"), (PUT, "Chat/1"), (PUT, "Cat/1"))
    url = "/?topic=Dog/%23&topic=Cat/%23&commits=true"
    async with doors.sse(url, last_event_id=start) as stream:
        whole = await stream.next(10)
    assert "commit" == whole[0]["event"]
    events = [block["id"] for block in whole if block.get("event") != "commit"]
    for index, block in enumerate(whole):
        async with doors.sse(url, last_event_id=block["id"]) as stream:
            rest = await stream.next(max(1, len(whole) - index - 1))
        ids = [it["id"] for it in rest if it.get("event") != "commit"]
        assert events[len(events) - len(ids) :] == ids
        first = rest[0].get("event") == "commit"
        inside = told([json.loads(block["data"])]) == [("put", "Dog/1")]
        assert first is not inside, index  # the mark that it may have missed comes again


async def test_without_commits_there_are_none(doors):
    async with doors.sse("/Dog/?start=new") as stream:
        assert ["current"] == [it["kind"] for it in await stream.values()]
        await together(doors, (PUT, "Dog/1"), (PUT, "Dog/2"))
        await doors.write("Dog/3")
        assert ["Dog/1", "Dog/2", "Dog/3"] == [it["topic"] for it in await stream.values(3)]


@pytest.mark.parametrize(("name", "media_type"), [("cbor", CBOR), ("msgpack", MSGPACK)])
async def test_a_websocket_marks_in_every_format(doors, name, media_type):
    async with doors.ws(f"/Dog/?commits=true&start=new&format={name}") as socket:
        _, mark = [decode(await socket.recv(), media_type) for _ in range(2)]
    members = {"cursor": doors.kernel.head, "topic": None, "kind": "commit", "version": None}
    assert members == mark


async def test_c23_a_websocket_marks_the_subscriptions_that_ask(doors):
    """C23: after all of a transaction, whatever subscription its events are for."""
    async with doors.ws("/") as socket:
        first = await ask(socket, id=1, op="subscribe", topic="Dog/+", start="new", commits=True)
        assert BEGUN == told(await hear(socket, 2))
        await ask(socket, id=2, op="subscribe", topic="Cat/+", start="new")
        await hear(socket)
        third = await ask(socket, id=3, op="subscribe", topic="Cat/#", start="new", commits=True)
        await hear(socket, 2)
        end = await together(doors, (PUT, "Dog/1"), (PUT, "Cat/1"))
        found = await hear(socket, 5)
    marks = [(it["subscription"], it["cursor"]) for it in found[3:]]
    assert {(first["subscription"], end), (third["subscription"], end)} == set(marks)
    assert ["put", "put", "put", "commit", "commit"] == [it["kind"] for it in found]


async def test_a_websocket_at_several_topics_has_one_mark(doors):
    async with doors.ws("/?topic=Dog/%23&topic=Cat/%23&commits=true&start=new") as socket:
        await together(doors, (PUT, "Dog/1"), (PUT, "Cat/1"))
        await say(socket, id=1, op="ping")
        found = await hear(socket, 6)
    kinds = [it["kind"] for it in found if "kind" in it]
    assert ["current", "commit", "put", "put", "commit"] == kinds


async def test_c23_a_live_query_has_its_steps_before_the_mark(doors):
    """C23: a step keeps nothing of its event's transaction but its place."""
    await doors.write("Sensor/1", value={"at": "2026-01-01T00:00:00Z"})
    url = "/Sensor/?id=in=1,2,3&commits=true"
    async with doors.sse(url) as stream:
        assert ["snapshot", "current", "commit"] == [it["kind"] for it in await stream.values(3)]
        await together(doors, (DELETE, "Sensor/1"), (DELETE, "Sensor/2"), (DELETE, "Sensor/9"))
        await together(doors, (DELETE, "Sensor/9"))
        await doors.write("Sensor/3", value={})
        found = told(await stream.values(4))
    commit = ("commit", None)
    assert [("leave", "Sensor/1"), commit, ("enter", "Sensor/3"), commit] == found


async def test_nothing_is_told_of_transactions_whose_events_are_withheld():
    """C23: a mark alone would tell that there was one."""
    async with HttpServer() as doors:
        doors.kernel.view.append(lambda _caller: Withholding())
        async with doors.sse("/?topic=Dog/%23&topic=Cat/%23&commits=true&start=new") as stream:
            await stream.next(2)
            await together(doors, (PUT, "Cat/1"), (PUT, "Cat/2"))
            end = await together(doors, (PUT, "Dog/1"), (PUT, "Cat/1"))
            found = await stream.values(2)
    assert [("put", "Dog/1", True), ("commit", None, True)] == [
        (it["kind"], it["topic"], it["cursor"] <= end) for it in found
    ]


class Withholding:
    """A stage that withholds cats."""

    compares = False

    def counts(self, event):
        return not event.topic.startswith("Cat/")

    def pass_on(self, pairs):
        return [pair for pair in pairs if self.counts(pair[0])]


@pytest.mark.parametrize(
    ("url", "words"),
    [("/Dog/?commits=maybe", "commits"), ("/Dog/?from=-1h&to=-30m&commits=true", "a replay has")],
)
async def test_what_cannot_have_marks_is_refused(doors, url, words):
    got = await doors.http.get(url, headers={"accept": "text/event-stream"})
    assert (400, True) == (got.status_code, words in got.json()["detail"])


async def test_a_websocket_refuses_other_commits_than_true_and_false(doors):
    async with doors.ws("/") as socket:
        answer = await ask(socket, id=1, op="subscribe", topic="Dog/+", commits="yes")
    assert (Code.INVALID.value, 1) == (answer["error"]["code"], answer["id"])
