"""Wills of WebSocket clients (C21)."""

import asyncio
import threading

import pytest

from build import turns
from http_server import HttpServer, ask, say
from rowcast.core.callers import ALL, NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.websocket_wills.feature import WillsOfWebSockets
from rowcast.features.websocket_wills.wills import OWNER, WebSocketWills
from rowcast.routes.resource import Resource
from serving import PATIENCE_SECONDS

AWAY = {"op": "will", "topic": "Chat/ann", "value": {"here": False}, "retain": True}
ANN = Caller("ann", ALL, "ws")


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        install(running)
        yield running


def install(doors):
    feature = WillsOfWebSockets()
    feature.install(doors.kernel)
    return feature


def stored(doors):
    """Return the keys of the wills on disk."""
    return [name for _, name, _ in doors.store.states(OWNER)]


class Lamp(Resource):
    """A class that writes elsewhere."""

    async def put(self, value):
        """Write what it was sent."""
        await self.kernel.write_value("Lit/1", PUT, value, self.caller)


class Listener:
    """Notes the topics and payloads of logged events."""

    def __init__(self):
        self.found = []

    def offer(self, event):
        if event.seq:
            self.found.append((event.topic, event.payload))

    def show(self, event, path):
        """Hear nothing of system rows."""


@pytest.fixture
def heard(doors):
    listener = Listener()
    doors.bus.add(TopicFilter("#"), listener)
    return listener.found


async def settled(doors):
    """Wait until no connection has a will."""
    wills = doors.kernel.service(WebSocketWills)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(wills) or stored(doors):
            await turns(3)
        await doors.kernel.committer.settle()  # what is stored is announced


async def test_a_will_is_written_when_the_connection_is_lost(doors, heard):
    async with doors.ws() as peer:
        assert (await ask(peer, id=1, **AWAY)) == {"ack": 1}
        assert 1 == len(stored(doors))
        peer.transport.abort()
    await settled(doors)
    assert [("Chat/ann", b'{"here":false}')] == heard


@pytest.mark.parametrize(
    ("code", "is_written"), [(1000, False), (1001, True), (4000, True), (None, False)]
)
async def test_how_a_client_closes_decides(doors, heard, code, is_written):
    """1000 is a normal closure; a page that is left says 1001 (RFC 6455, 7.4.1)."""
    async with doors.ws() as peer:
        await ask(peer, id=1, **AWAY)
        if code is None:  # as close() of a browser: a close frame without a code
            peer.transport.write(bytes([0x88, 0x80, 0, 0, 0, 0]))
            await peer.wait_closed()
        else:
            await peer.close(code)
    await settled(doors)
    assert is_written == bool(heard)


async def test_a_normal_close_counts_also_behind_what_waits_for_the_disk(doors, heard):
    """An answer finds nobody any more before the close is read."""
    go_on = threading.Event()
    async with doors.ws() as peer:
        await ask(peer, id=1, **AWAY)
        doors.writer.submit(go_on.wait)
        for number in range(3):
            await say(peer, id=2, op="put", topic=f"Dog/{number}", value={})
            await say(peer, id=3, op="get", topic=f"Dog/{number}")
        peer.transport.write(bytes([0x88, 0x80, 0, 0, 0, 0]))
        go_on.set()
        await peer.wait_closed()
    await settled(doors)
    assert ["Dog/0", "Dog/1", "Dog/2"] == [topic for topic, _ in heard]


async def test_another_will_takes_its_place_and_it_can_be_removed(doors, heard):
    async with doors.ws() as peer, doors.ws() as other:
        await ask(peer, id=1, **AWAY)
        await ask(peer, id=2, **AWAY | {"topic": "Chat/two"})
        await ask(other, id=1, **AWAY | {"topic": "Chat/none"})
        assert (await ask(other, id=2, op="will")) == {"ack": 2}
        peer.transport.abort()
        other.transport.abort()
    await settled(doors)
    assert ["Chat/two"] == [topic for topic, _ in heard]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"topic": "Chat/1"}, "will takes a topic, a value, and retain"),
        ({"topic": "Chat/1", "value": 1, "retain": "yes"}, "retain, which is true or false"),
        ({"topic": "Chat/+", "value": 1}, "wildcard"),
        ({"topic": 5, "value": 1}, "topic is text"),
        ({"topic": "Sensor/1", "value": {"at": "noon"}, "retain": True}, 'at: "noon" is not a'),
        ({"topic": "Sensor/1", "value": {"at": "noon"}}, 'at: "noon" is not a'),
        ({"topic": "Dog", "value": {}, "retain": True}, "name a record"),
    ],
)
async def test_a_will_that_is_none_is_refused_at_once(doors, fields, says):
    async with doors.ws() as peer:
        answer = await ask(peer, id=1, op="will", **fields)
        assert says in answer["error"]["detail"]
        peer.transport.abort()
    await settled(doors)


async def test_a_will_is_judged_by_a_class_when_it_is_written():
    """It is not carried out when it is set."""
    async with HttpServer(resources=[Lamp]) as doors:
        install(doors)
        listener = Listener()
        doors.bus.add(TopicFilter("#"), listener)
        async with doors.ws() as peer:
            will = {"op": "will", "topic": "Lamp/1", "value": {}, "retain": True}
            assert {"ack": 1} == await ask(peer, id=1, **will)
            assert [] == listener.found
            peer.transport.abort()
        await settled(doors)
        assert ["Lit/1"] == [topic for topic, _ in listener.found]


async def test_a_will_is_not_written_for_who_may_not_write(doors, heard):
    """The rights are those of the time when it is written."""
    wills = doors.kernel.service(WebSocketWills)
    event = Event("Chat/ann", PUT, b"1", "application/json", 1, True)
    key = await wills.put("", event, Caller("ann", NONE, "ws"))
    wills.lost(key)
    await settled(doors)
    assert [] == heard


async def test_a_will_is_not_written_for_who_is_disabled_meanwhile(doors, heard):
    """L8."""
    wills = doors.kernel.service(WebSocketWills)
    event = Event("Chat/ann", PUT, b"1", "application/json", 1, True)
    key = await wills.put("", event, Caller("ann", ALL, "ws"))

    def judge(caller):
        raise Error(Code.DENIED, f"{caller.user} is disabled")

    doors.kernel.reauthorization.judges.append(judge)
    wills.lost(key)
    await settled(doors)
    assert [] == heard


async def test_a_server_without_the_feature_says_so():
    async with HttpServer() as doors, doors.ws() as peer:
        answer = await ask(peer, id=1, **AWAY)
        assert Code.UNSUPPORTED == answer["error"]["code"]


async def test_what_a_killed_server_has_left_is_written_at_its_next_start(doors, heard):
    """As a message, or as a record, with the rights of who left it."""
    wills = doors.kernel.service(WebSocketWills)
    for kind, topic in ((PUT, "Chat/kept"), (MESSAGE, "Dog/said")):
        event = Event(topic, kind, b"1", "application/json", 1, kind == PUT)
        await wills.put("", event, ANN)
    later = install(doors)
    later.wills.restore(doors.store.states(OWNER))
    await later.start()
    await settled(doors)
    assert [("Chat/kept", b"1"), ("Dog/said", b"1")] == sorted(heard)


async def test_a_connection_that_ends_before_the_answer_leaves_nothing(doors):
    async with doors.ws() as peer:
        await say(peer, id=1, **AWAY)
        peer.transport.abort()
    await settled(doors)


async def test_a_connection_that_ends_while_its_will_is_replaced_has_the_former_one(doors, heard):
    """Also after a restart, where the server stops at that moment."""
    wills = doors.kernel.service(WebSocketWills)
    first = Event("Chat/ann", PUT, b"1", "application/json", 1, True)
    key = await wills.put("", first, ANN)
    go_on = threading.Event()
    doors.writer.submit(go_on.wait)
    second = Event("Chat/ann", PUT, b"2", "application/json", 1, True)
    replacing = asyncio.create_task(wills.put(key, second, ANN))
    await turns(3)
    replacing.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await replacing
    await doors.kernel.committer.settle()
    later = install(doors)
    later.wills.restore(doors.store.states(OWNER))
    await later.start()
    await settled(doors)
    assert [("Chat/ann", b"1")] == heard
