"""Readers that leave while their records are still read, and writes at that time (M3).

What a reader is told need not be exact then: a record may enter that it has, or leave that it has
not. But a change is only of a record that it has, and in the end it holds what REST answers.
"""

import asyncio
import random

from query_readers import DOORS, Mqtt, OldMqtt, Sse, Ws, query_server
from random_queries import SPARE, random_window
from related_queries import KEYS, TABLES, random_related, random_write_of_any

from mqtt_server import Suback
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from virtual import turns

PLAIN = ("id=gt=0", "age=ge=1", "age=le=3")
PAGES = (1, 2, 3)
"""Records of a page: so there is time between two of them."""


class Hasty:
    """A reader that knows what may come while it has not all records."""

    def take(self, kind, topic, value, cursor):
        has = topic in self.records
        self.heard.append((kind, topic))
        if kind == "reset":
            self.records, self.complete, self.cursor = {}, False, ""
        elif kind == "current":
            self.complete = True
        elif kind == "leave":
            self.records.pop(topic, None)
        else:
            assert kind != "change" or has, f"{topic} changes, and was not there"
            self.records[topic] = value
        if kind not in {"snapshot", "reset"} and cursor:
            self.cursor = cursor


class HastySse(Hasty, Sse):
    pass


class HastyWs(Hasty, Ws):
    pass


class HastyMqtt(Hasty, Mqtt):
    """It waits for SUBACK, so that it has a subscription to come back to."""

    granted = False

    def hear(self):
        heard = list(self.peer.heard())
        self.granted |= any(isinstance(packet, Suback) for packet in heard)
        self.peer.heard = iter([heard, *[[]] * 1000]).__next__
        try:
            super().hear()
        finally:
            del self.peer.heard

    async def ask(self, conditions):
        await super().ask(conditions)
        while not self.granted:
            await asyncio.sleep(0)
            self.hear()


class HastyOldMqtt(HastyMqtt):
    """MQTT 3.1.1, where all that is told is the record or its end."""

    async def ask(self, conditions):
        await OldMqtt.ask(self, conditions)
        while not self.granted:
            await asyncio.sleep(0)
            self.hear()

    def filter(self, conditions):
        return OldMqtt.filter(self, conditions)

    def _take(self, packet):
        if packet.payload:
            OldMqtt._take(self, packet)
        else:
            self.records.pop(packet.topic, None)


HASTY = dict(zip(DOORS, (HastySse, HastyWs, HastyMqtt, HastyOldMqtt), strict=True))


async def ask_something(opened, chance, name):
    """Return conditions on the table, on related ones, or a window of them."""
    while True:
        parts = [random_related(chance, name)] if chance.random() < 0.6 else []
        if not parts or chance.random() < 0.2:
            parts.append(chance.choice(PLAIN))
        if chance.random() < 0.3:
            parts.append(random_window(chance, TABLES[name]))
        asked = "&".join(parts)
        if (await opened.rest.get(f"/{opened.path}/?{asked}")).status == 200:
            return asked


async def run_hasty(seed, writes, cuts, doors=DOORS):
    """Run one random case of some kind; raises AssertionError."""
    chance = random.Random(seed)
    name = chance.choices(list(KEYS), (5, 3, 1))[0]
    others = [table for table in TABLES.values() if table.name != name]
    live = LiveQueriesOfTables(spare_records_min=chance.choice(SPARE))
    async with query_server(TABLES[name], others=others, features=[live]) as opened:
        opened.server.kernel.reader.table_scan_records = chance.choice(PAGES)
        for _ in range(chance.randrange(10, 60)):
            await opened.write(random_write_of_any(chance))
        opened.conditions = await ask_something(opened, chance, name)
        opened.readers = [HASTY[chance.choice(doors)](opened)]  # alone: others would give it turns
        for reader in opened.readers:
            await reader.ask(opened.conditions)
        left = cuts
        for number in range(writes):
            await turns(chance.randrange(8))
            await opened.write(random_write_of_any(chance))
            for reader in opened.readers:
                reader.hear()
            if left * writes > cuts * (writes - number):
                left -= 1
                await leave_and_return(opened, chance)
        await opened.settle()
        await opened.check()
    assert 0 == len(opened.server.live_queries)


async def leave_and_return(opened, chance):
    """Cut readers off, wherever they are; they come back after some writes."""
    for reader in opened.readers:
        await reader.cut()
    for _ in range(chance.randrange(4)):
        await opened.write(random_write_of_any(chance))
    for reader in opened.readers:
        await reader.ask(opened.conditions)
