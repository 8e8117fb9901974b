"""A server with alarms, on a clock that a test moves, which can be killed at any moment."""

import heapq
import json

from build import ANN, EPOCH, KEY, NOW, Server, turns
from memory_store import MemoryStore
from rowcast.core.clauses import AlarmRule
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Attribute, Table, Type
from rowcast.features.alarms import feature
from rowcast.features.alarms.settings import AlarmSection
from rowcast.net.webhook_call import CallError

TEMP = Attribute("temp", Type.INT)
TOPIC = "Sensor/1"
ROW = f"$SYS/alarms/hot/{TOPIC}"
TOLD = f"$alarms/hot/{TOPIC}"


def sensor(seconds=5.3, clear="temp=lt=75", name="hot", when="temp=gt=80", **facts):
    """Return a table with one alarm."""
    table = Table("Sensor", "Sensor", (KEY, TEMP))
    rule = AlarmRule(
        name,
        parse_query(when, table).where,
        parse_query(clear, table).where if clear else None,
        seconds,
        when_text=when,
        clear_text=clear,
        **facts,
    )
    return Table("Sensor", "Sensor", (KEY, TEMP), alarms=(rule,))


class Timer:
    """One call of the loop that is to come."""

    def __init__(self, at, number, call, arguments):
        self.at, self.number, self.call, self.arguments = at, number, call, arguments
        self.cancelled = False

    def __lt__(self, other):
        return (self.at, self.number) < (other.at, other.number)

    def cancel(self):
        self.cancelled = True


class Timers:
    """The part of a loop that alarms use, on the server's clock."""

    def __init__(self, server):
        self.server, self.timers, self.soon, self.count = server, [], [], 0

    def time(self):
        return self.server.time

    def call_soon(self, call, *arguments):
        self.soon.append((call, arguments))

    def call_later(self, seconds, call, *arguments):
        return self.call_at(self.server.time + seconds, call, *arguments)

    def call_at(self, when, call, *arguments):
        self.count += 1
        timer = Timer(when, self.count, call, arguments)
        heapq.heappush(self.timers, timer)
        return timer


class AlarmServer:
    """A server with alarms; its store outlives kills."""

    def __init__(self, *tables, store=None, **settings):
        self.tables = tables or (sensor(),)
        self.settings = settings
        self.time = NOW
        self.store = store or MemoryStore(EPOCH)
        self.posted, self.refusing = [], False

    async def start(self):
        """Start, with what the store has."""
        self.server = Server(self.tables, store=self.store, now=lambda: self.time)
        self.timers = Timers(self)
        section = AlarmSection(**{"cleared_seconds": 100.1, **self.settings})
        self.feature = feature.RecordAlarms(self.tables, section)
        self.feature.install(self.server.kernel)
        self.feature.webhooks._post = self._post
        self.alarms, states = self.feature.alarms, self.feature._states
        states._timing = self._timing(states._timing)
        self.alarms._loop = self.timers
        await self.server.kernel.restore(self._facts)
        await self.feature.start()
        await self.turn()
        return self

    @staticmethod
    def _timing(of):
        """Return periods of which no two sums are equal, so that nothing happens at once."""
        from dataclasses import replace

        return lambda rule: replace(of(rule), flap_seconds=60.7)

    async def _facts(self, owner):
        return self.store.states(owner)

    async def _post(self, url, headers, body):
        self.posted.append((url, headers, json.loads(body)))
        if self.refusing:
            raise CallError("it answered 500")

    def kill(self):
        """End it at once: nothing that it still has to do is done."""
        self.server.writer.stopped = True
        self.alarms._stopped = True
        self.timers.soon.clear()
        self.timers.timers.clear()

    async def restart(self, seconds=0.0):
        """Kill it, and start it some time later."""
        self.kill()
        await self.feature.stop()
        self.time += seconds
        return await self.start()

    # -- time --------------------------------------------------------------------------------------

    async def turn(self):
        """Let all happen that is due, without letting time pass."""
        await turns(12)
        while self.timers.soon:
            call, arguments = self.timers.soon.pop(0)
            call(*arguments)
            await turns(12)

    async def until(self, when):
        """Let time pass up to a time, with what is due on the way."""
        await self.turn()
        timers = self.timers.timers
        while timers and timers[0].at <= when:
            timer = heapq.heappop(timers)
            self.time = max(self.time, timer.at)
            if not timer.cancelled:
                timer.call(*timer.arguments)
            await self.turn()
        self.time = max(self.time, when)
        await self.turn()

    async def after(self, seconds):
        await self.until(self.time + seconds)

    # -- verbs -------------------------------------------------------------------------------------

    async def write(self, temp, topic=TOPIC):
        event = Event(topic, PUT, json.dumps({"temp": temp}).encode(), qos=1, retain=True)
        await self.server.kernel.write(event, ANN)

    async def delete(self, topic=TOPIC):
        await self.server.kernel.write(Event(topic, DELETE, b"", qos=1, retain=True), ANN)

    async def patch(self, value, row=ROW, caller=ANN):
        """Change an alarm; its answer needs turns of the virtual loop."""
        import asyncio

        resource = self.server.kernel.resource(row, caller)
        task = asyncio.ensure_future(resource.patch(value))
        await self.turn()
        await task

    async def rows(self, caller=ANN):
        return await self.server.kernel.resource("$SYS/alarms/", caller).get()

    async def row(self):
        return await self.server.kernel.resource(ROW, ANN).get()

    def told(self, topic=TOLD):
        """Return what the log has of the topic of an alarm: the values, None for a deletion."""
        events = self.store.read(0, 1_000_000)
        return [
            None if event.kind == DELETE else json.loads(event.payload)
            for event in events
            if event.topic == topic
        ]

    def states(self):
        return [item and item["state"] for item in self.told()]

    async def retained(self, topic=TOLD):
        record = await self.server.reader.get(None, topic)
        return None if record is None else json.loads(record.payload)

    async def apply(self, operation, *arguments):
        """Apply an operation of a trace; what is refused is nothing."""
        try:
            if operation == "write":
                await self.write(*arguments)
            elif operation == "delete":
                await self.delete()
            elif operation == "acknowledge":
                await self.patch({"acknowledged": True})
            elif operation == "shelve":
                await self.patch({"shelved_for": f"{arguments[0] / 10}s"})
            else:
                await self.patch({"shelved_until": None})
        except Error:
            pass
