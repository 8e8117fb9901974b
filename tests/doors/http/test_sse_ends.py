"""How an event stream is refused, is silent, is slow and ends (C4, C17, C18, C26)."""

import asyncio
import json
import socket

import pytest

from http_server import STREAM, HttpServer, OneByOne
from memory_users import ann_and_bob
from rowcast.auth.authenticator import Authenticator
from rowcast.core.callers import NONE
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.limits import STREAM_SEND_SECONDS
from serving import PROMPT_SECONDS


@pytest.fixture
async def doors(request):
    async with HttpServer(settings=getattr(request, "param", None)) as running:
        yield running


def told(envelopes):
    return [(each["kind"], each["topic"]) for each in envelopes]


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "status", "code"),
    [
        ("/", 400, "invalid"),
        ("/Dog/1?since=x", 400, "invalid"),
        ("/Dog/1?previousCount=1&startTime=1", 400, "invalid"),
        ("/Dog/%FF", 400, "invalid"),
        ("/Dog/1?format=xml", 406, "not_acceptable"),
        ("/?topic=%24share/g/Dog/1", 415, "unsupported"),
    ],
)
async def test_a_refusal_is_a_problem_and_leaves_nothing(doors, url, status, code):
    before = doors.kernel.bus.subscriptions
    answer = await doors.http.get(url, headers=STREAM)
    assert (status, code) == (answer.status_code, answer.json()["code"])
    assert before == doors.kernel.bus.subscriptions


async def test_a_topic_that_is_not_declared_is_not_found_when_those_are_rejected():
    async with HttpServer(undeclared="reject") as doors:
        answer = await doors.http.get("/nope/1", headers=STREAM)
    assert 404 == answer.status_code


async def test_a_caller_without_rights_is_refused():
    async with HttpServer(grants=NONE) as doors:
        answer = await doors.http.get("/Dog/1", headers=STREAM)
    assert 401 == answer.status_code


async def test_head_is_answered_and_streams_nothing(doors):
    await doors.write("Dog/1")
    answer = await doors.http.head("/Dog/1", headers=STREAM)
    assert b"" == answer.content
    assert 0 == len(doors.edge.watch)


async def test_without_users_pages_of_this_machine_may_listen_without_credentials(doors):
    """C4, README: from another port, where nobody has a name."""
    async with doors.sse("/Dog/1", origin="http://localhost:3000") as stream:
        headers = stream.response.headers
        await stream.next()
        await doors.write("Dog/1")
        await stream.next()
    assert "http://localhost:3000" == headers["access-control-allow-origin"]
    assert "access-control-allow-credentials" not in headers


async def test_with_users_pages_of_this_machine_may_not_listen():
    """P3: another port is another origin."""
    settings = {"authenticator": Authenticator("loopback", ann_and_bob())}
    async with HttpServer(settings=settings) as doors:
        headers = STREAM | {"origin": "http://localhost:3000"}
        answer = await doors.http.get("/Dog/1", headers=headers)
    assert 403 == answer.status_code


async def test_a_store_that_cannot_be_read_ends_the_stream_with_a_problem(doors, monkeypatch):
    def fail(*_, **__):
        raise OSError("secret")

    await doors.write("Dog/1")
    async with doors.sse("/Dog/1?start=new") as stream:
        await stream.next()
        monkeypatch.setattr(doors.store, "scan", fail)
        monkeypatch.setattr(doors.store, "read", fail)
        async with doors.sse("/Dog/") as broken:
            (block,) = await broken.next()
            with pytest.raises(StopAsyncIteration):
                await anext(broken)
    assert "problem" == block["event"]
    assert "secret" not in block["data"]


# -- silence, slowness and ends -------------------------------------------------------------------


async def test_a_silent_stream_sends_heartbeats():
    """C17."""
    settings = {"sse_heartbeat_seconds": 0.05}
    async with HttpServer(settings=settings) as doors, doors.sse("/Dog/1") as stream:
        blocks = [await anext(stream) for _ in range(5)]
    assert [{"comment": ""}] * 2 == [block for block in blocks if "comment" in block][:2]


async def test_a_busy_stream_sends_no_heartbeats_mid_event():
    settings = {"sse_heartbeat_seconds": 0.01}
    async with HttpServer(settings=settings) as doors, doors.sse("/Dog/1?start=new") as stream:
        await stream.next()
        await doors.writes(200)
        assert list(range(200)) == [e["value"]["n"] for e in await stream.values(200)]


async def stopped_reader(doors, url, buffer_bytes=4096):
    """Open a stream as a reader that takes nothing; from a small buffer it would read for long."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    peer.connect(("127.0.0.1", doors.port))
    peer.sendall(f"GET {url} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n".encode())
    await doors.until(lambda: len(doors.edge.watch) > 0)
    return peer


@pytest.mark.heavy
@pytest.mark.parametrize("doors", [{"stream_send_seconds": 0.2}], indirect=True)
async def test_a_reader_that_stops_holds_little_and_is_cut_off_in_the_end(doors):
    """C18, C26: others are not concerned."""
    doors.edge.watch.interval_seconds = 0.05
    before = doors.counts
    with await stopped_reader(doors, "/Dog/1?start=new"):
        (stopped,) = doors.edge.watch._streams
        stopped.leave_seconds = 0
        async with doors.sse("/Dog/1?start=new") as healthy:
            await healthy.next()
            big = b'{"n": "' + b"x" * 50_000 + b'"}'
            for _ in range(300):
                await doors.write("Dog/1", PUT, big)
                await healthy.next()
            assert stopped.subscription.queue.bytes < 9_000_000
            await doors.until(lambda: stopped not in doors.edge.watch._streams)
            await doors.write("Dog/1")
            await healthy.next()
    await doors.until(lambda: len(doors.edge.watch) == 0)
    await doors.leave_nothing(before)


async def cut_off(doors):
    """Return a reader that took nothing for long, its stream, and how many events there were."""
    peer = await stopped_reader(doors, "/Dog/1?start=new", 500_000)
    (stream,) = doors.edge.watch._streams
    big = b'{"n": "' + b"x" * 50_000 + b'"}'
    written = 0
    while not stream._writer.busy_since:
        written = (await doors.write("Dog/1", PUT, big)).seq
    stream.look(stream._writer.busy_since + STREAM_SEND_SECONDS + 1)
    return peer, stream, written


def rest_of(peer):
    """Return what comes until the connection ends."""
    with peer:
        parts = iter(lambda: peer.recv(1_000_000), b"")
        return b"".join(parts)


async def test_a_reader_that_was_cut_off_finds_why_when_it_reads_on(doors):
    """C18: a whole response, whose last event tells the reason; the id before it resumes."""
    peer, _, written = await cut_off(doors)
    assert 0 == doors.kernel.bus.subscriptions
    came = await asyncio.to_thread(rest_of, peer)
    assert came.endswith(b"\r\n0\r\n\r\n")
    *events, last = (part for part in came.split(b"\n\n") if b"data: " in part)
    assert b"event: problem" in last
    problem = json.loads(last.partition(b"data: ")[2])
    assert ("busy", "slow") == (problem["code"], problem["reason"])
    last_id = events[-1].partition(b"id: ")[2].partition(b"\n")[0].decode()
    taken = int(last_id.partition(":")[2])
    async with doors.sse("/Dog/1", **{"last-event-id": last_id}) as again:
        cursors = [each["cursor"] for each in await again.values(written - taken)]
    assert [doors.cursor(seq) for seq in range(taken + 1, written + 1)] == cursors


async def test_a_reader_that_was_cut_off_does_not_delay_the_end(doors):
    """The word that was left for it is given up when the server stops."""
    peer, stream, _ = await cut_off(doors)
    with peer:
        doors.edge.closing.set()
        await doors.until(lambda: stream not in doors.edge.watch._streams)


async def test_a_reader_that_was_cut_off_is_judged_no_more(doors):
    """Its subscription has ended; who may read what concerns it no longer."""
    peer, stream, _ = await cut_off(doors)
    with peer:
        doors.kernel.reauthorization.changed()
        assert stream in doors.edge.watch._streams


@pytest.mark.heavy
async def test_a_slow_reader_gets_all_that_is_logged(doors):
    """C18: the queue falls back to the log."""
    doors.reader.queue_events = 10
    async with doors.sse("/Dog/1?start=new") as stream:
        await stream.next()
        value = {"x": "y" * 20_000}
        await asyncio.gather(*[doors.write("Dog/1", value=value) for _ in range(1_000)])
        cursors = [each["cursor"] for each in await stream.values(1_000)]
    assert [doors.cursor(n) for n in range(1, 1_001)] == cursors


async def test_a_slow_reader_is_told_what_it_missed_of_what_is_not_logged(doors):
    """C18: sent = delivered + the counts of the gaps."""
    doors.reader.queue_events = 10
    async with doors.sse("/Chat/1?start=new") as stream:
        await stream.next()
        for _ in range(100):
            doors.kernel.submit(_message("Chat/1"), doors.caller)
        events = await stream.next(11)
    assert [None] * 10 + ["gap"] == [block.get("event") for block in events]
    told = {"from": None, "to": None, "count": 90, "reason": "slow"}
    assert told == json.loads(events[-1]["data"])["gap"]


def _message(topic):
    return Event(topic, MESSAGE, b"1", "application/json")


async def test_a_stop_of_the_server_ends_streams_at_once(doors):
    async with doors.sse("/Dog/1") as stream:
        await stream.next()
        async with asyncio.timeout(PROMPT_SECONDS):
            await doors.stop()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)


@pytest.mark.slow
async def test_a_thousand_connects_and_aborts_leave_nothing(doors):
    """C26."""
    await doors.write("Dog/1")
    before = doors.counts
    request = b"GET /Dog/ HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"
    for number in range(1_000):
        reader, writer = await asyncio.open_connection("127.0.0.1", doors.port)
        writer.write(request)
        if number % 3:
            await reader.read(100)
        writer.transport.abort()
    await doors.leave_nothing(before)
    assert 0 == len(doors.server.server_state.connections)


async def test_a_stream_is_served_by_plain_asgi_too(doors):
    """Without uvicorn underneath, ``send`` is all there is."""
    sent = asyncio.Queue()
    gone = asyncio.Event()

    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http", "method": "GET", "path": "/Dog/1", "raw_path": b"/Dog/1",
        "query_string": b"", "headers": [(b"accept", b"text/event-stream")], "client": None,
    }  # fmt: skip
    await doors.write("Dog/1")
    serving = asyncio.create_task(doors.edge(scope, receive, sent.put))
    start = await sent.get()
    body = b""
    while b"event: current" not in body:
        body += (await sent.get())["body"]
    gone.set()
    await serving
    assert 200 == start["status"]
    assert body.index(b"retry: ") < body.index(b'"snapshot"')


class StuckPeer:
    """Plain ASGI whose peer takes a few messages and then no more."""

    def __init__(self, takes):
        self.takes = takes
        self.sent = []
        self.stuck = asyncio.Event()
        self.scope = {
            "type": "http", "method": "GET", "path": "/Dog/1", "raw_path": b"/Dog/1",
            "query_string": b"", "headers": [(b"accept", b"text/event-stream")], "client": None,
        }  # fmt: skip

    async def receive(self):
        """Bring nothing, ever."""
        await asyncio.Event().wait()

    async def send(self, message):
        """Take a message, or wait for ever."""
        if len(self.sent) == self.takes:
            self.stuck.set()
            await asyncio.Event().wait()
        self.sent.append(message)


@pytest.mark.parametrize("doors", [{"stream_send_seconds": 0}], indirect=True)
async def test_a_reader_that_stops_is_given_up_where_it_cannot_be_cut(doors):
    """C26."""
    peer = StuckPeer(takes=3)
    serving = asyncio.create_task(doors.edge(peer.scope, peer.receive, peer.send))
    await doors.until(lambda: len(peer.sent) == 3)
    await doors.write("Dog/1")
    await peer.stuck.wait()
    (stream,) = doors.edge.watch._streams
    stream.look(asyncio.get_running_loop().time() + 1)
    await serving
    assert (0, 0) == (len(doors.edge.watch), doors.kernel.bus.subscriptions)


async def test_a_stop_of_the_server_does_not_wait_for_a_reader_that_stopped(doors):
    peer = StuckPeer(takes=3)
    serving = asyncio.create_task(doors.edge(peer.scope, peer.receive, peer.send))
    await doors.until(lambda: len(peer.sent) == 3)
    await doors.write("Dog/1")
    await peer.stuck.wait()
    async with asyncio.timeout(PROMPT_SECONDS):
        doors.edge.closing.set()
        await serving
    assert 0 == len(doors.edge.watch)


async def test_a_server_that_tears_a_stream_down_may_do_so(doors):
    peer = StuckPeer(takes=3)
    serving = asyncio.create_task(doors.edge(peer.scope, peer.receive, peer.send))
    await doors.until(lambda: len(peer.sent) == 3)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert (0, 0) == (len(doors.edge.watch), doors.kernel.bus.subscriptions)


async def test_a_stream_that_begins_while_the_server_stops_ends_at_once(doors):
    doors.edge.closing.set()
    peer = StuckPeer(takes=9)
    async with asyncio.timeout(PROMPT_SECONDS):
        await doors.edge(peer.scope, peer.receive, peer.send)
    assert b"" == peer.sent[-1]["body"]


@pytest.mark.parametrize("door", ["sse", "ws"])
async def test_streams_that_come_together_are_opened_one_in_a_turn(doors, door):
    """C26: a crowd that opens streams does not stop others meanwhile."""
    doors.edge.stream_turns = turns = OneByOne()
    open_one = {"sse": doors.sse, "ws": doors.ws}[door]

    async def read(until):
        async with open_one("/Dog/1"):
            await until.wait()

    over = asyncio.Event()
    readers = [asyncio.create_task(read(over)) for _ in range(3)]
    await doors.until(lambda: len(turns.waiting) == 3)
    for opened, turn in enumerate(turns.waiting):
        assert opened == len(doors.edge.watch)
        turn.set_result(None)
        await doors.until(lambda count=opened + 1: len(doors.edge.watch) == count)
    over.set()
    await asyncio.gather(*readers)
