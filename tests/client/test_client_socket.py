"""One WebSocket of the Python client against a server in the test's loop (C21, O10)."""

import asyncio
import gc
from contextlib import aclosing, asynccontextmanager

import pytest

from build import turns
from http_server import HttpServer
from rowcast.core.errors import Code, Error
from rowcast.features.websocket_wills.feature import WillsOfWebSockets
from rowcast.features.websocket_wills.wills import WebSocketWills
from rowcast_client import Problem, Rowcast, Socket, SocketBounds, SyncRowcast, SyncSocket, Will

AWAY = Will("Chat/ann", {"here": False})


def url_of(doors):
    return f"http://127.0.0.1:{doors.port}"


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        WillsOfWebSockets().install(running.kernel)
        yield running


@asynccontextmanager
async def opened(doors, name="json", **options):
    """Yield a socket that connects again at once."""
    again = {"wait": lambda _: asyncio.sleep(0)} | options
    async with Rowcast(url_of(doors), format=name) as rows, Socket(rows, **again) as socket:
        yield socket


def cut(doors):
    """Abort all connections, as a network does that fails."""
    for connection in [*doors.server.server_state.connections]:
        connection.transport.abort()


async def take(events, count):
    """Return so many events."""
    async with asyncio.timeout(20):
        return [await anext(events) for _ in range(count)]


def told(events):
    return [(event.kind, event.topic, event.value) for event in events]


# -- many things over one connection ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["json", "cbor", "msgpack"])
async def test_one_connection_has_it_all(doors, name):
    async with opened(doors, name) as socket:
        made = await socket.put("Dog/1", {"n": 1})
        assert (201, True) == (made.status, made.answer["created"])
        dogs, hot = socket.subscribe("Dog/#"), socket.live("Sensor", "temp=gt=80")
        assert ["snapshot", "current"] == [event.kind for event in await take(dogs, 2)]
        assert ["current"] == [event.kind for event in await take(hot, 1)]
        await socket.put("Sensor/7", {"temp": 81})
        patched = await socket.patch("Dog/1", {"m": 2}, if_match=made.cursor)
        assert 200 == patched.status
        got = await socket.get("Dog/1")
        assert ({"n": 1, "m": 2}, patched.cursor) == (got.value, got.cursor)
        await socket.publish("Dog/1", "hear me")
        await socket.delete("Dog/1", if_match=patched.cursor)
        heard = await take(dogs, 3)
        assert [
            ("patch", "Dog/1", {"n": 1, "m": 2}),
            ("message", "Dog/1", "hear me"),
            ("delete", "Dog/1", None),
        ] == told(heard)
        assert heard[-1].cursor == dogs.cursor == await socket.ping()
        step = (await take(hot, 1))[0]
        assert ("enter", "Sensor/7", 81) == (step.kind, step.topic, step.value["temp"])
        assert 1 == len(doors.edge.watch)


async def test_a_window_of_a_live_query_has_its_first_records(doors):
    async with opened(doors) as socket:
        for temp in (10, 20, 30):
            await socket.put(f"Sensor/{temp}", {"temp": temp})
        hot = socket.live("Sensor", "temp=gt=5", sort="-temp", limit=2, select="id,temp")
        heard = await take(hot, 3)
        assert [{"id": "30", "temp": 30}, {"id": "20", "temp": 20}] == [
            event.value for event in heard[:2]
        ]
        await socket.put("Sensor/40", {"temp": 40, "at": "2026-01-01T00:00:00Z"})
        steps = await take(hot, 2)
        assert {("enter", "Sensor/40"), ("leave", "Sensor/20")} == {
            (event.kind, event.topic) for event in steps
        }


async def test_what_is_refused_is_a_problem_and_the_rest_goes_on(doors):
    async with opened(doors) as socket:
        await socket.put("Dog/1", {})
        with pytest.raises(Problem) as late:
            await socket.put("Dog/1", {}, if_none_match="*")
        assert (412, Code.PRECONDITION, True) == (
            late.value.status, late.value.code, late.value.is_final,
        )  # fmt: skip
        with pytest.raises(Problem) as missing:
            await socket.get("Dog/2")
        assert 404 == missing.value.status
        first, second = socket.subscribe("Dog/#"), socket.subscribe("Dog/#")
        with pytest.raises(Problem, match="has a subscription to 'Dog/#' already"):
            await anext(second)
        with pytest.raises(Problem, match="xx"):
            await anext(socket.live("Sensor", "temp=xx=3"))
        assert 2 == len(await take(first, 2))
        with pytest.raises(Error, match="since and start exclude"):
            socket.subscribe("Cat/#", since="a:1", start="new")


async def test_a_filter_that_ended_may_begin_again(doors):
    async with opened(doors) as socket:
        for _ in range(2):
            async with aclosing(socket.subscribe("Dog/#", start="new")) as dogs:
                assert "current" == (await anext(dogs)).kind
            with pytest.raises(StopAsyncIteration):
                await anext(dogs)
        left = socket.subscribe("Dog/#")  # nobody reads it
        del left
        gc.collect()
        await asyncio.sleep(0)
        assert "current" == (await anext(socket.subscribe("Dog/#"))).kind


async def test_a_socket_is_opened_once_and_closed(doors):
    async with Rowcast(url_of(doors)) as rows:
        socket = Socket(rows)
        with pytest.raises(Error, match="open the socket first"):
            await socket.get("Dog/1")
        await socket.open()
        with pytest.raises(Error, match="opened before"):
            await socket.open()
        dogs = socket.subscribe("Dog/#", start="new")
        await anext(dogs)
        await socket.close()
        with pytest.raises(Problem, match="is closed"):
            await socket.put("Dog/1", {})
        with pytest.raises(StopAsyncIteration):
            await anext(dogs)


async def test_nobody_there_is_told_at_once(doors):
    url = url_of(doors)
    await doors.stop()
    async with Rowcast(url) as rows:
        with pytest.raises(Problem, match="no server answers") as refused:
            await Socket(rows).open()
        assert (0, True) == (refused.value.status, refused.value.is_unsent)


# -- lost connections ------------------------------------------------------------------------------


async def test_subscriptions_go_on_over_lost_connections(doors):
    """O10: nothing is lost, nothing comes twice; each place is kept."""
    states = []
    async with opened(doors, on_state=states.append) as socket:
        await doors.writes(3, "Dog/0")
        streams = [
            socket.subscribe("Dog/+"),
            socket.subscribe("Dog/#", start="new"),
            socket.live("Dog", "n=ge=0"),
        ]
        for stream, count in zip(streams, (2, 1, 2), strict=True):
            await take(stream, count)
        for n in range(9):
            await socket.put("Dog/1", {"n": n})
            if n % 3 == 2:
                cut(doors)
        for stream in streams:
            assert [*range(9)] == [event.value["n"] for event in await take(stream, 9)]
    assert ["connecting", "live", "waiting"] == states[:3]
    assert 3 <= states.count("live")


async def test_a_write_whose_answer_is_lost_has_one_effect(doors):
    """H25: it is sent again with its mark, by which the server answers as it first did."""
    async with opened(doors) as socket:
        dogs = socket.subscribe("Dog/#", start="new")
        await anext(dogs)
        for n in range(20):
            for write in (socket.put, socket.patch):
                writing = asyncio.create_task(write(f"Dog/{n}", {write.__name__: n}))
                await turns(n)  # sent, read, appended, announced or answered
                cut(doors)
                assert (await writing).cursor == (await anext(dogs)).cursor


async def test_what_is_not_answered_in_time_is_told(doors):
    bounds = SocketBounds(answer_seconds=0.05)
    waiting = asyncio.Event()
    async with Rowcast(url_of(doors)) as rows:
        socket = Socket(rows, bounds=bounds, wait=lambda _: waiting.wait())
        await socket.open()
        cut(doors)
        with pytest.raises(Problem, match=r"not answered within 0.05 s") as late:
            await socket.put("Dog/1", {})
        assert (0, False) == (late.value.status, late.value.is_final)
        await socket.close()


async def test_what_is_too_large_fails_alone(doors):
    """The server ends the connection, which is made again without the command."""
    async with opened(doors) as socket:
        dogs = socket.subscribe("Dog/#", start="new")
        await anext(dogs)
        small = asyncio.create_task(socket.put("Dog/1", {"n": 1}))
        with pytest.raises(Problem) as large:
            await socket.put("Dog/2", {"text": "x" * 1_100_000})
        assert 413 == large.value.status
        assert 201 == (await small).status
        assert 1 == (await anext(dogs)).value["n"]


# -- slow readers ----------------------------------------------------------------------------------

SMALL = SocketBounds(queue_events=4)


def queued(events):
    return len(events._stream._queue)


async def test_a_slow_reader_goes_on_in_the_log(doors):
    """Its queue is bounded, the others do not wait, and nothing is lost."""
    async with opened(doors, bounds=SMALL) as socket:
        slow, query = socket.subscribe("Dog/#"), socket.live("Dog", "n=ge=0")
        quick = socket.subscribe("Cat/#")
        for stream in (slow, query, quick):
            await anext(stream)
        for n in range(40):
            await socket.put("Dog/1", {"n": n})
            await socket.put("Cat/1", {"n": n})
            assert n == (await anext(quick)).value["n"]
        assert [4, 4] == [queued(slow), queued(query)]
        assert [*range(40)] == [event.value["n"] for event in await take(query, 40)]
        heard = []
        while len(heard) < 40:
            event = await anext(slow)
            assert queued(slow) <= SMALL.queue_events + 1
            if event.kind == "gap":
                assert ("slow", None) == (event.gap["reason"], event.gap["count"])
            else:
                heard.append(event.value["n"])
        assert [*range(40)] == heard


async def test_current_records_wait_for_their_reader(doors):
    """More than the queue takes: they are read as they are taken."""
    for n in range(300):
        await doors.write(f"Dog/{n:03}", value={"n": n})
    bounds = SocketBounds(queue_events=4, pause_seconds=1_000)
    async with opened(doors, bounds=bounds) as socket:
        dogs = socket.subscribe("Dog/#")
        heard = []
        async for event in dogs:
            assert queued(dogs) <= bounds.queue_events
            if event.kind == "current":
                break
            heard.append(event.value["n"])
        assert [*range(300)] == sorted(heard)


async def test_a_reader_may_write_while_it_reads_current_records(doors):
    """An answer is behind them on the connection, and is not waited for in vain."""
    for n in range(100):
        await doors.write(f"Dog/{n:03}", value={"n": n})
    bounds = SocketBounds(queue_events=4, pause_seconds=1_000)
    async with opened(doors, bounds=bounds) as socket, asyncio.timeout(20):
        async for event in socket.subscribe("Dog/#"):
            if event.kind == "current":
                break
            await socket.put(f"Cat/{event.value['n']}", {})
        assert 100 == len((await doors.http.get("/Cat/")).json())


async def test_too_many_bytes_of_current_records_end_their_subscription(doors):
    for n in range(40):
        await doors.write(f"Dog/{n:03}", value={"n": n})
    bounds = SocketBounds(queue_events=4, snapshot_bytes=1_000)
    async with opened(doors, bounds=bounds) as socket:
        dogs = socket.subscribe("Dog/#")
        while not dogs._stream.is_closed:
            await socket.ping()
        with pytest.raises(Problem, match="read them up to 'current' first"):
            await take(dogs, 40)
        assert "current" == (await anext(socket.subscribe("Cat/#"))).kind


async def test_a_reader_that_stops_holds_the_others_up_for_a_bounded_time(doors):
    for n in range(100):
        await doors.write(f"Dog/{n:03}", value={"n": n})
    bounds = SocketBounds(queue_events=4, pause_seconds=0.5)
    async with opened(doors, bounds=bounds) as socket:
        stopped, other = socket.subscribe("Dog/#"), socket.subscribe("Cat/#")
        assert "current" == (await take(other, 1))[0].kind
        assert 101 == len(await take(stopped, 101))


# -- wills -----------------------------------------------------------------------------------------


async def chat(doors):
    answer = await doors.http.get("/Chat/ann")
    return answer.json() if answer.status_code == 200 else None


async def test_c21_a_will_is_written_when_the_client_vanishes_only(doors):
    wills = doors.kernel.service(WebSocketWills)
    async with opened(doors, will=AWAY):
        assert 1 == len(wills)
    await doors.until(lambda: not len(wills))
    assert await chat(doors) is None
    never = asyncio.Event()
    async with Rowcast(url_of(doors)) as rows:
        socket = Socket(rows, will=AWAY, wait=lambda _: never.wait())
        await socket.open()
        cut(doors)
        await doors.until(lambda: not len(wills))
        await doors.kernel.committer.settle()
        assert {"here": False} == await chat(doors)
        await socket.close()


async def test_c21_a_will_is_set_again_by_each_connection(doors):
    wills, live = doors.kernel.service(WebSocketWills), asyncio.Semaphore(0)

    def hear(state):
        if state == "live":
            live.release()

    async with opened(doors, will=AWAY, on_state=hear) as socket:
        for _ in range(2):
            await live.acquire()
            assert 1 == len(wills)
            cut(doors)
        await live.acquire()
        await socket.set_will(None)
        assert 0 == len(wills)
        await socket.set_will(AWAY)
        assert 1 == len(wills)


async def test_c21_a_will_that_may_not_be_written_is_refused_at_once(doors):
    async with Rowcast(url_of(doors)) as rows:
        with pytest.raises(Problem) as refused:
            await Socket(rows, will=Will("$SYS/x", 1)).open()
        assert refused.value.is_final


# -- without asyncio -------------------------------------------------------------------------------


async def test_without_asyncio_it_is_the_same(doors):
    def blocking():
        with SyncRowcast(url_of(doors)) as rows, SyncSocket(rows, will=AWAY) as socket:
            made = socket.put("Dog/1", {"n": 1})
            patched = socket.patch("Dog/1", {"m": 2}, if_match=made.cursor)
            assert {"n": 1, "m": 2} == socket.get("Dog/1").value
            dogs = socket.subscribe("Dog/#", since=made.cursor)
            assert patched.cursor == next(dogs).cursor == dogs.cursor == socket.ping()
            socket.publish("Dog/1", "x", once=True)
            socket.delete("Dog/1")
            kinds = []
            for event in dogs:
                kinds.append(event.kind)
                if event.kind == "delete":
                    break
            dogs.close()
            assert [] == [*dogs]
            socket.set_will(None)
            hot = socket.live("Sensor", "temp=gt=80")
            assert "current" == next(hot).kind
            with pytest.raises(Problem):
                socket.get("Dog/1")
        assert [] == [*hot], "the socket is closed"
        socket.close()
        with pytest.raises(Error, match="not open"):
            socket.get("Dog/1")
        return kinds

    assert ["message", "delete"] == await asyncio.to_thread(blocking)
    await doors.stop()

    def nobody():
        with SyncRowcast(url_of(doors)) as rows, pytest.raises(Problem, match="no server answers"):
            SyncSocket(rows).open()

    await asyncio.to_thread(nobody)
