"""Live queries against REST: random tables, conditions and writes, with readers on every door.

After each write, what each reader holds is what REST answers. Readers are cut off and come back
with their cursor, or with their session. ``live_cases.py`` runs as many of them as it is told to.
"""

import json
import random
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from urllib.parse import quote

from random_queries import (
    RECORDS,
    SPARE,
    random_conditions,
    random_select,
    random_table,
    random_window,
    random_write,
    random_write_at,
)

from asgi import Asgi
from asgi_streams import EventStream, EverybodyIs, Socket
from build import Server
from mqtt_server import (
    Connack,
    Connect,
    Peer,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    user,
)
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Error
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast_client.events import Frames
from virtual import turns

WRITER = Caller("writer", ALL, "http", roles=frozenset({"admin"}))
FEW = 6
"""Records of a table without a window."""
SETTLED = 12
"""Turns of the loop after which everything that is due has happened, as a rule."""
OTHERS = 3
"""Conditions of readers that come while all others are away."""
PATIENCE = 20
"""How often more turns are given to a reader that lacks something."""


class Reader:
    """What one reader holds: the records by topic; ``steps`` are checked where they are certain."""

    def __init__(self, home):
        self.home = home
        self.records = {}
        self.cursor = ""
        self.complete = False
        self.heard = []

    def take(self, kind, topic, value, cursor):
        self.heard.append(kind)
        if kind == "reset":
            self.records, self.complete, self.cursor = {}, False, ""
        elif kind == "current":
            self.complete = True
        elif kind == "leave":
            assert value is None
            assert topic in self.records, f"{topic} leaves, and was not there"
            del self.records[topic]
        else:
            assert kind in {"snapshot", "enter", "change"}, kind
            assert (kind == "change") == (topic in self.records), (kind, topic)
            self.records[topic] = value
        if kind not in {"snapshot", "reset"} and cursor:
            self.cursor = cursor

    def forget(self):
        """Begin anew, if what was heard cannot be continued."""
        if not self.complete or not self.cursor:
            self.records, self.complete, self.cursor = {}, False, ""

    async def ask(self, conditions):
        raise NotImplementedError

    async def cut(self):
        raise NotImplementedError

    def hear(self):
        """Take what has come."""


class Sse(EventStream, Reader):
    """An EventSource."""

    async def ask(self, conditions):
        self.forget()
        self.frames = Frames()
        self.open(f"/{self.home.at or self.home.path + '/'}", conditions, self.cursor)

    def hear(self):
        while self.sent:
            message = self.sent.popleft()
            if message["type"] == "http.response.start":
                assert message["status"] == 200, self.sent
                continue
            for frame in self.frames.feed(message["body"]):
                fields = json.loads(frame.data)
                assert frame.name in {"", fields["kind"]}
                self.take(fields["kind"], fields["topic"], fields.get("value"), frame.id)


class Ws(Socket, Reader):
    """A WebSocket, whose query is beside another filter on the same records."""

    where = True

    async def ask(self, conditions):
        self.forget()
        await self.connect()
        table = self.home.at or f"{self.home.path}/+"
        command = {"id": 1, "op": "subscribe", "topic": table, "where": conditions}
        since = {"since": self.cursor} if self.cursor else {}
        await self.say(id=0, op="subscribe", topic=f"{self.home.path}/#", start="new")
        await self.say(**command, **since)

    def hear(self):
        for fields in self.answers():
            assert "error" not in fields, fields
            if fields.get("subscription") == 2 and "kind" in fields:
                told = fields.get("value"), fields["cursor"]
                self.take(fields["kind"], fields["topic"], *told)


class Mqtt(Reader):
    """A client of MQTT 5 with a session that lasts."""

    number = 0

    def __init__(self, home):
        super().__init__(home)
        Mqtt.number += 1
        self.name, self.known = f"c{Mqtt.number}", False

    async def ask(self, conditions):
        self.peer = Peer(self.home.server, 5)
        keep = {"session_expiry_interval": 3600}
        self.peer.send(Connect(5, self.name, clean_start=not self.known, properties=keep))
        if not self.known:
            text = self.filter(conditions)
            wanted = (Subscription(text, 1), Subscription(f"{self.home.path}/0", 0))
            self.peer.send(Subscribe(7, wanted, {"subscription_identifier": 3}))
        self.known = True

    def filter(self, conditions):
        return f"$query/{self.home.at or self.home.path}/{quote(conditions, safe='')}"

    async def cut(self):
        self.hear()
        self.peer.lose()

    def hear(self):
        for packet in self.peer.heard():
            if isinstance(packet, Suback):
                assert {0, 1} >= set(packet.reasons), packet
            elif isinstance(packet, Publish):
                if packet.qos:
                    self.peer.send(Puback(packet.packet_id))
                self._take(packet)
            else:
                assert isinstance(packet, Connack), packet

    def _take(self, packet):
        kind = user(packet, "op") or ("snapshot" if packet.retain else "")
        if kind == "snapshot" and packet.qos == 0:
            return  # of the other filter
        if kind in {"snapshot", "enter", "change", "leave"}:
            value = json.loads(packet.payload) if packet.payload else None
            self.take(kind, packet.topic, value, user(packet, "seq"))


class OldMqtt(Mqtt):
    """A client of MQTT 3.1.1, which is told no steps: an empty payload removes a record."""

    async def ask(self, conditions):
        self.peer = Peer(self.home.server, 4)
        self.peer.send(Connect(4, self.name, clean_start=False))
        if not self.known:
            self.peer.send(Subscribe(7, (Subscription(self.filter(conditions), 1),)))
        self.known = True

    def filter(self, conditions):
        return f"{self.home.at or self.home.path}/+?{conditions}"

    def _take(self, packet):
        if packet.payload:
            self.records[packet.topic] = json.loads(packet.payload)
        else:
            assert packet.topic in self.records
            del self.records[packet.topic]


STREAMS = (Sse, Ws)
"""Doors whose readers leave nothing behind, as a session of MQTT is."""
DOORS = (Sse, Ws, Mqtt, OldMqtt)


# -- the server ------------------------------------------------------------------------------------


class QueryServer:
    """A server with one table, and maybe others, and readers of one query."""

    def __init__(self, table, *, caller=None, others=(), at="", rows="", **options):
        """Have readers of the table, of the relationship ``at`` that leads to it, or of ``rows``.

        These are the path of rows of ``$SYS``.
        """
        self.table, self.path, self.at = table, rows or table.path, at
        self.server = Server((table, *others), topics=TopicSettings(), **options)
        if caller is None:
            self.edge = self.server.make_edge()
            self.server.open_mqtt()
        else:
            self.edge = self.server.make_edge(
                anonymous=lambda peer, door: replace(caller, door=door, peer=peer)
            )
            self.server.open_mqtt(authenticator=EverybodyIs(lambda: caller))
        self.rest = Asgi(self.edge, self.server.store)
        self.readers = []

    def peer(self, version):
        """Return a client of MQTT that has not said anything yet."""
        return Peer(self.server, version)

    async def write(self, event):
        """Write, or be refused; both are fine."""
        with suppress(Error):
            await self.server.kernel.write(event, WRITER)

    async def open(self, conditions, doors=DOORS):
        """Have one reader on each door."""
        self.conditions = conditions
        for door in doors:
            reader = door(self)
            await reader.ask(conditions)
            self.readers.append(reader)
        await self.settle()

    async def settle(self):
        """Let all that is due happen, and be heard."""
        for _ in range(2):
            await turns(SETTLED)
            for reader in self.readers:
                reader.hear()

    async def answer(self):
        """Return what REST answers, by topic."""
        answer = await self.rest.get(f"/{self.at or self.path + '/'}?{self.conditions}")
        if self.at and answer.status in {403, 404}:
            return {}  # the record from which the relationship leads is gone
        assert answer.status == 200, answer.body
        rows = json.loads(answer.body)
        topic = self.table.topic if self.path == self.table.path else f"{self.path}/{{}}".format
        return {topic(row["id"]): row for row in rows}

    async def check(self):
        """Compare what the readers hold with REST."""
        wanted = await self.answer()
        for reader in self.readers:
            kind, patience = type(reader).__name__, PATIENCE
            while reader.records != wanted and patience:  # one that was away reads page by page
                patience -= 1
                await self.settle()
            assert reader.records == wanted, (kind, self.conditions)

    async def cut_and_return(self, chance, writes):
        """Cut some readers off; they come back with what they know after some writes."""
        away = [reader for reader in self.readers if chance.random() < 0.6]
        for reader in away:
            await reader.cut()
        await turns(SETTLED)
        for event in writes:
            await self.write(event)
        for reader in away:
            await reader.ask(self.conditions)
        await self.settle()

    async def leave_to_another(self, writes, conditions):
        """Cut all readers off; one of another query goes on from there before they return."""
        for reader in self.readers:
            await reader.cut()
        await turns(SETTLED)
        for event in writes:
            await self.write(event)
        other = Sse(self)
        other.cursor, other.complete = self.readers[0].cursor, True  # it goes on from there, too
        await other.ask(conditions)
        await turns(SETTLED)
        await other.cut()
        await turns(SETTLED)
        for reader in self.readers:
            await reader.ask(self.conditions)
        await self.settle()

    async def close(self):
        for reader in self.readers:
            await reader.cut()
        await turns(SETTLED)
        await self.server.stop()


@asynccontextmanager
async def query_server(table, **options):
    """Open a server and close it again."""
    opened = QueryServer(table, **options)
    try:
        yield opened
    finally:
        await opened.close()


async def ask_anything(opened, chance, doors, *, window, select):
    """Open readers of conditions that REST answers, or of a window of them, maybe of parts."""
    await opened.open(await answered(opened, chance, window=window, select=select), doors)


async def answered(opened, chance, *, window, select):
    """Return random conditions that REST answers."""
    while True:
        parts = (
            [random_conditions(chance, opened.table)] if chance.random() < 0.5 or not window else []
        )
        parts += [random_window(chance, opened.table)] if window else []
        parts += [random_select(chance, opened.table)] if select else []
        asked = "&".join(parts)
        answer = await opened.rest.get(f"/{opened.path}/?{asked}")
        if answer.status == 200:
            return asked


async def run_case(
    seed, writes, cuts, table=None, *, window=False, select=False, alone=False, **options
):
    """Run one random case; raises AssertionError with what differs.

    ``alone``: often all readers are away, and then one of another query is there.
    """
    chance = random.Random(seed)
    table = table or random_table(chance)
    records = chance.choice(RECORDS) if window else FEW
    if window:
        live = LiveQueriesOfTables(spare_records_min=chance.choice(SPARE))
        options = options | {"features": [live]}
    async with query_server(table, **options) as opened:
        for _ in range(chance.randrange(8 + 4 * (records if window else 0))):
            await opened.write(random_write(chance, table, records))
        asking = {"window": window, "select": select}
        await ask_anything(opened, chance, STREAMS if alone else DOORS, **asking)
        await opened.check()
        others = [await answered(opened, chance, **asking) for _ in range(OTHERS * alone)]
        await write_and_check(opened, chance, writes, cuts, records, others=others)
    assert 0 == len(opened.server.live_queries)
    assert 0 == len(opened.server.live_queries.windows)


async def write_and_check(opened, chance, writes, cuts, records, write=None, others=()):
    """Write, sometimes while readers are away, and compare each time.

    ``write`` makes a random event; without, it is one of the table. ``others``: conditions of a
    reader that is there meanwhile, half of the times.
    """
    left = cuts

    def some_write():
        if write is not None:
            return write(chance)
        held = opened.readers[0].records if records > FEW else ()
        return random_write_at(chance, opened.table, records, held)

    for number in range(writes):
        if left * writes > cuts * (writes - number):
            left -= 1
            much = chance.choice((5, 5, records))
            some = [some_write() for _ in range(chance.randrange(much))]
            if others and chance.random() < 0.5:
                await opened.leave_to_another(some, chance.choice(others))
            else:
                await opened.cut_and_return(chance, some)
        else:
            await opened.write(some_write())
            await opened.settle()
        await opened.check()
