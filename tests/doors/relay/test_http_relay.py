"""Requests and sockets that a node passes on: what the other node sees, and what may go wrong."""

import asyncio

import pytest
from websockets.frames import CloseCode
from websockets.protocol import State
from websockets.server import ServerProtocol

from rowcast.core.errors import Code, Error
from rowcast.doors.relay import requests, sockets
from rowcast.net.relay import HTTP
from serving import until


class Node:
    """The other node: it answers what it is told to, and keeps what it gets."""

    def __init__(self, *answers, wait=b"\r\n\r\n", then=b""):
        self.answers, self.wait, self.then = answers, wait, then
        self.got, self.clients, self.writers = b"", [], []
        self.ended = asyncio.Event()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for writer in self.writers:
            writer.close()
        await self.server.wait_closed()

    async def serve(self, reader, writer):
        self.writers.append(writer)
        while self.wait not in self.got and (data := await reader.read(65_536)):
            self.got += data
        for answer in self.answers:
            writer.write(answer)
            await writer.drain()
            while self.then not in self.got and (data := await reader.read(65_536)):
                self.got += data
        if self.answers:
            writer.close()
        while data := await reader.read(65_536):
            self.got += data
        self.ended.set()

    async def open(self, client, protocol, _seconds):
        self.clients.append(client)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", self.port)
        return transport


class Asgi:
    """A client of this node, as uvicorn shows it."""

    def __init__(self, method="GET", path="/room/1", headers=(), body=(), stays=True, **scope):
        self.scope = {
            "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(b"host", b"x"), *headers], "client": ("203.0.113.7", 4711),
            "scheme": "http", "type": "http",
        } | scope  # fmt: skip
        self.body, self.stays, self.sent = list(body), stays, []
        self.closing = asyncio.Event()
        self.parts = self.scope, self.receive, self.send, self.closing

    async def receive(self):
        if self.body:
            return self.body.pop(0)
        if self.stays:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)

    async def ask(self, node):
        await requests.pass_on(node.open, *self.parts)
        return self.sent

    @property
    def answer(self):
        """The body that was sent."""
        return b"".join(message.get("body", b"") for message in self.sent)


def part(data=b"", more=False):
    return {"type": "http.request", "body": data, "more_body": more}


OK = b'HTTP/1.1 200 OK\r\ncontent-length: 2\r\nETag: "1"\r\nconnection: close\r\n\r\nok'


async def test_a_request_arrives_as_it_was_but_for_proxies_and_the_connection():
    headers = [
        (b"x-forwarded-for", b"1.1.1.1"), (b"via", b"p"), (b"connection", b"keep-alive"),
        (b"authorization", b"Basic eDp5"), (b"content-length", b"4"), (b"expect", b"100-continue"),
    ]  # fmt: skip
    client = Asgi("PUT", "/room/%C3%A4", headers, [part(b"ab", True), part(b"cd")],
                  query_string=b"a=b", scheme="https")  # fmt: skip
    async with Node(OK, wait=b"cd") as node:
        sent = await client.ask(node)
    assert node.got == (
        b"PUT /room/%C3%A4?a=b HTTP/1.1\r\nhost: x\r\nauthorization: Basic eDp5\r\n"
        b"content-length: 4\r\n\r\nabcd"
    )
    assert sent[0]["status"] == 200
    assert sent[0]["headers"] == [(b"content-length", b"2"), (b"etag", b'"1"')]
    assert client.answer == b"ok"
    (told,) = node.clients
    assert (told.door, told.host, told.port, told.secure) == (HTTP, "203.0.113.7", 4711, True)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "given"), [("1.0", True), ("1.1", False)])
async def test_a_request_without_a_host_is_refused_where_it_arrives(version, given):
    """HTTP/1.0 needs none, and HTTP/1.1 does: the other node decides about the one it gets."""
    client = Asgi("GET", "/r", http_version=version)
    client.scope["headers"] = []
    async with Node(OK, wait=b"\r\n\r\n") as node:
        await client.ask(node)
    assert given is (b"host: \r\n" in node.got)


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_a_body_of_unknown_length_stays_one():
    chunked = [(b"transfer-encoding", b"chunked")]
    client = Asgi("PUT", "/r", chunked, [part(b"a" * 17, True), part(b"", True), part()])
    async with Node(CONTINUE, OK, then=b"0\r\n\r\n") as node:
        await client.ask(node)
    assert b"expect: 100-continue" in node.got
    assert node.got.endswith(b"\r\n\r\n11\r\n" + b"a" * 17 + b"\r\n0\r\n\r\n")


async def test_a_large_body_is_not_sent_to_a_node_that_refuses_it():
    """What is sent after an answer and its end may cost the answer."""
    sized = [(b"content-length", b"40000000")]
    client = Asgi("PUT", "/r", sized, [part(b"a" * 1000, True)])
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    async with Node(refusal) as node:
        await client.ask(node)
    assert client.sent[0]["status"] == 413
    assert b"aaa" not in node.got


class Wire(asyncio.Transport):
    """The way to a node that answers at the end of what is written first, and closes."""

    def __init__(self, protocol, answer):
        super().__init__()
        self.written, self.protocol, self.answer, self.closed = [], protocol, answer, False
        protocol.connection_made(self)

    def write(self, data):
        self.written.append(data)
        if self.answer:
            self.protocol.data_received(self.answer)
            self.protocol.eof_received()
            self.answer = b""

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True


async def told(*parts, gather_seconds=60.0):
    """Return what a node is written of a body of four bytes that comes in parts."""
    wires = []

    async def open_far(_client, protocol, _seconds):
        wires.append(Wire(protocol, OK))
        return wires[0]

    client = Asgi("PUT", "/r", [(b"content-length", b"4")], parts)
    await requests.pass_on(open_far, *client.parts, gather_seconds)
    assert client.answer == b"ok"
    return wires[0].written


STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n8\r\ndata: 1\n\r\n"
)


async def test_a_stream_ends_when_this_node_stops():
    """Its reader is elsewhere then; as it never ends by itself, it would hold up the stop."""
    client = Asgi()
    async with Node(STREAM, then=b"never") as node:
        asking = asyncio.create_task(client.ask(node))
        await until(lambda: client.answer)
        client.closing.set()
        sent = await asking
        await node.ended.wait()
    assert client.answer == b"data: 1\n"
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_another_answer_is_finished_while_this_node_stops():
    (client := Asgi()).closing.set()
    async with Node(OK) as node:
        await client.ask(node)
    assert client.answer == b"ok"


HEAD = b"PUT /r HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n"


async def test_a_small_body_goes_with_its_headers():
    """A node that refuses the headers closes, and what is sent then may cost the answer."""
    assert await told(part(b"ab", True), part(b"", True), part(b"cd")) == [HEAD + b"abcd"]


async def test_a_body_that_does_not_come_is_not_waited_for():
    assert await told(part(b"ab", True), gather_seconds=0.01) == [HEAD + b"ab"]


@pytest.mark.parametrize(
    ("answers", "method", "status", "body"),
    [
        ([b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n", OK], "GET", 200, b"ok"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" + OK], "PUT", 200, b"ok"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"], "HEAD", 200, b""),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], "DELETE", 204, b""),
        ([b"HTTP/1.1 304 Not Modified\r\netag: a\r\n\r\n"], "GET", 304, b""),
        (
            [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n", b"0\r\n\r\n"],
            "GET", 200, b"a",
        ),
        ([b"HTTP/1.1 200 OK\r\n\r\nuntil the end"], "GET", 200, b"until the end"),
        ([b"HTTP/1.1 200", b" OK\r\ncontent-", b"length: 1\r\n\r", b"\na"], "GET", 200, b"a"),
    ],
    ids=["103", "100", "head", "204", "304", "chunked", "until the end", "in pieces"],
)  # fmt: skip
async def test_all_kinds_of_answers(answers, method, status, body):
    client = Asgi(method, body=[part()])
    async with Node(*answers) as node:
        await client.ask(node)
    starts = [one["status"] for one in client.sent if one["type"] == "http.response.start"]
    assert starts == [status]
    assert client.answer == body
    assert client.sent[-1].get("more_body") is False


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 O", b"SMTP ready\r\n"])
async def test_a_node_that_dies_before_its_answer_is_told(answer):
    async with Node(answer or b"\r\n") as node:
        with pytest.raises(Error) as caught:
            await Asgi(body=[part()]).ask(node)
    assert caught.value.code is Code.BUSY


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
)
async def test_an_answer_that_is_cut_short_is_not_told_as_whole(answer):
    """A list that ends early would otherwise look like all there is."""
    client = Asgi(body=[part()])
    async with Node(answer) as node:
        await client.ask(node)
    assert client.answer == b"half"
    assert all(one.get("more_body", True) for one in client.sent)


async def test_a_client_that_leaves_ends_the_request_there():
    client = Asgi(body=[part()], stays=False)
    async with Node() as node:
        await client.ask(node)
        await node.ended.wait()
    assert client.sent == []


async def test_without_a_node_nothing_is_sent():
    async def nobody(*_):
        raise Error(Code.BUSY, "none")

    client = Asgi(body=[part()])
    with pytest.raises(Error, match="none"):
        await requests.pass_on(nobody, *client.parts)
    with pytest.raises(Error, match="none"):
        await sockets.pass_on(nobody, client.scope, client.receive, client.send)


async def test_a_node_that_hangs_does_not_hold_a_socket_for_ever():
    client = AsgiSocket()
    async with Node(wait=b"never") as node:
        with pytest.raises(Error) as caught:
            await sockets.pass_on(node.open, client.scope, client.receive, client.send, 0.01)
    assert caught.value.code is Code.BUSY


# -- sockets ---------------------------------------------------------------------------------------


class SocketNode(Node):
    """The other node, which echoes messages, and closes when it is told to."""

    def __init__(self, refuses=False, dies=False):
        super().__init__()
        self.refuses, self.dies = refuses, dies
        self.got, self.close = [], None
        self.reads = asyncio.Event()
        """Whether it reads more than the handshake."""
        self.reads.set()

    async def serve(self, reader, writer):
        self.writers.append(writer)
        protocol = ServerProtocol(subprotocols=["rowcast.cbor"])
        while data := await reader.read(65_536):
            protocol.receive_data(data)
            for event in protocol.events_received():
                self.take(protocol, event, writer)
            self.close = protocol.close_rcvd
            for out in protocol.data_to_send():
                writer.write(out)
            await self.reads.wait()
        self.ended.set()

    def take(self, protocol, event, writer):
        if hasattr(event, "path"):
            self.request = event
            if self.refuses:
                protocol.send_response(protocol.reject(403, "no"))
                return
            response = protocol.accept(event)
            response.headers["Rowcast-Position"] = "p"
            protocol.send_response(response)
            protocol.send_text(b"first")
        elif event.data == b"end":
            protocol.send_close(4403, "no more")
        elif event.data == b"die":
            writer.transport.abort()
        elif event.data == b"parts":
            protocol.send_binary(b"a", fin=False)
            protocol.send_ping(b"")
            protocol.send_continuation(b"b", fin=True)
        elif event.opcode == 1:
            self.got.append(event.data)
            if protocol.state is State.OPEN:
                protocol.send_text(event.data)
        elif event.opcode == 2:
            protocol.send_binary(event.data)


class AsgiSocket(Asgi):
    """A WebSocket of this node."""

    def __init__(self, *messages, **scope):
        headers = [
            (b"cookie", b"a=b"),
            (b"sec-websocket-key", b"own"),
            (b"origin", b"http://localhost"),
        ]
        super().__init__("GET", "/", headers, query_string=b"since=1", type="websocket",
                         subprotocols=["rowcast.cbor"], scheme="wss", **scope)  # fmt: skip
        self.messages = asyncio.Queue()
        self.messages.put_nowait({"type": "websocket.connect"})
        for message in messages:
            self.say(message)

    def say(self, message):
        kind = "text" if isinstance(message, str) else "bytes"
        self.messages.put_nowait({"type": "websocket.receive", kind: message})

    async def receive(self):
        return await self.messages.get()

    async def run(self, node):
        await sockets.pass_on(node.open, self.scope, self.receive, self.send)


async def test_a_socket_is_passed_on_with_its_messages_and_its_end():
    client = AsgiSocket("text", b"binary", "parts", "end")
    async with SocketNode() as node:
        await client.run(node)
    assert client.sent == [
        {
            "type": "websocket.accept", "subprotocol": "rowcast.cbor",
            "headers": [(b"rowcast-position", b"p")],
        },
        {"type": "websocket.send", "text": "first"},
        {"type": "websocket.send", "text": "text"},
        {"type": "websocket.send", "bytes": b"binary"},
        {"type": "websocket.send", "bytes": b"ab"},
        {"type": "websocket.close", "code": 4403, "reason": "no more"},
    ]  # fmt: skip
    asked = node.request
    assert asked.path == "/?since=1"
    assert (asked.headers["Host"], asked.headers["Cookie"]) == ("x", "a=b")
    assert asked.headers["Sec-WebSocket-Key"] != "own"
    assert asked.headers["Origin"] == "http://localhost"
    assert node.clients[0].secure


@pytest.mark.parametrize(("code", "told"), [(1000, 1000), (4000, 4000), (1006, 1001), (1005, 1001)])
async def test_the_end_of_a_client_arrives(code, told):
    client = AsgiSocket("text")
    async with SocketNode() as node:
        running = asyncio.create_task(client.run(node))
        await until(lambda: len(client.sent) == 3)
        client.messages.put_nowait({"type": "websocket.disconnect", "code": code})
        await running
        await node.ended.wait()
    assert node.close.code == told


async def test_a_close_without_a_code_arrives_as_one():
    """A browser's ``close()``: with a code of another kind the client's will would be written."""
    client = AsgiSocket()
    client.messages.put_nowait({"type": "websocket.disconnect", "code": 1005, "reason": ""})
    async with SocketNode() as node:
        await client.run(node)
        await node.ended.wait()
    assert node.close.code == CloseCode.NO_STATUS_RCVD


async def test_what_a_client_sent_before_it_left_is_passed_on():
    """The answer to a command finds the client gone, while others are not passed on yet."""
    client = AsgiSocket("one")
    send = client.send

    async def refuse(message):
        await send(message)
        if message["type"] == "websocket.send":
            raise OSError("it has gone")

    client.send = refuse
    async with SocketNode() as node:
        running = asyncio.create_task(client.run(node))
        await until(lambda: len(client.sent) >= 2)
        client.say("two")
        client.messages.put_nowait({"type": "websocket.disconnect", "code": 1000, "reason": ""})
        await running
        await node.ended.wait()
    assert node.got == [b"one", b"two"]
    assert node.close.code == 1000


async def test_a_connection_ends_once_the_other_node_has_read_all_of_it():
    """Who ends it with answers that nobody has read takes away what is not read there."""
    client = AsgiSocket("text")
    async with SocketNode() as node:
        node.reads.clear()
        running = asyncio.create_task(client.run(node))
        await until(client.messages.empty)
        client.messages.put_nowait({"type": "websocket.disconnect", "code": 1000, "reason": ""})
        await until(client.messages.empty)
        node.reads.set()
        await running
        assert node.close is not None


async def test_a_node_that_hangs_does_not_hold_a_client_that_left():
    client = AsgiSocket()
    client.messages.put_nowait({"type": "websocket.disconnect", "code": 1000, "reason": ""})
    async with SocketNode() as node, asyncio.timeout(20):
        node.reads.clear()
        await sockets.pass_on(
            node.open, client.scope, client.receive, client.send, close_seconds=0.01
        )
        node.reads.set()


async def test_a_refused_handshake_is_refused_alike():
    client = AsgiSocket()
    async with SocketNode(refuses=True) as node:
        with pytest.raises(sockets.Refused) as caught:
            await client.run(node)
    assert caught.value.status == 403
    assert client.sent == []


async def test_a_socket_whose_node_dies_is_told_to_connect_again():
    client = AsgiSocket("die")
    async with SocketNode() as node:
        await client.run(node)
    assert client.sent[-1]["code"] == CloseCode.SERVICE_RESTART


async def test_a_node_that_is_none_accepts_nothing():
    async with Node(b"HTTP/1.1 200 OK\r\n\r\n") as node:
        with pytest.raises((Error, sockets.Refused)):
            await AsgiSocket().run(node)
    async with Node(b"HTTP/1.1 101 Switching Protocols\r\n\r\n") as node:
        with pytest.raises(Error, match="does not accept"):
            await AsgiSocket().run(node)
    async with Node(b"HTTP") as node:
        with pytest.raises(Error):
            await AsgiSocket().run(node)
