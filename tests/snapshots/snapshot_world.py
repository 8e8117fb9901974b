"""A data directory with rows, and what is exported of it."""

import pyarrow.parquet as pq

from app.core.events import MISSING, PUT, Event
from app.schema import parse_schema
from app.snapshots.export import Order, export
from app.store.sqlite import SqlStore

SCHEMA = """
type Owner { name: String, born: Date, balance: Decimal, tags: [String!], note: Any }
type Point @sealed { x: Float!, y: Float! }
type Dog @table @export {
  id: ID! @primaryKey, name: String, age: Int, weight: Float, price: Decimal, chip: Long,
  good: Boolean, born: Date, photo: Bytes, any: Any, owner: Owner, at: Point, path: [Point],
  nums: [Int], days: [Date], secret: String @hidden
}
type Free @table @export
type Strict @table @export @sealed { n: Long @primaryKey, v: Int }
"""


class World:
    """One database file: written by a store, exported beside it."""

    def __init__(self, path, schema=SCHEMA):
        self.path = path
        self.directory = path / "snapshots"
        self.seq = 0
        self.store = None
        self.open(schema)

    def open(self, schema):
        self.close()
        self.schema = schema
        self.tables = {table.name: table for table in parse_schema(schema).tables}
        self.store = SqlStore(self.path / "rowcast.db")
        self.store.open(list(self.tables.values()))

    def close(self):
        if self.store is not None:
            self.store.close()
            self.store = None

    def event(self, table, key, value=MISSING, kind=PUT, **facts):
        self.seq += 1
        shape = self.tables.get(table)
        topic = shape.topic(str(key)) if shape else key
        facts = {
            "payload": b"",
            "client": "ann",
            "version": 1_700_000_000_000_000 + self.seq,
        } | facts
        return Event(topic, kind, retain=True, table=shape, seq=self.seq, decoded=value, **facts)

    def put(self, table, key, value=MISSING, **facts):
        self.store.commit([self.event(table, key, value, **facts)])

    def export(self, *tables, progress=None, **facts):
        order = Order(self.path / "rowcast.db", self.directory, self.schema, tables=tables, **facts)
        return export(order, progress)

    def rows(self, table, name="newest"):
        return pq.read_table(self.directory / name / table).to_pylist()
