"""Live queries of rows of ``$SYS`` against REST: random rows, conditions and changes (M3, M11)."""

import random

from query_readers import Mqtt, OldMqtt, Sse, Ws, query_server, turns

from mqtt_server import Connect, Subscribe, Subscription, user
from rowcast.core.tables import Attribute, Table, Type
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.kernel.feature import Feature
from rowcast.routes.system_rows import SystemRows

PATH = "$SYS/things"
NOTHING = Table("T", "T", (Attribute("id", Type.ID, primary_key=True),))
NAMES = ("1", "2", "3", "hot/Sensor/4", "5", "6")
VALUES = (None, True, False, 0, 1, 2, 2.5, "1", "a", "ab", "", ["a"])


class Things(Feature):
    """Rows that a test changes."""

    def __init__(self, followed=None):
        self.rows, self.followed = {}, followed

    def install(self, kernel):
        things = self

        class ThingRows(SystemRows):
            path = PATH
            followed = things.followed

            def names(self):
                return list(things.rows)

            def row(self, name, *, whole):
                return things.rows.get(name)

        self.changed = kernel.rows(PATH, ThingRows)

    def put(self, name, **members):
        """Set a row, or without members remove it."""
        self.rows.pop(name, None)
        if members:
            self.rows[name] = {"id": name} | members
        self.changed(name)


class RowMqtt(Mqtt):
    """A client of MQTT 5 that is told when it gets all rows again."""

    async def ask(self, conditions):
        self.peer = self.home.peer(5)
        keep = {"session_expiry_interval": 3600, "user_property": (("seq", "true"),)}
        self.peer.send(Connect(5, self.name, clean_start=not self.known, properties=keep))
        if not self.known:
            wanted = (Subscription(self.filter(conditions), 1),)
            self.peer.send(Subscribe(7, wanted, {"subscription_identifier": 3}))
        self.known = True

    def _take(self, packet):
        mark = packet.topic.partition("/")[0]
        if mark in {"$reset", "$snapshot"}:
            kind = "reset" if mark == "$reset" else "current"
            self.take(kind, None, None, user(packet, "seq"))
        else:
            super()._take(packet)


class RowOldMqtt(OldMqtt):
    """A client of MQTT 3.1.1, which begins anew each time."""

    async def ask(self, conditions):
        self.peer = self.home.peer(4)
        self.records = {}
        self.peer.send(Connect(4, self.name, clean_start=True))
        self.peer.send(Subscribe(7, (Subscription(self.filter(conditions), 1),)))


DOORS = (Sse, Ws, RowMqtt, RowOldMqtt)


def condition(chance, depth=0):
    """Return random conditions on rows, as a URL has them."""
    if depth < 2 and chance.random() < 0.4:
        parts = [condition(chance, depth + 1) for _ in range(2)]
        inner = chance.choice("&|").join(parts)
        return f"[{inner}]" if depth else inner
    if chance.random() < 0.1:
        return f"id{chance.choice(('==', '!=', '=sw='))}{chance.choice(('1', '2', 'hot'))}"
    name = chance.choice("ab")
    if chance.random() < 0.3:
        return f"{name}=in=(1,a,null)"
    operator = chance.choice(("=", "==", "!=", "=gt=", "=le=", "=sw=", "=ct="))
    value = chance.choice(("a", "1")) if operator in {"=sw=", "=ct="} else None
    return f"{name}{operator}{value or chance.choice(('1', '2', 'a', 'true', 'null', '2.5'))}"


def asked(chance):
    """Return conditions, and maybe a window, and selected parts."""
    parts = [condition(chance)] if chance.random() < 0.8 else []
    if chance.random() < 0.5 or not parts:
        begin = chance.choice((0, 0, 1))
        limit = f"limit({begin},{begin + chance.randint(1, 3)})"
        parts += [f"sort({chance.choice(('', '-'))}{chance.choice(('a', 'b', 'id'))})", limit]
    if chance.random() < 0.3:
        parts.append(f"select(id,{chance.choice('ab')})")
    return "&".join(parts)


async def run_rows(seed, writes, cuts, doors=DOORS, **options):
    """Run one random case; return what the readers heard. Raises AssertionError."""
    chance, things = random.Random(seed), Things()
    live = LiveQueriesOfTables()
    async with query_server(NOTHING, rows=PATH, features=[live], **options) as opened:
        things.install(opened.server.kernel)
        change(chance, things, 8)
        text = asked(chance)
        while 200 != (await opened.rest.get(f"/{PATH}/?{text}")).status:
            text = asked(chance)
        await opened.open(text, doors)
        await opened.check()
        left = cuts
        for number in range(writes):
            if left * writes > cuts * (writes - number):
                left -= 1
                away = [reader for reader in opened.readers if chance.random() < 0.6]
                for reader in away:
                    await reader.cut()
                await turns(12)
                change(chance, things, 5)
                for reader in away:
                    await reader.ask(text)
            else:
                change(chance, things, 2)
            await opened.settle()
            await opened.check()
        heard = [kind for reader in opened.readers for kind in reader.heard]
    assert 0 == len(live.queries)
    assert 0 == len(live.queries.systems.views)
    assert {} == live.queries.systems.paths
    return heard


def change(chance, things, most):
    """Change some rows, or remove them."""
    for _ in range(chance.randrange(1, most + 1)):
        name, gone = chance.choice(NAMES), chance.random() < 0.2
        members = {} if gone else {key: chance.choice(VALUES) for key in "ab"}
        things.put(name, **members)
