"""Counts the Python calls of the server that one request costs, with ``sys.setprofile``.

A count does not depend on the machine, as a time would. Only functions of ``app/rowcast`` count,
on every thread, from the moment the request is sent until its answers have come. Timers of the
server may fall into a measurement, so the least of several counts is taken.
"""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from house import APP
from mqtt_server import MqttServer
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import (
    Connect,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
)
from serving import PATIENCE_SECONDS, application

ROUNDS = 20
"""How often a request is made; the least of the counts is taken."""
WARM = 50
"""Requests before the first that counts, so that what is compiled or remembered once is there."""
REPORTS = "rowcast-applier"
"""The thread that reads what the applier has written: once for each of its transactions, whatever
their number of requests, and at any time."""
TURNS = 5
"""Turns of the loop after the last answer, and after what it has begun is stored, which is counted
too."""
WAITING = ("settle", "backlog", "_wake")
"""Functions that are only called because the count waits until all is stored."""
PLAIN_VALUES = frozenset(
    {
        "log/batch.py:Batch",
        "mqtt/packets.py:Publish",
        "mqtt/packets.py:Acknowledgement",
        "writes/write.py:Receipt",
    }
)
"""Plain values whose ``__init__`` is written out, so that mypyc compiles it. One that ``dataclass``
makes belongs to no file, and is not counted; so these are not, either: counts stay comparable."""
VERSION = 5
SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String!
  breed: String @indexed
}
"""
RETAINED = Publish("Dog/1", b'{"name":"Rex","breed":"collie"}', qos=1, retain=True, packet_id=1)
PLAIN = Publish("plain/1", b"21.5", qos=0)
PUT = (
    b"PUT /Dog/1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b'Content-Length: 31\r\n\r\n{"name":"Rex","breed":"collie"}'
)
GET = b"GET /Dog/1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Calls:
    """Counts calls by function while it is open; threads begin to be watched when they start."""

    def __init__(self):
        self.by_function = Counter()
        self._on = False

    def watch_new_threads(self):
        """Let the server's threads be counted too, which it has yet to start."""
        threading.setprofile(self._note)

    def __enter__(self):
        self.by_function.clear()
        self._on = True
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_):
        self._on = False
        sys.setprofile(None)

    def close(self):
        """Watch no thread any more that is started from now on."""
        threading.setprofile(None)

    def _note(self, frame, event, _argument):
        code = frame.f_code
        if (
            self._on
            and event == "call"
            and code.co_filename.startswith(_HERE)
            and threading.current_thread().name != REPORTS
        ):
            name = f"{code.co_filename[len(_HERE) :]}:{code.co_qualname}"
            if name.removesuffix(".__init__") not in PLAIN_VALUES:
                self.by_function[name] += 1


_HERE = f"{APP}/"


class Peer:
    """A client that sends bytes and waits for what comes back."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    @classmethod
    async def mqtt(cls, port, name):
        """Connect as an MQTT client."""
        peer = cls(*await asyncio.open_connection("127.0.0.1", port))
        peer.send(encode(Connect(VERSION, name), VERSION))
        await peer.answer()
        return peer

    def send(self, data):
        self._writer.write(data)

    async def answer(self):
        """Wait for an answer, which the server writes with one call."""
        assert await asyncio.wait_for(self._reader.read(65536), PATIENCE_SECONDS)

    def close(self):
        self._writer.close()


@asynccontextmanager
async def server(folder: Path, calls: Calls, settings: Mapping[str, object] | None = None):
    """Run a server whose threads are watched."""
    calls.watch_new_threads()
    try:
        async with application(folder, SCHEMA, apart=True, settings=settings or {}) as running:
            yield running
    finally:
        calls.close()


async def count(running, calls, request, sender, listeners):
    """Return the least number of calls, and by which functions, from a request to all answers."""
    least = None
    for round_ in range(WARM + ROUNDS):
        with calls:
            sender.send(request)
            for peer in listeners:
                await peer.answer()
            await running.kernel.committer.settle()
            for _ in range(TURNS):
                await asyncio.sleep(0)
        found = Counter(calls.by_function)
        for name in WAITING:
            del found[f"writes/commit_queue.py:CommitQueue.{name}"]
        if round_ >= WARM and (least is None or found.total() < least.total()):
            least = found
    return least


async def of_publish(running, calls, message, topics):
    """Count a PUBLISH with one subscriber, whose QoS is 0."""
    port = running.mqtt_port
    publisher, subscriber = await Peer.mqtt(port, "publisher"), await Peer.mqtt(port, "subscriber")
    subscriber.send(encode(Subscribe(1, (Subscription(topics, 0),)), VERSION))
    await subscriber.answer()
    listeners = [subscriber, *([publisher] if message.qos else [])]
    try:
        return await count(running, calls, encode(message, VERSION), publisher, listeners)
    finally:
        publisher.close()
        subscriber.close()


BY_TIME = ("features/client_events/", "features/metrics/", "core/rate_limit.py:TokenBucket.")
"""Of these, a CONNECT calls what is due since the last one: the event of the client is written,
held or put together with others, which depends on the speed of the machine."""


async def of_connect(running, calls):
    """Count a connection with a clean session, from its first byte to CONNACK, but `BY_TIME`."""
    least = None
    for round_ in range(WARM + ROUNDS):
        frame = encode(Connect(VERSION, f"client-{round_}"), VERSION)
        with calls:
            peer = Peer(*await asyncio.open_connection("127.0.0.1", running.mqtt_port))
            peer.send(frame)
            await peer.answer()
        steady = (pair for pair in calls.by_function.items() if not pair[0].startswith(BY_TIME))
        found = Counter(dict(steady))
        peer.close()
        for _ in range(2 * TURNS):  # until the server knows, or the next round would count its end
            await asyncio.sleep(0)
        await running.kernel.committer.settle()
        if round_ >= WARM and (least is None or found.total() < least.total()):
            least = found
    return least


async def of_exactly_once(calls, count, *, durable):
    """Count so many messages of QoS 2 that come in one read, with all their answers, in memory."""
    world = MqttServer(undeclared="route")
    hour = {"session_expiry_interval": 3600} if durable else None
    subscriber = await world.subscribed("a/b", qos=2, connect={"properties": hour})
    publisher, least = await world.connected("p"), None
    sent = [Publish("a/b", b"x", 2, False, False, number) for number in range(1, count + 1)]
    for _ in range(3):  # what is compiled or remembered once is there in the second round
        with calls:
            received = await publisher.ask(*sent)
            heard = await subscriber.hear()
            released = await subscriber.ask(*(Pubrec(item.packet_id) for item in heard))
            await subscriber.ask(*(Pubcomp(item.packet_id) for item in released))
            completed = await publisher.ask(*(Pubrel(item.packet_id) for item in received))
        found = Counter(
            {
                name: number
                for name, number in calls.by_function.items()
                if not name.startswith("mqtt/encode.py")  # the test's own packets
            }
        )
        assert [count] * 4 == [len(told) for told in (received, heard, released, completed)]
        if least is None or found.total() < least.total():
            least = found
    return least


async def of_put(running, calls):
    """Count a PUT of a record."""
    return await of_http(running, calls, PUT)


async def of_get(running, calls):
    """Count a GET of a record that is in memory."""
    return await of_http(running, calls, GET, after=PUT)


async def of_http(running, calls, request, after=b""):
    """Count a request on a connection that is kept."""
    client = Peer(*await asyncio.open_connection("127.0.0.1", running.http_port))
    try:
        if after:
            client.send(after)
            await client.answer()
        return await count(running, calls, request, client, [client])
    finally:
        client.close()
