"""Live queries of topic tables against REST: random messages, retention and cuts (M3, F3, F26)."""

import json
import random

from query_readers import WRITER, Sse, Ws, query_server, turns
from row_readers import NOTHING, RowMqtt, RowOldMqtt

from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.topic_tables import TopicRoot
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.store.store import Keep

TABLE = "mqtt_home"
DOORS = (Sse, Ws, RowMqtt, RowOldMqtt)
CONDITIONS = (
    "topic==home/a",
    "payload.t=gt=3",
    "payload.t=le=5&topic!=home/b",
    "payload=null",
    "retain==true",
    "payload.t=in=(1,2,3,4)|qos==0",
    "qos==1",
)
WINDOWS = ("limit(3)", "limit(1,4)", "sort(-timestamp)&limit(3)", "sort(-payload.t)&limit(1,3)")


def message(chance):
    """Return a random message, retained value, or deletion of one."""
    kind = chance.choice((MESSAGE, MESSAGE, MESSAGE, PUT, DELETE))
    value = chance.choice(({"t": chance.randrange(9)}, {}, [1], "x"))
    payload = b"" if kind == DELETE else json.dumps(value).encode()
    topic = chance.choice(("home/a", "home/b", "home/c/d", "hall/a"))
    return Event(topic, kind, payload, "application/json", chance.randrange(2), kind != MESSAGE)


def asked(chance):
    """Return conditions, and maybe a window, and selected parts."""
    parts = [chance.choice(CONDITIONS)] if chance.random() < 0.7 else []
    if chance.random() < 0.5 or not parts:
        parts.append(chance.choice(WINDOWS))
    if chance.random() < 0.3:
        parts.append(chance.choice(("select(id,payload)", "select(id,timestamp,payload.t)")))
    return "&".join(parts)


async def trim(server, keep, most=2):
    """Let retention remove all but so many messages, at most so many in one step."""
    while await server.committer.trim(TopicRoot("home"), Keep(events=keep), server.now(), most):
        pass


async def change(chance, opened, most):
    """Write some messages, or have retention remove some."""
    for _ in range(chance.randrange(1, most + 1)):
        if chance.random() < 0.25:
            await trim(opened.server, chance.randrange(1, 12))
        else:
            await opened.server.kernel.write(message(chance), WRITER)


async def run_messages(seed, writes, cuts, doors=DOORS, **options):
    """Run one random case; return what the readers heard. Raises AssertionError."""
    chance = random.Random(seed)
    live = LiveQueriesOfTables(look_seconds=0)
    async with query_server(NOTHING, rows=TABLE, features=[live], **options) as opened:
        await opened.server.kernel.write(Event("home/a", MESSAGE, b"1", None, 1), WRITER)
        await change(chance, opened, 12)
        text = asked(chance)
        await opened.open(text, doors)
        await opened.check()
        left = cuts
        for number in range(writes):
            away = []
            if left * writes > cuts * (writes - number):
                left -= 1
                away = [reader for reader in opened.readers if chance.random() < 0.6]
            for reader in away:
                await reader.cut()
            await turns(12)
            await change(chance, opened, 5 if away else 2)
            for reader in away:
                await reader.ask(text)
            await opened.settle()
            await opened.check()
        heard = [kind for reader in opened.readers for kind in reader.heard]
    assert 0 == len(live.queries)
    assert 0 == len(live.queries.messages.views)
    assert {} == live.queries.messages.tables
    return heard
