"""Large values: checked elsewhere, with the same outcome and in the same order (L11)."""

import asyncio
import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from build import ANN, BEN, TABLES, Listener, Server, refusal
from rowcast.codecs import CBOR, JSON, MSGPACK, encode
from rowcast.core.callers import NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, MISSING, PATCH, PUT, Event
from rowcast.core.tables import Attribute, Role, Table, Type
from rowcast.core.write_marks import MARK
from rowcast.doors.http.rest.representations import prepare, representation
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.large_values.feature import LargeValueProcess
from rowcast.net.worker_processes import WorkerProcesses
from rowcast.schema import parse_schema
from rowcast.writes.last_write_wins import put_stamp
from rowcast.writes.pending_bytes import WriteBounds
from serving import PATIENCE_SECONDS

BYTES_MIN = 100
ENDING = Table(
    "Ending",
    "Ending",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("until", Type.LONG, role=Role.EXPIRES_AT),
    ),
)
OPEN = Table("Open", "Open", ())


class Workers:
    """Works on a thread, when it is let; counts what it was asked."""

    def __init__(self):
        self._threads = ThreadPoolExecutor(1)
        self.asked = []
        self.gate = threading.Event()
        self.gate.set()

    async def run(self, function, *arguments):
        self.asked.append(function.__name__)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._work, function, arguments)

    def _work(self, function, arguments):
        assert self.gate.wait(PATIENCE_SECONDS)
        return function(*arguments)

    def stop(self):
        self.gate.set()
        self._threads.shutdown()


@pytest.fixture
async def rooms():
    made = []

    def make(workers=None, **options):
        room = Server((*TABLES, ENDING, OPEN), **options)
        room.workers = workers or Workers()
        large = LargeValueProcess(BYTES_MIN, room.workers)
        large.install(room.kernel)
        room.large = large.values
        made.append((room, large))
        return room

    yield make
    for room, large in made:
        await large.stop()
        await room.stop()


def dog(name="Rex", pad=200, **facts):
    return encode({"name": name, **facts, "pad": "x" * pad}, JSON)


def event(topic, payload, kind=PUT, content_type=None, **facts):
    return Event(topic, kind, payload, content_type, qos=1, retain=kind != MESSAGE, **facts)


async def until(condition):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - of a thread
            await asyncio.sleep(0)


async def test_a_large_value_keeps_the_time_of_creation_that_it_brings(rooms):
    """E28: it is as old here as where it was first written."""
    room = rooms()
    sent = event("Dog/1", dog(created="2020-01-01T00:00:00Z"))
    put_stamp(sent, str(room.clock.tick()), "there")
    receipt = await room.kernel.write(sent, ANN)
    assert (["check"], 2020) == (room.workers.asked, receipt.event.decoded["created"].year)


async def test_only_a_large_value_of_a_table_takes_the_detour(rooms):
    room = rooms()
    await room.put("Dog/1", dog(pad=1))
    await room.put("open/1", dog())
    await room.delete("Dog/1")
    assert [] == room.workers.asked
    await room.put("Dog/2", dog())
    await room.say("Dog/2", dog())
    assert ["check", "check"] == room.workers.asked


@pytest.mark.parametrize(
    ("topic", "payload", "content_type"),
    [
        pytest.param("Dog/1", dog(), None, id="no type"),
        pytest.param("Dog/1", dog(), JSON, id="JSON"),
        pytest.param("Dog/1", encode({"name": "x" * 200}, CBOR), CBOR, id="CBOR"),
        pytest.param("Dog/1", encode({"age": "7", "name": "x" * 200}, MSGPACK), MSGPACK, id="text"),
        pytest.param("Dog/1", dog(created="2020-01-01", updated=3), JSON, id="server's times"),
        pytest.param("Dog/1", dog(id="other"), JSON, id="another id"),
        pytest.param("Ending/1", encode({"until": 9e14, "pad": "x" * 200}, JSON), JSON, id="ends"),
        pytest.param("Open/1", b"no value" * 20, None, id="plain bytes"),
        pytest.param("Open/1", b"no value" * 20, JSON, id="broken JSON"),
        pytest.param("Open/1", b"no value" * 20, "image/png", id="a picture"),
        pytest.param("Dog/1", b"[" * 200, JSON, id="too deep"),
        pytest.param("Dog/1", b"[1]" + b" " * 200, JSON, id="a list"),
        pytest.param("Dog/1", dog(name=5), JSON, id="another type"),
        pytest.param("Dog/1", b"no value" * 20, None, id="no JSON"),
        pytest.param("Dog/1", b"no value" * 20, "image/png", id="a picture at a table"),
        pytest.param("Counter/x", dog(), JSON, id="no id of the table"),
    ],
)
@pytest.mark.parametrize("kind", [PUT, PATCH, MESSAGE])
async def test_it_is_stored_or_refused_as_a_small_one_is(rooms, topic, payload, content_type, kind):
    usual, room = Server((*TABLES, ENDING, OPEN)), rooms()
    outcomes = []
    for one in (usual, room):
        heard = Listener(one)
        sent = event(topic, payload, kind, content_type)
        try:
            receipt = await one.kernel.write(sent, ANN)
        except Error as error:
            outcomes.append((error.code, error.message, error.detail))
        else:
            fields = list(receipt.event.fields)
            outcomes.append((fields, [one.fields[:4] for one in heard.events]))
    assert outcomes[0] == outcomes[1]
    await usual.stop()


async def test_its_writer_is_told_whether_there_was_a_record(rooms):
    """L11, A3: so is the writer of a small value that waits behind it."""
    room = rooms()
    sent = [event("Dog/1", dog()), event("Dog/1", dog("Max")), event("Dog/1", dog(pad=1))]
    receipts = await asyncio.gather(*[room.kernel.write(item, ANN) for item in sent])
    assert [False, True, True] == [receipt.existed for receipt in receipts]


async def test_what_a_caller_writes_after_it_waits_behind_it_and_others_do_not(rooms):
    room = rooms()
    heard = Listener(room)
    room.workers.gate.clear()
    kernel, done = room.kernel, []
    kernel.submit(event("Dog/1", dog()), ANN, done.append)
    kernel.submit(event("Dog/1", b'{"name":"small"}'), ANN, done.append)
    kernel.submit(event("open/1", b"said", MESSAGE), ANN, done.append)
    kernel.submit(event("Dog/1", dog(), PATCH), ANN, done.append)
    kernel.submit(event("open/1", b"last"), ANN, done.append)
    await room.put("Dog/2", b'{"name":"other"}', BEN)
    assert (["Dog/2"], []) == (heard.topics, done)
    assert kernel.has_pending_writes(ANN)
    room.workers.gate.set()
    await until(lambda: 5 == len(done))
    assert ["Dog/2", "Dog/1", "Dog/1", "open/1", "Dog/1", "open/1"] == heard.topics
    assert [b"said", b"last"] == [one.payload for one in heard.events if one.topic == "open/1"]
    assert not kernel.has_pending_writes(ANN)


async def test_what_is_written_after_a_change_of_rights_waits_behind_it_too(rooms):
    """Its connection has another caller then; a small value was stored, then the older one."""
    room = rooms()
    room.workers.gate.clear()
    done = []
    room.kernel.submit(event("Dog/1", dog()), ANN, done.append)
    room.kernel.submit(event("Dog/1", b'{"name":"newer"}'), replace(ANN), done.append)
    await room.put("Dog/2", b'{"name":"other"}', BEN)
    assert not done
    room.workers.gate.set()
    await until(lambda: 2 == len(done))
    assert b"newer" in (await room.kernel.read("Dog/1", ANN)).payload


async def test_a_call_that_follows_earlier_writes_comes_after_a_large_one(rooms):
    room = rooms()
    room.workers.gate.clear()
    done = []
    room.kernel.submit(event("Dog/1", dog()), ANN, lambda _: done.append("written"))
    room.kernel.when_stored(ANN, lambda _: done.append("stored"))
    room.kernel.when_stored(BEN, lambda _: done.append("nothing waits"))
    await until(lambda: done)
    room.workers.gate.set()
    await until(lambda: 3 == len(done))
    assert ["nothing waits", "written", "stored"] == done


async def test_an_atomic_batch_comes_after_earlier_writes_of_its_caller(rooms):
    room = rooms()
    heard = Listener(room)
    room.workers.gate.clear()
    room.kernel.submit(event("Dog/1", dog()), ANN)
    batch = [event("Dog/2", b'{"name":"one"}'), event("Dog/3", dog())]
    written = asyncio.create_task(room.kernel.write_all(batch, ANN, atomic=True))
    others = await room.kernel.write_all([event("Dog/4", b"{}")], BEN, atomic=True)
    assert (1, ["Dog/4"]) == (len(others), heard.topics)
    room.workers.gate.set()
    await written
    assert ["Dog/4", "Dog/1", "Dog/2", "Dog/3"] == heard.topics


async def test_who_may_not_write_has_nothing_looked_at(rooms):
    room = rooms()
    assert Code.DENIED is await refusal(room.put("Dog/1", dog(), Caller("eve", NONE, "http")))
    assert [] == room.workers.asked


async def test_what_waits_counts_as_pending_and_too_much_is_refused(rooms):
    room = rooms(bounds=WriteBounds(client_high=1_000, client_max=3_000))
    room.workers.gate.clear()
    done, pending = [], room.committer.pending
    for number in range(6):
        room.kernel.submit(event(f"Dog/{number}", dog()), ANN, done.append)
    assert [Code.BUSY] * 2 == [one.code for one in done]
    assert (pending[ANN.connection], True) == (pending.size, room.committer.slows(ANN))
    room.workers.gate.set()
    await until(lambda: 6 == len(done))
    assert (0, {}) == (pending.size, pending)


async def test_the_server_stops_after_what_waits_is_stored(rooms):
    room = rooms()
    heard = Listener(room)
    room.workers.gate.clear()
    room.kernel.submit(event("Dog/1", dog()), ANN)
    room.kernel.submit(event("Dog/2", b'{"name":"small"}'), ANN)
    stopping = asyncio.create_task(room.large.stop())
    await asyncio.sleep(0)
    room.workers.gate.set()
    await stopping
    await room.kernel.stop()
    assert ["Dog/1", "Dog/2"] == heard.topics


class Watching(Hook):
    """Notes what is published, and makes some of it large."""

    def __init__(self):
        self.seen = []

    def on_publish_received(self, caller, event):
        self.seen.append(event.topic)
        if event.topic == "Dog/grows":
            return event.changed(payload=dog())
        return event


async def test_hooks_and_repeats_see_it_once(rooms):
    hooks, hook = Hooks(), Watching()
    hooks.add(hook)
    room = rooms(hooks=hooks)
    sent = [event("Dog/1", dog(), properties={MARK: "maker:1:1"}) for _ in range(2)]
    first, again = [await room.kernel.write(one, ANN) for one in sent]
    assert (False, True, first.event.seq) == (first.repeat, again.repeat, again.event.seq)
    await room.put("Dog/grows", b'{"name":"small"}')
    assert (["Dog/1", "Dog/grows"], ["check"] * 2) == (hook.seen, room.workers.asked)


@pytest.mark.slow
async def test_a_process_that_is_killed_loses_no_write(rooms):
    room = rooms(WorkerProcesses(1, "test-large"))
    await room.put("Dog/1", dog())
    (child,) = room.workers.pids
    os.kill(child, signal.SIGKILL)
    receipt = await room.put("Dog/1", dog("Ben"))
    assert b"Ben" in receipt.event.payload
    assert [child] != room.workers.pids
    assert Code.UNPROCESSABLE is await refusal(room.put("Dog/1", dog(name=5)))


@pytest.mark.parametrize("wanted", [CBOR, MSGPACK, JSON, None])
async def test_a_record_is_encoded_elsewhere_as_it_is_here(rooms, wanted):
    room = rooms()
    for topic in ("Dog/1", "Open/1", "free/1"):
        await room.put(topic, dog(), content_type=JSON)
        here, there = [
            (await room.kernel.read(topic, ANN)).changed(decoded=MISSING) for _ in range(2)
        ]
        await prepare(room.kernel, there, None, wanted)
        made = representation(room.kernel, there, None, wanted)
        assert there.decoded is MISSING
        assert representation(room.kernel, here, None, wanted).body == made.body


async def test_a_record_that_is_no_value_is_refused_in_the_usual_words(rooms):
    room = rooms()
    await room.put("free/1", b"no value" * 20)
    found = []
    for wanted in (CBOR, None):
        here, there = [
            (await room.kernel.read("free/1", ANN)).changed(decoded=MISSING) for _ in range(2)
        ]
        await prepare(room.kernel, there, None, wanted)
        for record in (here, there):
            try:
                found.append(representation(room.kernel, record, None, wanted).body)
            except Error as error:
                found.append((error.code, error.message))
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert Code.NOT_ACCEPTABLE is found[0][0]


async def test_writes_of_one_read_take_the_detour_too(rooms):
    """L11: once the route is known, a run has its large values checked elsewhere, and in order."""
    room = rooms()
    listener, outcomes = Listener(room), []
    await room.put("Dog/1", b'{"name":"first"}')
    large, small = b'{"name":"%s"}' % (b"x" * BYTES_MIN), b'{"name":"small"}'
    room.workers.gate.clear()
    events = [Event("Dog/1", PUT, payload, None, 1, True) for payload in (large, small)]
    room.kernel.submit_run(events, [outcomes.append] * 2, ANN)
    room.kernel.submit_run([Event("Dog/2", PUT, small, None, 1, True)], [outcomes.append], ANN)
    await room.committer.settle()
    assert [] == outcomes
    room.workers.gate.set()
    await until(lambda: len(outcomes) == 3)
    assert ["Dog/1", "Dog/1", "Dog/2"] == [outcome.event.topic for outcome in outcomes]
    assert ["check"] == room.workers.asked
    assert ["Dog/1", "Dog/1", "Dog/1", "Dog/2"] == listener.topics


COMPUTING = """
type Order @table @export @auth(read: "total > 1") @alarm(name: "much", when: "total=gt=9") {
  id: ID @primaryKey
  price: Float
  text: String
  total: Float @computed(from: "price * 2")
}
"""


@pytest.mark.heavy
async def test_a9_a_large_record_has_its_computed_values():
    """A9: checked in another process, which has no formulas, and encoded in this one."""
    room = Server(parse_schema(COMPUTING).tables)
    large = LargeValueProcess(BYTES_MIN, WorkerProcesses(1, "test-computed"))
    large.install(room.kernel)
    body = {"price": 2.0, "text": "x" * BYTES_MIN}
    given = Event("Order/1", PUT, encode(body, JSON), JSON, 1, True)
    await room.kernel.write(given, ANN)
    record = (await room.kernel.read("Order/1", ANN)).changed(decoded=MISSING)
    await prepare(room.kernel, record, None, JSON)
    assert record.decoded is MISSING
    told = json.loads(representation(room.kernel, record, None, JSON).body["body"])
    assert told["total"] == 4.0
    wrong = Event("Order/1", PUT, encode(body | {"total": 1}, JSON), JSON, 1, True)
    with pytest.raises(Error, match="is computed; it cannot be written"):
        await room.kernel.write(wrong, ANN)
    await large.stop()
    await room.stop()
