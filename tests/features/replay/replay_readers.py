"""A server in memory whose past is replayed, readers on every door, a clock that tests move."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

from asgi import Asgi
from asgi_streams import EventStream, EverybodyIs, Socket
from build import Server
from mqtt_server import Connect, Peer, Publish, Subscribe, Subscription, user
from rowcast.core.callers import ALL, Caller
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.schema import parse_schema
from rowcast_client.events import Frames
from virtual import VirtualLoop, turns

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey temp: Int site: String }
"""
WRITER = Caller("writer", ALL, "http", roles=frozenset({"admin"}))
TOPICS = ("Sensor/a", "Sensor/b", "Sensor/c", "home/hall", "home/attic/lamp")
SETTLED = 40


class Reader:
    """One reader: what it was told, in order, as (kind, topic, value, cursor)."""

    def __init__(self, home):
        self.home = home
        self.told = []
        self.marked = set()
        """Whether events were marked as replayed: one answer for all, as a rule."""

    def take(self, kind, topic, value, cursor, replayed):
        self.told.append((kind, topic, value, cursor))
        self.marked.add(bool(replayed))

    @property
    def events(self):
        """Return the events, without records and marks."""
        return [told for told in self.told if told[0] in {PUT, PATCH, DELETE, MESSAGE}]

    @property
    def records(self):
        return {told[1]: told[2] for told in self.told if told[0] == "snapshot"}

    @property
    def kinds(self):
        return [told[0] for told in self.told]


class Sse(EventStream, Reader):
    status = 0
    closed = False

    async def ask(self, path, query="", cursor=""):
        self.frames, self.body = Frames(), b""
        self.open(path, query, cursor)

    async def live(self, topics):
        await self.ask("/", f"topic={topics.replace('#', '%23').replace('+', '%2B')}")

    async def replay(self, topics, start, **words):
        query = "&".join(f"{name}={value}" for name, value in words.items())
        filter_ = topics.replace("#", "%23").replace("+", "%2B")
        await self.ask("/", f"topic={filter_}&from={start}&{query}")

    def hear(self):
        while self.sent:
            message = self.sent.popleft()
            if message["type"] == "http.response.start":
                self.status, self.headers = message["status"], dict(message["headers"])
                continue
            self.closed = not message.get("more_body")
            self.body += message.get("body", b"")
            if self.status != 200:
                continue
            for frame in self.frames.feed(message.get("body", b"")):
                fields = json.loads(frame.data)
                known = fields["kind"] in {"current", "delete", "end"}
                assert frame.name == (fields["kind"] if known else ""), frame
                told = fields["kind"], fields["topic"], fields.get("value"), fields["cursor"]
                self.take(*told, fields.get("replay"))

    @property
    def problem(self):
        return json.loads(self.body)


class Ws(Socket, Reader):
    async def connect(self):
        self.replies = []
        await super().connect()

    async def live(self, topics):
        await self.connect()
        await self.say(id=1, op="subscribe", topic=topics)

    async def replay(self, topics, start, **words):
        await self.connect()
        await self.say(id=1, op="replay", topic=topics, **{"from": start}, **words)

    def hear(self):
        for fields in self.answers():
            if "ack" in fields or "error" in fields:
                self.replies.append(fields)
            elif "kind" in fields:
                told = fields["kind"], fields["topic"], fields.get("value"), fields["cursor"]
                self.take(*told, fields.get("replay"))


class Mqtt(Reader):
    """A client of MQTT 5."""

    number = 0
    version = 5

    async def subscribe(self, text, qos=1):
        Mqtt.number += 1
        self.prefix = ""
        self.peer = Peer(self.home.server, self.version)
        self.peer.send(Connect(self.version, f"c{Mqtt.number}"))
        properties = {"user_property": (("seq", "true"),)} if self.version == 5 else None
        self.peer.send(Subscribe(7, (Subscription(text, qos),), properties))

    async def live(self, topics):
        await self.subscribe(topics, 0)

    async def replay(self, topics, start, to="", speed=""):
        prefix = f"$replay/{start},{to},{speed}/"
        await self.subscribe(prefix + topics)
        self.prefix = prefix

    def hear(self):
        for packet in self.peer.heard():
            if not isinstance(packet, Publish):
                self.answer = packet
                continue
            assert packet.topic.startswith((self.prefix, "$snapshot/end"))
            topic = packet.topic.removeprefix(self.prefix)
            kind = user(packet, "op") or ("snapshot" if packet.retain else "")
            if topic.startswith("$"):
                kind = {"$snapshot": "current"}.get(topic.split("/")[0], topic[1:])
            value = json.loads(packet.payload) if packet.payload and kind != "current" else None
            if topic.startswith("$"):
                topic = None
            self.take(kind or "put", topic, value, user(packet, "seq"), user(packet, "replay"))

    async def cut(self):
        self.peer.lose()


class OldMqtt(Mqtt):
    """A client of MQTT 3.1.1, which is told neither kind nor cursor."""

    version = 4


DOORS = (Sse, Ws, Mqtt)


class ReplayServer:
    """A server, its clock, and readers."""

    def __init__(self, schema=SCHEMA, caller=None, settings=None, **options):
        self.caller = caller or Caller("anonymous", ALL)
        self.loop = VirtualLoop(asyncio.get_running_loop())
        options |= {"replays": settings}
        self.server = Server(parse_schema(schema).tables, topics=TopicSettings(), **options)
        self.server.replays.loop = self.loop
        self.edge = self.server.make_edge(
            anonymous=lambda peer, door: replace(self.caller, door=door, peer=peer)
        )
        self.server.open_mqtt(self.loop, authenticator=EverybodyIs(lambda: self.caller))
        self.rest = Asgi(self.edge, self.server.store)
        self.readers = []

    async def write(self, topic, value=None, kind=PUT, caller=WRITER):
        payload = b"" if kind == DELETE else json.dumps(value if value is not None else {}).encode()
        media = None if kind == DELETE else "application/json"
        event = Event(topic, kind, payload, media, 1, kind != MESSAGE)
        return (await self.server.kernel.write(event, caller)).event

    async def wander(self, chance, count):
        """Write at random, at random times; what cannot be is left out."""
        there = set()
        for number in range(count):
            self.server.time += chance.choice((0, 0.001, 0.5, 3.25))
            topic = chance.choice(TOPICS)
            kind = chance.choices((PUT, PATCH, DELETE, MESSAGE), (5, 3, 2, 2))[0]
            if kind in {PATCH, DELETE} and topic not in there:
                kind = PUT
            (there.discard if kind == DELETE else there.add if kind != MESSAGE else len)(topic)
            await self.write(topic, {"temp": number, "site": chance.choice("xy")}, kind)

    async def open(self, door):
        reader = door(self)
        self.readers.append(reader)
        return reader

    async def settle(self):
        """Let all happen that is due now, and be heard."""
        for _ in range(3):
            await turns(SETTLED)
            self.loop.advance(0)
            for reader in self.readers:
                reader.hear()

    async def shut(self):
        """Close all readers."""
        readers, self.readers = self.readers, []
        for reader in readers:
            await reader.cut()
        await turns(SETTLED)

    async def until_end(self, reader):
        """Settle until a replay has ended."""
        for _ in range(50):
            if "end" in reader.kinds:
                return
            await self.settle()
        raise AssertionError(reader.told)

    def cursor(self, seq):
        return self.server.kernel.cursor(seq)

    @property
    def head(self):
        return self.server.kernel.committer.announced

    async def asof(self, path, moment):
        """Return the records that REST tells as of a moment, by topic."""
        answer = await self.rest.get(f"{path}?asof={moment}")
        assert answer.status == 200, answer.body
        return {f"Sensor/{row['id']}": row for row in json.loads(answer.body)}

    async def close(self):
        await self.shut()
        assert 0 == len(self.server.replays)
        await self.server.stop()


@asynccontextmanager
async def replay_server(**options):
    opened = ReplayServer(**options)
    try:
        yield opened
    finally:
        await opened.close()
