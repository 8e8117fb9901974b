"""Resources with their own ``connect``: Echo and Example (C5-C7)."""

import asyncio
import base64
import json

import pytest
from websockets.exceptions import ConnectionClosed

from http_server import STREAM, HttpServer, a_moment, ask, hear, say
from rowcast.codecs import decode, encode
from rowcast.core.errors import Code, Error
from rowcast.routes.resource import Resource, Stream
from serving import PATIENCE_SECONDS, PROMPT_SECONDS


class Echo(Resource):
    """What comes in goes out."""

    silent = "connect to it"

    async def connect(self, incoming=None):
        """Send every message back."""
        async for message in incoming:
            yield message


class Example(Resource):
    """A greeting at intervals, an echo, and a timer that must end."""

    path = "Dog"
    greetings = ()

    def connect(self, incoming=None):
        """Stream the table, greet, and echo."""
        outgoing = super().connect()

        async def greet():
            while True:
                outgoing.send({"greeting": "hi again!"})
                await a_moment()

        timer = asyncio.create_task(greet(), name="timer")
        outgoing.on("close", timer.cancel)
        if incoming is not None:
            incoming.on("data", outgoing.send)
        return outgoing


class Ticker(Resource):
    """Sends what SSE can say beyond data, and the events of a table."""

    async def connect(self, incoming=None):
        """Yield values, an event's fields and pairs."""
        yield {"n": 1}
        yield {"event": "tick", "data": {"n": 2}, "id": "x", "retry": 5}
        yield "line\nline"
        stream = await self.watched()
        async for item in stream:
            yield item

    async def watched(self):
        """Return the stream of a table."""
        kernel = self.kernel
        subscription = kernel.open_stream("Cat/", self.caller)
        return Stream(subscription, lambda: kernel.close(subscription))


class Broken(Resource):
    """Fails after one value."""

    async def connect(self, incoming=None):
        """Fail."""
        yield 1
        raise {
            "secret": ValueError("secret"),
            "exit": SystemExit("secret"),
            "told": Error(Code.CONFLICT, "told"),
        }[self.id]


class Odd(Resource):
    """Yields what no format has."""

    async def connect(self, incoming=None):
        """Yield it."""
        yield {"at": object()}


class Flood(Resource):
    """Never waits, and never ends."""

    async def connect(self, incoming=None):
        """Yield for ever."""
        while True:
            yield 1


class Deaf(Resource):
    """Has a listener that fails."""

    def connect(self, incoming=None):
        """Fail when anything is said."""
        incoming.on("data", lambda message: message["missing"])
        return super().connect()


class Finite(Resource):
    """Ends by itself."""

    async def connect(self, incoming=None):
        """Yield twice."""
        yield 1
        yield 2


class Farewell(Resource):
    """Has something to do after its client left."""

    async def connect(self, incoming=None):
        """Write when the client is gone."""
        async for message in incoming:
            yield message
        await self.kernel.write_value("Cat/left", "put", {"id": self.id}, self.caller)


class Topic(Resource):
    """Overrides ``subscribe`` alone, as a coroutine that returns what to iterate."""

    async def subscribe(self):
        """Return an iterable."""

        async def numbers():
            yield 1

        return numbers()


class Quiet(Resource):
    """Overrides nothing that streams."""

    async def get(self, query=None):
        """Return something."""
        return 1


RESOURCES = (Echo, Example, Ticker, Broken, Odd, Flood, Deaf, Finite, Farewell, Topic, Quiet)


@pytest.fixture
async def doors():
    async with HttpServer(resources=RESOURCES) as running:
        yield running


def timers():
    return [task for task in asyncio.all_tasks() if task.get_name() == "timer"]


async def gone(condition):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await a_moment()


# -- Echo and Example ------------------------------------------------------------------------------


async def test_echo(doors):
    """C5: values are sent as they are, not in an envelope."""
    async with doors.ws("/Echo") as peer:
        for message in ({"a": 1}, "text", 7, None, [1, 2]):
            await peer.send(json.dumps(message))
            assert [message] == await hear(peer)


async def test_head_has_the_headers_of_the_stream_and_connects_nobody(doors):
    async with doors.sse("/Finite") as stream:
        wanted = stream.response.headers
    answer = await doors.http.head("/Broken/secret", headers=STREAM)
    assert (answer.status_code, answer.content) == (200, b"")
    for name in ("content-type", "cache-control", "vary"):
        assert answer.headers[name] == wanted[name]


async def test_p5_a_leading_slash_names_a_resource_that_streams_itself(doors):
    async with doors.ws("//Echo") as peer:
        await peer.send(json.dumps("text"))
        assert ["text"] == await hear(peer)


@pytest.mark.parametrize("name", ["cbor", "msgpack"])
async def test_echo_in_the_format_of_the_client(doors, name):
    """C14."""
    media_type = {"cbor": "application/cbor", "msgpack": "application/x-msgpack"}[name]
    async with doors.ws(f"/Echo/1?format={name}") as peer:
        await peer.send(encode({"b": b"\0\xff"}, media_type))
        assert {"b": b"\0\xff"} == decode(await peer.recv(), media_type)


async def test_echo_of_bytes_on_a_json_socket_spells_them(doors):
    async with doors.ws("/Echo") as peer:
        await peer.send(b"\0\xff")
        assert [{"$bytes": "AP8="}] == await hear(peer)


async def test_example_greets_echoes_and_streams_its_table(doors):
    """C6."""
    async with doors.ws("/Dog/1") as peer:
        await say(peer, hello=1)
        await doors.write("Dog/1", value={"n": 1})
        heard = []
        while {"hello": 1} not in heard or "put" not in [h.get("kind") for h in heard]:
            heard += await hear(peer)
        assert {"greeting": "hi again!"} in heard
        assert 1 == len(timers())
    await gone(lambda: not timers())
    await gone(lambda: doors.kernel.bus.subscriptions == 0)


async def test_the_timer_ends_when_the_connection_breaks(doors):
    """C6."""
    async with doors.ws("/Dog/1") as peer:
        await hear(peer)
        peer.transport.abort()
        await gone(lambda: not timers())


async def test_example_over_sse_has_no_incoming_messages(doors):
    """C7."""
    async with doors.sse("/Dog/1") as stream:
        assert {"greeting": "hi again!"} in await stream.values(4)
        assert 1 == len(timers())
    await gone(lambda: not timers())
    await gone(lambda: doors.kernel.bus.subscriptions == 0)


# -- what else a resource may do -------------------------------------------------------------------


async def test_over_sse_a_resource_may_say_every_field(doors):
    """C7."""
    async with doors.sse("/Ticker") as stream:
        assert "no-cache" == stream.response.headers["cache-control"]
        assert "retry" in await anext(stream)
        blocks = await stream.next(4)
        await doors.write("Cat/1")
        blocks += await stream.next(1)
    assert {"data": '{"n":1}'} == blocks[0]
    assert {"event": "tick", "data": '{"n":2}', "id": "x", "retry": "5"} == blocks[1]
    assert {"data": '"line\\nline"'} == blocks[2]
    assert "current" == blocks[3]["event"]
    assert "put" == json.loads(blocks[4]["data"])["kind"]
    await gone(lambda: doors.kernel.bus.subscriptions == 0)


async def test_over_sse_a_value_in_cbor_is_base64(doors):
    """C15."""
    async with doors.sse("/Ticker?format=cbor") as stream:
        assert "application/cbor" == stream.response.headers["event-format"]
        (block,) = await stream.next()
    assert {"n": 1} == decode(base64.b64decode(block["data"]), "application/cbor")


async def test_a_stream_taken_from_the_table_is_freed_with_its_taker(doors):
    """C26."""
    async with doors.ws("/Ticker") as peer:
        await hear(peer, 4)
        assert 1 == doors.kernel.bus.subscriptions
    await gone(lambda: doors.kernel.bus.subscriptions == 0)


@pytest.mark.parametrize(("name", "code"), [("secret", 1011), ("exit", 1011), ("told", 4409)])
async def test_a_resource_that_fails_closes_with_its_code(doors, name, code, caplog):
    async with doors.ws(f"/Broken/{name}") as peer:
        assert [1] == await hear(peer)
        with pytest.raises(ConnectionClosed) as caught:
            await peer.recv()
    assert code == caught.value.rcvd.code
    assert ("secret" in caplog.text) == (name != "told")
    assert "secret" not in caught.value.rcvd.reason


@pytest.mark.parametrize("name", ["secret", "exit"])
async def test_a_resource_that_fails_over_sse_ends_with_a_problem(doors, caplog, name):
    async with doors.sse(f"/Broken/{name}") as stream:
        (_, problem) = await stream.next(2)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert ("problem", 500) == (problem["event"], json.loads(problem["data"])["status"])
    assert "secret" in caplog.text
    assert "ValueError" not in problem["data"]


async def test_a_resource_that_never_waits_holds_nobody_when_its_reader_has_gone(doors):
    async with doors.sse("/Flood") as stream:
        await stream.next(3)
    async with doors.ws("/Flood") as peer:
        await hear(peer)
    await gone(lambda: not len(doors.edge.watch))
    assert 200 == (await doors.http.get("/Dog/")).status_code


async def test_a_value_that_cannot_be_sent_is_a_mistake_of_the_resource(doors, caplog):
    """Its client has sent nothing that could be wrong; the log names the class and the value."""
    async with doors.ws("/Odd") as peer:
        with pytest.raises(ConnectionClosed) as caught:
            await peer.recv()
    assert 1011 == caught.value.rcvd.code
    async with doors.sse("/Odd") as stream:
        (problem,) = await stream.next()
    assert ("problem", 500) == (problem["event"], json.loads(problem["data"])["status"])
    assert 2 == caplog.text.count("the stream of 'Odd' failed")
    assert "connect gave what cannot be sent" in caplog.text


async def test_an_echo_over_sse_has_nothing_to_iterate_and_says_so(doors, caplog):
    async with doors.sse("/Echo") as stream:
        assert "problem" == (await stream.next())[0]["event"]
    assert "incident" in caplog.text


async def test_a_listener_that_fails_closes_the_connection(doors, caplog):
    async with doors.ws("/Deaf") as peer:
        await hear(peer)
        await say(peer, hello=1)
        with pytest.raises(ConnectionClosed) as caught:
            await peer.recv()
    assert 1011 == caught.value.rcvd.code
    assert "KeyError" in caplog.text


async def test_a_frame_that_cannot_be_decoded_closes_the_connection(doors):
    async with doors.ws("/Echo") as peer:
        await peer.send("{")
        with pytest.raises(ConnectionClosed) as caught:
            await peer.recv()
    assert 1007 == caught.value.rcvd.code


async def test_a_resource_that_has_no_more_to_say_closes(doors):
    async with doors.ws("/Finite") as peer:
        assert [1, 2] == await hear(peer, 2)
        with pytest.raises(ConnectionClosed) as caught:
            await peer.recv()
    assert 1000 == caught.value.rcvd.code


async def test_a_resource_that_has_no_more_to_say_ends_the_event_stream(doors):
    async with doors.sse("/Finite") as stream:
        assert ["1", "2"] == [block["data"] for block in await stream.next(2)]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_a_resource_may_finish_its_work_when_the_client_left(doors):
    async with doors.ws("/Farewell/7") as peer:
        await peer.send("1")
        await hear(peer)
    table = doors.registry.route("Cat/1").table
    await gone(lambda: doors.store.get(table, "Cat/left") is not None)


async def test_an_overridden_subscribe_is_what_a_connection_gets(doors):
    async with doors.ws("/Topic/1") as peer:
        assert [1] == await hear(peer)


async def test_a_resource_without_its_own_stream_has_that_of_its_topics(doors):
    async with doors.ws("/Quiet/1") as peer:
        assert "current" == (await hear(peer))[0]["kind"]


async def test_a_resource_that_streams_itself_is_not_subscribed_to(doors):
    async with doors.ws() as peer:
        answer = await ask(peer, id=1, op="subscribe", topic="Echo")
    assert "not_allowed" == answer["error"]["code"]
    assert "/Echo" in answer["error"]["detail"]


async def test_a_resource_that_streams_itself_is_alone_in_its_url(doors):
    answer = await doors.http.get("/Echo?topic=x", headers=STREAM)
    assert 400 == answer.status_code


async def test_a_stop_of_the_server_ends_resources_too(doors):
    async with doors.ws("/Echo") as peer, doors.sse("/Dog/1") as stream:
        await stream.next()
        async with asyncio.timeout(PROMPT_SECONDS):
            await doors.stop()
            with pytest.raises(ConnectionClosed) as caught:
                await peer.recv()
    assert 1012 == caught.value.rcvd.code
    assert [] == timers()


@pytest.mark.slow
async def test_many_connects_and_aborts_leave_nothing(doors):
    """C26."""
    async with doors.sse("/Ticker") as stream:  # sse-starlette keeps one task of its own
        await stream.next()
    await gone(lambda: len(doors.edge.watch) == 0)
    before = doors.counts
    for number in range(100):
        async with doors.ws(("/Dog/1", "/Echo", "/Ticker")[number % 3]) as peer:
            if number % 2:
                peer.transport.abort()
        reader, writer = await asyncio.open_connection("127.0.0.1", doors.port)
        url = ("/Dog/1", "/Ticker")[number % 2]
        writer.write(f"GET {url} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n".encode())
        await reader.read(100)
        writer.transport.abort()
    await doors.leave_nothing(before)
