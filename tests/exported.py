"""A data directory with rows, and what is exported of it."""

import hashlib
import json
import math
import struct
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq

from rowcast.core.events import MISSING, PUT, Event
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore
from rowcast_lake.snapshots.export import Order, export

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


class Exported:
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


def digest_by_hand(rows, columns):
    """Compute a digest as ``app/rowcast_lake/snapshots/digest.py`` says, value by value, of rows by
    key.

    ``columns`` are name and type of each column of the content, types as DuckDB calls them.
    """
    lines = []
    for name, kind in columns:
        leaves(name, kind, [row[name] for row in rows], lines)
    text = "".join(f"{line}\n" for _, line in sorted(lines))
    head = f"rowcast-table 1\nrows {len(rows)}\n"
    return f"sha256:{hashlib.sha256((head + text).encode()).hexdigest()}"


NAMES = {
    "VARCHAR": "string", "INTEGER": "int32", "BIGINT": "int64", "DOUBLE": "double",
    "BOOLEAN": "bool", "BLOB": "binary", "TIMESTAMP WITH TIME ZONE": "timestamp",
}  # fmt: skip


def leaves(name, kind, slots, lines):
    present = [slot for slot in slots if slot is not None]
    lengths = values = b""
    if kind.endswith("[]"):
        word = "list"
        lengths = b"".join(struct.pack("<q", len(slot)) for slot in present)
        leaves(f"{name}[]", kind[:-2], [item for slot in present for item in slot], lines)
    elif kind.startswith("STRUCT("):
        word = "struct"
        for field, inner in fields_of(kind[7:-1]):
            children = [None if slot is None else slot[field] for slot in slots]
            leaves(f"{name}.{field}", inner, children, lines)
    elif kind.startswith("DECIMAL("):
        word = kind.lower()
        scale = int(kind[:-1].rpartition(",")[2])
        values = b"".join(
            int(slot.scaleb(scale)).to_bytes(16, "little", signed=True) for slot in present
        )
    else:
        word = NAMES[kind]
        if word in {"string", "binary"}:
            present = [slot.encode() if word == "string" else slot for slot in present]
            lengths = b"".join(struct.pack("<q", len(slot)) for slot in present)
            values = b"".join(present)
        else:
            values = b"".join(PACK[word](slot) for slot in present)
    if present:
        presence = bytes(slot is not None for slot in slots)
        sums = (hashlib.sha256(part).hexdigest() for part in (presence, lengths, values))
        lines.append((name.encode(), f"{json.dumps(name)} {word} {' '.join(sums)}"))


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PACK = {
    "int32": lambda slot: struct.pack("<i", slot),
    "int64": lambda slot: struct.pack("<q", slot),
    "bool": lambda slot: struct.pack("<?", slot),
    "double": lambda slot: struct.pack("<d", math.nan if math.isnan(slot) else slot + 0.0),
    "timestamp": lambda slot: struct.pack("<q", (slot - EPOCH) // timedelta(microseconds=1)),
}


def fields_of(text):
    """Return names and types of a struct, as DuckDB writes them."""
    found, depth, start = [], 0, 0
    for place, letter in enumerate(text + ","):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            name, _, kind = text[start:place].strip().partition(" ")
            found.append((name.strip('"'), kind))
            start = place + 1
    return found
