"""A server with a random past: writes by a clock that the test moves, and exports in between."""

import asyncio
import json
from contextlib import asynccontextmanager

from httpx import Limits

from http_clients import http_client
from rowcast.core.callers import ALL, Caller
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.kernel.expired_records import delete_expired
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.export import Order, export
from serving import application

ANN = Caller("ann", ALL, "http")
SCHEMA = """
type Home { street: String, number: Int }
type Dog @table @export {
  id: ID @primaryKey, name: String, age: Int, weight: Float, price: Decimal, born: Date,
  good: Boolean, home: Home, tags: [String]
}
type Number @table(partition: "hour") @export { n: Int @primaryKey, label: String }
type Lease @table(expiration: 30) @export { id: ID @primaryKey, name: String }
type Free @table @export
"""
TABLES = ("Dog", "Number", "Lease", "Free")
BRANCH = "home"
KEYS = 8
STEPS_SECONDS = (0, 0, 0, 1e-6, 0.0004, 0.001, 0.5, 7, 45, 600, -20)
"""By how much the clock moves before a write: also not at all, within a millisecond, and back."""
TOGETHER = 20
"""Requests that are made at once: on a busy machine each of them waits for its threads."""
BEGIN = 1_790_000_000.0


class Past:
    """The server, its clock, its exports, and who asks it."""

    def __init__(self, folder, chance):
        self.folder, self.chance = folder, chance
        self.directory = folder / "data" / "snapshots"
        self.time = BEGIN
        self.versions = []
        """The times of what was written, in microseconds."""
        self.ends = {}
        """When what was written is over, by position: by the clock, which may have gone back."""

    @asynccontextmanager
    async def running(self):
        """Serve."""
        settings = {"mqtt.sys_interval": 0, "store.query_timeout": 0}  # a machine may be busy
        async with application(self.folder, SCHEMA, settings, now=lambda: self.time) as served:
            self.kernel = served.kernel
            base = f"http://127.0.0.1:{served.http_port}"
            apart = Limits(max_keepalive_connections=0)  # the server closes those that are idle
            async with http_client(base_url=base, timeout=None, limits=apart) as self.client:
                yield self

    @property
    def epoch(self):
        return self.kernel.reader.epoch

    # -- what happens ------------------------------------------------------------------------------

    async def live(self, writes, exports):
        """Write at random; make snapshots and pages of the log now and then."""
        await self.export(export)
        await self.kernel.write(self._event(PUT), ANN)
        await self.export(export_changes)  # from here on every event is in a page
        due = {*self.chance.sample(range(writes), exports)}
        for number in range(writes):
            self.time += self.chance.choice(STEPS_SECONDS)
            if self.chance.random() < 0.1:
                await delete_expired(self.kernel, self.kernel.now)
            count = self.chance.choice((1, 1, 1, 4))
            events = [self._event() for _ in range(count)]
            outcomes = await self.kernel.write_all(events, ANN, atomic=False)
            wrong = [it for it in outcomes if isinstance(it, Exception) and it.code != "not_found"]
            assert not wrong, wrong
            written = [it.event for it in outcomes if not isinstance(it, Exception)]
            self.versions += [event.version for event in written]
            self.ends |= {event.seq: event.expires_at for event in written if event.expires_at}
            if number in due:
                await self.export(self.chance.choice((export, export_changes)))
        self.time += 1
        await self.export(export_changes)

    async def export(self, make):
        """Export beside the running server."""
        history = make is export
        order = Order(self.folder / "data/rowcast.db", self.directory, SCHEMA, history=history)
        await asyncio.to_thread(make, order)

    def _event(self, *kinds):
        pick = self.chance
        table = pick.choice((*TABLES, "Dog", BRANCH))
        kind = pick.choice(kinds or (PUT, PUT, PUT, PATCH, DELETE, MESSAGE))
        topic = f"{table}/{pick.randrange(KEYS)}"
        if kind == DELETE:
            return Event(topic, DELETE, b"", None, 1, True)
        if kind == PATCH and table in {"Free", BRANCH}:
            kind = PUT
        payload = json.dumps(self._value(table)).encode()
        return Event(topic, kind, payload, "application/json", 1, kind != MESSAGE)

    def _value(self, table):
        pick = self.chance
        if table != "Dog":
            name = "label" if table == "Number" else "name"
            return {name: f"v{pick.randrange(99)}"}
        day = f"20{pick.randrange(10, 30)}-0{pick.randrange(1, 9)}-11T10:00:00.007Z"
        every = {
            "name": pick.choice(("Rex", "Änn", "", None)), "age": pick.randrange(99),
            "weight": pick.choice((1, 2.5, -1e300)), "price": pick.choice(("1.10", "12.5")),
            "born": day, "good": pick.random() < 0.5, "home": {"street": "x", "number": 3},
            "tags": ["a", "ü"], "odd": {"un": ["declared", None]},
        }  # fmt: skip
        return {name: every[name] for name in pick.sample(sorted(every), pick.randrange(1, 6))}

    def went_back(self, before):
        """Whether versions passed a time twice: a wrong clock's are followed by a right one's."""
        last = 0
        for version in self.versions:
            if version < before <= last:
                return True
            last = max(last, version)
        return False

    def moment(self):
        """Return a random time, also next to that of a write, in milliseconds."""
        if self.chance.random() < 0.5:
            return self.chance.choice(self.versions) // 1_000 + self.chance.choice((-1, 0, 0, 1))
        return int((BEGIN + self.chance.random() * (self.time - BEGIN)) * 1_000)

    # -- asking ------------------------------------------------------------------------------------

    async def ask(self, moments):
        """Ask for a table and for a record of each moment; return what was asked and told."""
        asked = [(self.chance.choice(TABLES), self._topic(), moment) for moment in moments]
        told = []
        for start in range(0, len(asked), TOGETHER):
            some = asked[start : start + TOGETHER]
            told += await asyncio.gather(*(self._answers(*one) for one in some))
        return [(*one, *answers) for one, answers in zip(asked, told, strict=True)]

    def _topic(self):
        return f"{self.chance.choice((*TABLES, BRANCH))}/{self.chance.randrange(KEYS)}"

    async def _answers(self, name, topic, moment):
        """Return a table's records by topic, and one record, None if there was none."""
        answer = await self.client.get(f"/{name}/?asof={moment}&meta=true")
        assert answer.status_code == 200, (answer.status_code, answer.text)
        key = "n" if name == "Number" else "id"
        rows = {f"{name}/{row[key]}": row for row in answer.json()}
        answer = await self.client.get(f"/{topic}?asof={moment}&meta=true")
        assert answer.status_code in {200, 404}, (answer.status_code, answer.text)
        return rows, answer.json() if answer.status_code == 200 else None
