"""Tables, values and events for the tests of stores."""

from datetime import UTC, datetime
from decimal import Decimal

from rowcast.codecs import json_text
from rowcast.core.events import DELETE, MISSING, PUT, Event, local_id
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.values import Checker, parse_id


def attribute(name, type_=Type.STRING, **more):
    return Attribute(name, type_, **more)


KEY = attribute("id", Type.ID, primary_key=True)

DOG = Table(
    "Dog",
    "Dog",
    (
        KEY,
        attribute("name", indexed=True),
        attribute("age", Type.INT, indexed=True),
        attribute("steps", Type.LONG),
        attribute("weight", Type.FLOAT, indexed=True),
        attribute("price", Type.DECIMAL, indexed=True),
        attribute("good", Type.BOOLEAN),
        attribute("born", Type.DATE, indexed=True),
        attribute("photo", Type.BYTES),
        attribute("extra", Type.ANY),
        attribute("tags", Type.LIST, items=attribute("", Type.STRING)),
        attribute("home", Type.OBJECT, type_name="Home", fields=(attribute("city"),)),
    ),
)
NUMBER = Table(
    "Number",
    "deep/Number",
    (attribute("n", Type.INT, primary_key=True), attribute("name")),
    database="other",
)
OTHER_DOG = Table("a.Dog", "other-dogs", (KEY, attribute("name")), database="a")
"""The table ``Dog`` of another database."""
OPEN = Table("Open", "Open")
ROOT = Table("Root", "", (attribute("name"),))
TABLES = (DOG, NUMBER, OTHER_DOG, OPEN, ROOT)

FULL = {
    "id": "rex",
    "name": "Rex \U0001f415",
    "age": 3,
    "steps": 2**63 - 1,
    "weight": 31.5,
    "price": Decimal("1.50"),
    "good": True,
    "born": datetime(2020, 2, 29, 12, 0, 0, 7, UTC),
    "photo": b"\x00\xff",
    "extra": {"any": [1, None, Decimal("2.0")]},
    "tags": ["a", "b"],
    "home": {"city": "Köln", "since": datetime(2021, 1, 1, tzinfo=UTC)},
    "undeclared": {"deep": [True]},
}
JSON = "application/json"


class Writer:
    """Makes events with numbers and versions that grow."""

    def __init__(self, seq=0):
        self.seq = seq

    def event(self, topic, kind=PUT, payload=b"", table=None, value=MISSING, **more):
        self.seq += 1
        return Event(
            topic,
            kind,
            payload,
            table=table,
            decoded=value,
            seq=self.seq,
            version=more.pop("version", self.seq << 16),
            **more,
        )

    def value(self, table, record_id, value, kind=PUT, **more):
        """Write a structured value, with the key in it, as the kernel does."""
        topic = table.topic(str(record_id))
        key = table.primary_key
        if key is not None and not table.open and isinstance(value, dict):
            value = {key.name: parse_id(table, str(record_id)), **value}
        payload = json_text.encode(Checker(table).plain(value))
        more.setdefault("content_type", JSON)
        return self.event(topic, kind, payload, table, value, **more)

    def delete(self, topic, table=None):
        return self.event(topic, DELETE, table=table)


def before_and_after(store, place):
    """Give a store, and when that was looked at, what the next start opens."""
    yield store
    yield place.start()


def seen(event):
    """All that a reader can see of an event or record."""
    if event is None:
        return None
    decoded = "missing" if event.decoded is MISSING else repr(event.decoded)
    return (*event.fields, decoded, local_id(event.table, event.topic))


def all_seen(events):
    return [seen(event) for event in events]
