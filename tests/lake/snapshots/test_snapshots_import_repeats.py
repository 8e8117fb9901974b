"""Import to a server that is busy, cuts connections or keeps silent: each row once (S19, B17)."""

import asyncio
import threading

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changing import Changing

from rowcast.core.errors import Code, Error
from rowcast.core.limits import CLIENT_ANSWER_SECONDS
from rowcast.journal.journaled_store import ROOM_SECONDS
from rowcast.schema import parse_schema
from rowcast_client import SyncRowcast
from rowcast_lake.commands.import_requests import ImportRequests, Patience, Place
from rowcast_lake.commands.importing import Sender, import_table
from rowcast_lake.snapshots.importing import Importer

SCHEMA = """
type Dog @table @export { id: ID @primaryKey, name: String }
type Free @table @export
"""
DOG, FREE = parse_schema(SCHEMA).tables
ROWS = 2_500
BATCHES = 3
PATIENCE = Patience(attempts=4, seconds_min=0.5, seconds_max=8)
TOPICS = [f"Dog/{number}" for number in range(ROWS)]


class Wire(httpx.BaseTransport):
    """The way to a server, on which the requests of some numbers (from 0) fail in some way."""

    def __init__(self, **ways):
        self.inner = httpx.HTTPTransport()
        self.ways = {int(name.strip("_")): way for name, way in ways.items()}
        self.keys = []
        self.threads = []

    def handle_request(self, request):
        number = len(self.keys)
        self.keys.append(request.headers["idempotency-key"])
        return self.ways.get(number, carry)(self, request)

    def join(self):
        for thread in self.threads:
            thread.join()

    def close(self):
        self.join()
        self.inner.close()


def carry(wire, request):
    return wire.inner.handle_request(request)


def busy(_wire, _request):
    return httpx.Response(503, headers={"retry-after": "3"})


def nobody(_wire, _request):
    raise httpx.ConnectError("connection refused")


def lost(_wire, _request):
    """The request never arrives."""
    raise httpx.WriteError("broken pipe")


def cut(wire, request):
    """The batch is written, and the connection ends before the answer."""
    assert wire.inner.handle_request(request).status_code in {201, 204}
    raise httpx.RemoteProtocolError("server disconnected without sending a response")


def silent(wire, request):
    """The server is still at it when the client has waited long enough."""
    thread = threading.Thread(target=wire.inner.handle_request, args=[request])
    thread.start()
    wire.threads.append(thread)
    raise httpx.ReadTimeout("timed out")


def running(_wire, _request):
    details = b'{"code":"conflict","title":"Conflict","detail":"is being carried out"}'
    headers = {"retry-after": "1", "content-type": "application/problem+json"}
    return httpx.Response(409, headers=headers, content=details)


def refused(_wire, _request):
    return httpx.Response(403)


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "rows.parquet"
    names = [f"name {number}" for number in range(ROWS)]
    pq.write_table(pa.table({"id": [str(number) for number in range(ROWS)], "name": names}), found)
    return found


@pytest.fixture
async def world(tmp_path):
    made = Changing(tmp_path, 1)
    made.schema = SCHEMA
    async with made.running(**{"mqtt.sys_interval": 0}):
        yield made


class Import:
    """One run of an import, in a thread; it notes the delays in place of waiting."""

    def __init__(self, url, path, wire, start=None, table=DOG):
        self.delays = []
        self.wire, self.path, self.table = wire, path, table
        self.client = SyncRowcast(url, transport=wire)
        requests = ImportRequests(self.client, PATIENCE, self.wait)
        self.sender = Sender(requests, table, start or Place.start())

    def wait(self, seconds):
        self.delays.append(seconds)
        if seconds > PATIENCE.seconds_min:  # long enough for what the server is still at
            self.wire.join()

    async def run(self):
        def send():
            with self.client:
                self.sender.send(Importer(self.table).parts(self.path))

        await asyncio.to_thread(send)
        return self


def written(world):
    """Return the topics of all events of the log, in their order."""
    found, at = [], 0
    while events := world.store.read(at, 1000):
        found += [event.topic for event in events if event.table is not None]
        at = events[-1].seq
    return found


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("ways", "delays"),
    [
        ({"_1": busy, "_2": busy}, [3, 3]),
        ({"_0": busy, "_2": lost}, [3, 0.5]),
        ({"_1": cut}, [0.5]),
        ({"_0": cut, "_1": cut, "_2": nobody, "_4": cut}, [0.5, 1, 2, 0.5]),
        ({"_0": cut, "_1": running, "_2": running}, [0.5, 1, 2]),
    ],
    ids=["busy", "lost", "cut", "again and again", "still carried out"],
)
async def test_s19_each_row_is_written_once_whatever_becomes_of_the_answers(
    world, path, ways, delays
):
    """S19, B17: one event for each row, one key for each batch, delays as asked or doubled."""
    done = await Import(world.url, path, Wire(**ways)).run()
    assert TOPICS == written(world)
    assert ROWS == done.sender.rows
    assert (BATCHES, BATCHES + len(delays)) == (len({*done.wire.keys}), len(done.wire.keys))
    assert delays == done.delays


@pytest.mark.heavy
async def test_s19_a_batch_that_timed_out_is_not_written_twice(world, path):
    """S19: its repeat is refused while the first is under way, or gets its answer."""
    done = await Import(world.url, path, Wire(_0=silent, _3=silent)).run()
    assert TOPICS == written(world)
    assert (ROWS, BATCHES) == (done.sender.rows, len({*done.wire.keys}))


async def test_s19_content_of_single_records_is_written_once(world, tmp_path):
    """S19: such records are no batch, and each has its own key."""
    path = tmp_path / "rows.parquet"
    columns = {"_id": ["a", "b"], "_payload": [b"one", b"two"], "_content_type": ["x/y", "x/y"]}
    pq.write_table(pa.table(columns), path)
    done = await Import(world.url, path, Wire(_0=cut, _1=busy, _3=cut), table=FREE).run()
    assert ["Free/a", "Free/b"] == written(world)
    assert (2, 2) == (done.sender.rows, len({*done.wire.keys}))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("way", "code", "why"),
    [(busy, Code.BUSY, "503"), (cut, Code.BUSY, "no server answers"), (lost, Code.BUSY, "broken")],
)
async def test_s19_an_import_that_gives_up_tells_how_to_go_on(world, path, way, code, why):
    """S19: after the bound; what goes on writes the rest, and no row a second time."""
    first = Import(world.url, path, Wire(_1=way, _2=way, _3=way, _4=way))
    with pytest.raises(Error, match=why) as ended:
        await first.run()
    assert (code, 1000) == (ended.value.code, first.sender.rows)
    assert "row 1001 to row 2000" in ended.value.message
    assert "the 1,000 rows before are written" in ended.value.message
    assert PATIENCE.attempts == 1 + len(first.delays) == len(first.wire.keys) - 1
    place = Place.of(ended.value.message.rpartition("--resume ")[2])
    rest = await Import(world.url, path, Wire(), place).run()
    assert (TOPICS, ROWS) == (written(world), rest.sender.rows)
    assert [first.wire.keys[-1]] == rest.wire.keys[:1]
    assert 2 == len(rest.wire.keys)


@pytest.mark.parametrize(("way", "code"), [(refused, Code.INVALID), (nobody, Code.BUSY)])
async def test_s19_what_cannot_succeed_is_tried_once(world, path, way, code):
    """S19: a refusal, and an address where nobody was ever reached."""
    first = Import(world.url, path, Wire(_0=way))
    with pytest.raises(Error, match="the 0 rows before") as ended:
        await first.run()
    assert (code, [], 1) == (ended.value.code, first.delays, len(first.wire.keys))
    assert [] == written(world)


async def test_s19_the_command_goes_on_where_it_is_told(world, path, tmp_path, capsys):
    """S19: the count is that of all rows."""
    place = str(Place("0" * 32, 2000))
    schema = tmp_path / "schema.graphql"
    await asyncio.to_thread(import_table, "Dog", str(path), schema, world.url, place)
    assert TOPICS[2000:] == written(world)
    assert f"{ROWS}\n" == capsys.readouterr().out


@pytest.mark.parametrize("text", ["7", "0" * 32, "0" * 32 + ":-1", "x" * 32 + ":1"])
def test_s19_what_is_no_place_is_refused(text, path):
    with pytest.raises(Error, match="is no place of an import") as told:
        import_table("Dog", str(path), resume=text)
    assert Code.INVALID == told.value.code


def test_s19_delays_double_up_to_a_bound():
    patience = Patience(attempts=9, seconds_min=0.5, seconds_max=5)
    assert [0.5, 1, 2, 4, 5] == [patience.pause(attempt, 0) for attempt in range(1, 6)]
    assert [3, 5] == [patience.pause(1, 3), patience.pause(1, 60)]


def test_s19_an_import_is_more_patient_than_the_server():
    """S19: it hears what becomes of a write that waits for the tables, and of some after it."""
    patience = Patience()
    pauses = [patience.pause(attempt, 0) for attempt in range(1, patience.attempts)]
    assert CLIENT_ANSWER_SECONDS > ROOM_SECONDS
    assert 10 * ROOM_SECONDS < sum(pauses) < 20 * ROOM_SECONDS
