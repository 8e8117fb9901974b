"""A running server whose records change at random, and what is exported of it meanwhile."""

import asyncio
import base64
import json
import random
from contextlib import asynccontextmanager
from pathlib import Path

from rowcast.core.callers import ALL, Caller
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.features.snapshots.catalogue import Catalogue
from rowcast.store.store import Keep
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.fold import differences
from serving import application

ANN = Caller("ann", ALL, "http")
SCHEMA = """
type Owner { name: String, born: Date, balance: Decimal, tags: [String!], note: Any }
type Point @sealed { x: Float!, y: Float! }
type Dog @table @export {
  id: ID! @primaryKey, name: String, age: Int, weight: Float, price: Decimal, chip: Long,
  good: Boolean, born: Date, photo: Bytes, any: Any, owner: Owner, at: Point, path: [Point],
  nums: [Int], days: [Date], made: Date @createdTime, secret: String @hidden
}
type Free @table @export
type Strict @table @export @sealed { n: Long @primaryKey, v: Int }
type Account @table @export { id: ID @primaryKey, amount: Long }
"""
KEYS = 12
ACCOUNTS = 8


class Writer:
    """Somebody who writes anything anywhere, always the same with the same seed."""

    def __init__(self, kernel, seed):
        self.kernel = kernel
        self.random = random.Random(seed)
        self.nulls = random.Random(seed)
        self.amounts = dict.fromkeys(range(ACCOUNTS), 100)

    async def write(self, count):
        """Write about so many events, at once."""
        events = [self.event() for _ in range(count)]
        outcomes = await self.kernel.write_all(events, ANN, atomic=False)
        unexpected = [x for x in outcomes if isinstance(x, Exception) and x.code != "not_found"]
        assert not unexpected, unexpected

    async def transfer(self):
        """Move an amount from one account to another, in one transaction."""
        one, other = self.random.sample(range(ACCOUNTS), 2)
        amount = self.random.randrange(50)
        self.amounts[one] -= amount
        self.amounts[other] += amount
        await self.put_accounts(one, other)

    async def put_accounts(self, *accounts):
        events = [
            self.of(
                f"Account/{account}", PUT, json.dumps({"amount": self.amounts[account]}).encode()
            )
            for account in accounts
        ]
        await self.kernel.write_all(events, ANN, atomic=True)

    def of(self, topic, kind, payload=b"", media_type="application/json"):
        retain = kind != MESSAGE
        return Event(topic, kind, payload, media_type if payload else None, 1, retain, client="ann")

    def event(self):
        pick = self.random
        table = pick.choice(("Dog", "Dog", "Free", "Strict", "home/room", "one"))
        key = pick.randrange(KEYS)
        kind = pick.choice((PUT, PUT, PUT, PATCH, DELETE, MESSAGE))
        topic = f"{table}/{key}" if table != "one" else f"one{key}"
        if kind == DELETE:
            return self.of(topic, DELETE)
        if table == "Dog":
            return self.of(topic, kind, json.dumps(self.dog(kind)).encode())
        if table == "Strict":
            return self.of(topic, kind, json.dumps({"v": pick.randrange(99)}).encode())
        if kind == PATCH:
            kind = PUT
        if table == "Free" and pick.random() < 0.3:
            return self.of(topic, kind, pick.randbytes(9), "application/octet-stream")
        value = pick.choice(({"a": [1, None], "b": "ü"}, [1.5], "text", 7))
        return self.of(topic, kind, json.dumps(value).encode())

    def dog(self, kind):
        pick = self.random
        day = f"20{pick.randrange(10, 30)}-0{pick.randrange(1, 9)}-11T10:00:00.007Z"
        point = {"x": pick.uniform(-9, 9), "y": pick.randrange(9)}
        every = {
            "name": pick.choice(("Rex", "Änn", "", "a\nb")), "age": pick.randrange(-5, 99),
            "weight": pick.choice((1, 2.5, -0.0, 1e300)), "price": "12.50", "chip": 2**53 + 1,
            "good": pick.random() < 0.5, "born": day, "any": pick.choice(([1, {"x": 2}], "t", 4)),
            "photo": base64.b64encode(pick.randbytes(5)).decode(), "at": point, "secret": "s",
            "owner": {"name": "Ann", "born": day, "balance": "1.10", "tags": ["a"], "extra": 5},
            "path": [point, point], "nums": [1, None, 3], "days": [day],
            "beside": {"un": "declared"},
        }  # fmt: skip
        names = pick.sample(sorted(every), pick.randrange(len(every)))
        value = {name: every[name] for name in names}
        if kind == PUT and self.nulls.random() < 0.3:
            value |= dict.fromkeys(self.nulls.sample(sorted(every), 2))
            value |= {"owner": {"note": None, "born": None, "extra": None}}
        if kind == PATCH:
            value |= dict.fromkeys(pick.sample(sorted(every), 2))
        return value


class Changing:
    """The server, its writer, its snapshots."""

    def __init__(self, folder, seed):
        self.folder = folder
        self.seed = seed
        self.directory = folder / "data/snapshots"
        self.schema = SCHEMA

    @asynccontextmanager
    async def running(self, **settings):
        async with application(self.folder, self.schema, settings) as served:
            self.kernel = served.kernel
            self.store = served.store
            self.url = f"http://127.0.0.1:{served.http_port}"
            self.writer = Writer(served.kernel, self.seed)
            yield self

    @property
    def order(self):
        return Order(self.folder / "data/rowcast.db", self.directory, self.schema)

    ann = ANN

    @property
    def head(self):
        return self.kernel.committer.announced

    def topics_after(self, position):
        """Return the topics of declared tables that were written after a position, in order."""
        return [event.topic for event in self.store.read(position, 1000) if event.table is not None]

    async def trim(self, name):
        """Forget all that the log has of a table."""
        table = next(entry.shape.table for entry in self.kernel.registry.entries
                     if entry.path == name)  # fmt: skip
        await self.kernel.committer.trim(table, Keep(0, 1, 0), 0, 10**6)

    def parquet(self, name):
        return list((self.directory / name).rglob("*.parquet"))

    async def snapshot(self):
        """Make a snapshot beside the server; return its name."""
        return (await asyncio.to_thread(export, self.order)).place.name

    async def page(self):
        """Write a page of changes beside the server; return its name, None for none."""
        page = await asyncio.to_thread(export_changes, self.order)
        return page and page.place.name

    def items(self):
        return Catalogue(self.directory).items()

    def snapshots(self):
        return [item.name for item in self.items() if not item.is_page]

    def expect_folds(self, first, last):
        """Fold one snapshot forward to another: every table has the digest of the other."""
        assert {} == differences(self.directory, self.items(), first, last)


def rows_of(directory: Path, name, table):
    """Return the rows of a table of a snapshot or page."""
    import pyarrow.parquet as pq

    return pq.read_table(directory / name / table).to_pylist()
