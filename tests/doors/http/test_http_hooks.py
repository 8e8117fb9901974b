"""Hooks and listeners on REST, SSE and WebSocket (X2, G4-G8, G17-G19)."""

import json

import pytest
from websockets.exceptions import ConnectionClosed

from http_server import STREAM, HttpServer, ask, hear, say
from rowcast.codecs import decode
from rowcast.core.errors import Code, Error
from rowcast.features.hooks.hook import DROP, Hook, Refusal
from rowcast.features.hooks.hooks import HAPPENINGS, Hooks
from rowcast.routes.resource import Resource


def listening():
    """Return hooks that note everything that happens, and the notes."""
    hooks, heard = Hooks(), []

    def note(name):
        def noting(first, second):
            if isinstance(first, list):
                first = getattr(first[0], "topics", first[0])
                first = getattr(first, "text", first)
            heard.append((name, getattr(first, "door", None) or getattr(first, "topic", first)))
            seconds.append(second)

        return noting

    seconds = []
    for name in HAPPENINGS:
        hooks.on(name, note(name))
    return hooks, heard, seconds


async def test_x2_a_websocket_tells_of_all_that_happens():
    hooks, heard, seconds = listening()
    async with HttpServer(hooks=hooks) as doors:
        async with doors.ws("/Dog/1") as peer:
            await hear(peer)
            await ask(peer, id=1, op="subscribe", topic="Cat/+")
            await hear(peer)
            await ask(peer, id=2, op="put", topic="u/1", value=1)
            await ask(peer, id=3, op="unsubscribe", subscription=1)
        await doors.until(lambda: "disconnected" in [name for name, _ in heard])
    assert [
        ("connection", "ws"),
        ("subscribe", "Dog/1"),
        ("connected", "ws"),
        ("subscribe", "Cat/+"),
        ("publish", "u/1"),
        ("unsubscribe", "Cat/+"),
        ("unsubscribe", "Dog/1"),
        ("disconnected", "ws"),
    ] == heard
    assert [("127.0.0.1", "ws", None)] * 3 == [
        (item.peer, item.door, item.error) for item in seconds if hasattr(item, "error")
    ]


async def test_x2_an_event_stream_tells_of_all_that_happens():
    hooks, heard, _ = listening()
    async with HttpServer(hooks=hooks) as doors:
        async with doors.sse("/Dog/1") as blocks:
            await blocks.next()
        await doors.until(lambda: "disconnected" in [name for name, _ in heard])
    assert [
        ("connection", "sse"),
        ("subscribe", "Dog/1"),
        ("connected", "sse"),
        ("unsubscribe", "Dog/1"),
        ("disconnected", "sse"),
    ] == heard


async def test_x2_rest_tells_of_writes_and_is_no_connection():
    hooks, heard, seconds = listening()
    async with HttpServer(hooks=hooks) as doors:
        await doors.http.put("/u/1", content=b"1")
        await doors.http.get("/u/1")
        await doors.http.delete("/u/1")
        await doors.http.post("/u/1?retain=false", content=b"1")
    assert [("publish", "u/1")] * 3 == heard
    assert ["http"] * 3 == [caller.door for caller in seconds]


async def test_g3_the_listener_is_told_why_the_server_ended_a_connection():
    hooks, _, seconds = listening()
    async with HttpServer(hooks=hooks) as doors, doors.ws("/Dog/1") as peer:
        await hear(peer)
        await doors.stop()
        with pytest.raises(ConnectionClosed):
            await peer.recv()
    assert seconds[-1].error.startswith("the server stops; come back in ")


async def test_g3_a_resources_own_stream_is_a_connection_too():
    hooks, heard, _ = listening()

    class Short(Resource):
        async def connect(self, incoming=None):
            yield "hi"

    async with HttpServer(hooks=hooks, resources=[Short]) as doors:
        async with doors.ws("/Short") as peer:
            assert "hi" == (await hear(peer))[0]
            with pytest.raises(ConnectionClosed):
                await peer.recv()
        await doors.http.get("/Short", headers=STREAM)
        await doors.until(lambda: 2 == len([1 for name, _ in heard if name == "disconnected"]))
    names = ["connection", "connected", "disconnected"]
    assert [(name, door) for door in ("ws", "sse") for name in names] == heard


class Doorman(Hook):
    """Lets nobody in by WebSocket; refuses, drops and hides by topic."""

    async def on_connect(self, caller, packet):
        assert packet is None
        if caller.door == "ws":
            raise Refusal(0x8A, "no WebSockets today")
        if caller.door == "sse":
            raise Refusal(0x97, "too many streams", rate=True)

    def on_publish(self, caller, event):
        if "full" in event.topic:
            raise Error(Code.BUSY, "slow down", rate=True)
        if "broken" in event.topic:
            raise ZeroDivisionError
        if "locked" in event.topic:
            raise Error(Code.DENIED, "it is locked")

    def on_publish_received(self, caller, event):
        return DROP if "noise" in event.topic else None

    def can_read(self, caller, topic):
        return "hidden" not in topic


class Letting(Doorman):
    """The same, and lets everybody in."""

    async def on_connect(self, caller, packet):
        """Come in."""


async def test_g2_a_connection_is_refused_with_the_hooks_reason():
    hooks = Hooks()
    hooks.add(Doorman())
    async with HttpServer(hooks=hooks) as doors:
        answer = await doors.http.get("/Dog/1", headers=STREAM)
        assert (429, "too many streams") == (answer.status_code, answer.json()["detail"])
        async with doors.ws("/Dog/1") as peer:
            with pytest.raises(ConnectionClosed) as caught:
                await peer.recv()
        assert (4403, "no WebSockets today") == (caught.value.rcvd.code, caught.value.rcvd.reason)
        assert 0 == doors.kernel.bus.subscriptions


@pytest.mark.parametrize(
    ("path", "status"),
    [("/u/full", 429), ("/u/broken", 500), ("/u/locked", 403), ("/u/noise", 204), ("/u/1", 204)],
)
async def test_g5_g7_a_write_over_rest_gets_the_hooks_answer(path, status):
    hooks = Hooks()
    hooks.add(Doorman())
    async with HttpServer(hooks=hooks) as doors:
        await doors.http.put("/u/1", content=b"1")
        answer = await doors.http.put(path, content=b"1")
        assert status == answer.status_code
        assert (404 if path != "/u/1" else 200) == (await doors.http.get(path)).status_code


async def test_g6_what_is_hidden_is_in_no_answer():
    hooks = Hooks()
    hooks.add(Letting())
    async with HttpServer(hooks=hooks) as doors:
        for name in ("rex", "hidden", "max"):
            await doors.write(f"Dog/{name}", value={"name": name})
        assert 403 == (await doors.http.get("/Dog/hidden")).status_code
        assert 200 == (await doors.http.get("/Dog/rex")).status_code
        listed = await doors.http.get("/Dog/")
        assert ["max", "rex"] == sorted(row["name"] for row in listed.json())
        packed = await doors.http.get("/Dog/", headers={"accept": "application/x-msgpack"})
        assert 2 == len(decode(packed.content, "application/x-msgpack"))
        assert {"count": 2} == (await doors.http.get("/Dog/?count")).json()
        async with doors.sse("/Dog/") as blocks:
            told = await blocks.values(3)
        assert ["", "Dog/max", "Dog/rex"] == sorted(item.get("topic") or "" for item in told)


async def test_g6_a_resources_own_get_is_asked_about_on_both_doors():
    class Hidden(Resource):
        path = "hidden"

        async def get(self, query=None):
            return "the secret"

    hooks = Hooks()
    hooks.add(Letting())
    async with HttpServer(hooks=hooks, resources=[Hidden]) as doors:
        assert 403 == (await doors.http.get("/hidden")).status_code
        async with doors.ws("/") as peer:
            answer = await ask(peer, id=1, op="get", topic="hidden")
            assert "denied" == answer["error"]["code"]


async def test_g8_each_websocket_gets_what_its_hooks_made_of_it():
    class Stamp(Hook):
        def on_publish_deliver(self, caller, event):
            if caller.door == "ws":
                return event.changed(payload=json.dumps(f"for {caller.door}").encode())
            return None

    hooks = Hooks()
    hooks.add(Stamp())
    async with (
        HttpServer(hooks=hooks) as doors,
        doors.ws("/u/1?start=new") as peer,
        doors.sse("/u/1?start=new") as blocks,
    ):
        await hear(peer)
        await blocks.next()
        await doors.http.put("/u/1", content=b"1", headers={"content-type": "application/json"})
        assert ["for ws"] == [item["value"] for item in await hear(peer)]
        assert [1] == [item["value"] for item in await blocks.values()]


async def test_g4_a_refused_command_costs_a_socket_nothing():
    class Usher(Hook):
        def on_subscribe(self, caller, interest):
            if interest.topics.text == "Cat/#":
                raise Error(Code.DENIED, "no cats")
            interest.qos = 0

    hooks = Hooks()
    hooks.add(Usher())
    async with HttpServer(hooks=hooks) as doors, doors.ws("/Dog/1") as peer:
        await hear(peer)
        answer = await ask(peer, id=1, op="subscribe", topic="Cat/#")
        assert ("denied", "no cats") == (answer["error"]["code"], answer["error"]["detail"])
        await say(peer, id=2, op="ping")
        assert 2 == (await hear(peer))[0]["ack"]


async def test_g10_a_value_that_a_hook_keeps_is_read_by_get():
    """X20: it has a validator of its own, because it has no number."""

    class Cellar(Hook):
        def __init__(self):
            self.values = {}

        def store_retained(self, topic, event):
            self.values[topic] = event
            return True

        def get_retained(self, text):
            return [self.values[text]] if text in self.values else []

    hooks = Hooks()
    hooks.add(Cellar())
    async with HttpServer(hooks=hooks) as doors:
        as_json = {"content-type": "application/json"}
        assert (await doors.http.put("/u/1", content=b"[1]", headers=as_json)).is_success
        first = await doors.http.get("/u/1")
        assert ([1], 200) == (first.json(), first.status_code)
        same = await doors.http.get("/u/1", headers={"if-none-match": first.headers["etag"]})
        assert 304 == same.status_code
        await doors.http.put("/u/1", content=b"[2]", headers=as_json)
        other = await doors.http.get("/u/1", headers={"if-none-match": first.headers["etag"]})
        assert ([2], 200) == (other.json(), other.status_code)
        async with doors.sse("/u/1") as blocks:
            assert [("snapshot", [2])] == [
                (item["kind"], item["value"]) for item in await blocks.values()
            ]
        assert (await doors.http.delete("/u/1")).is_success
        assert 0 == doors.store.count(None)


async def test_g5_a_resources_own_post_is_authorised():
    """What it writes has no event of its own, so it is asked about as a message at its path."""
    posted = []

    class Locked(Resource):
        path = "locked"

        async def post(self, value):
            posted.append(value)

    class Free(Locked):
        path = "free"

    hooks = Hooks()
    hooks.add(Letting())
    async with HttpServer(hooks=hooks, resources=[Locked, Free]) as doors:
        statuses = [
            (await doors.http.post(f"/{path}", json=1)).status_code for path in ("locked", "free")
        ]
    assert ([403, 204], [1]) == (statuses, posted)
