"""An engine without a machine: a store in memory, and threads that work when the test says so."""

import asyncio
from collections import deque
from concurrent.futures import Executor, Future

from memory_store import MemoryStore
from rowcast.bus.bus import Bus
from rowcast.core.callers import ALL, Caller
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.tables import Attribute, Logs, Role, Table, Type
from rowcast.core.topics import TopicFilter
from rowcast.features.undeclared_topics.topic_table_rows import PATH, topic_table_rows
from rowcast.features.undeclared_topics.topic_tables import OWNER, TopicTables
from rowcast.kernel.cache import RecordCache
from rowcast.kernel.commit import Committer
from rowcast.kernel.kernel import Engine
from rowcast.kernel.reader import Reader
from rowcast.kernel.registry import Registry

NOW = 1_700_000_000.0
KEY = Attribute("id", Type.ID, primary_key=True)
DOG = Table(
    "Dog",
    "Dog",
    (
        KEY,
        Attribute("name", Type.STRING),
        Attribute("age", Type.INT),
        Attribute("created", Type.DATE, role=Role.CREATED_TIME),
        Attribute("updated", Type.LONG, role=Role.UPDATED_TIME),
    ),
)
NOTE = Table("Note", "Note", (KEY,), logs=Logs.QOS1)
COUNTER = Table("Counter", "Counter", (Attribute("id", Type.LONG, primary_key=True),))
LEASE = Table(
    "Lease", "Lease", (KEY, Attribute("name", Type.STRING)), expiration_seconds=60
)  # fmt: skip
TABLES = (DOG, NOTE, COUNTER, LEASE)


class Stepped(Executor):
    """A thread that works at once, or, when held, step by step."""

    def __init__(self):
        self.held = False
        self.stopped = False
        self.waiting = deque()

    def submit(self, fn, /, *args, **kwargs):
        if self.stopped:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        self.waiting.append((future, fn, args))
        if not self.held:
            self.step()
        return future

    def step(self):
        """Do the oldest piece of work."""
        future, fn, args = self.waiting.popleft()
        try:
            result = fn(*args)
        except Exception as error:  # noqa: BLE001 - the future carries it
            future.set_exception(error)
        else:
            future.set_result(result)

    def release(self):
        """Work at once from now on, beginning with what waits."""
        self.held = False
        while self.waiting:
            self.step()


class Listener:
    """A subscriber that remembers."""

    def __init__(self, room, topics="#"):
        self.events = []
        room.bus.add(TopicFilter(topics), self)

    def offer(self, event):
        self.events.append(event)

    @property
    def topics(self):
        return [event.topic for event in self.events]


class Room:
    """Everything of one engine."""

    def __init__(
        self,
        tables=TABLES,
        *,
        undeclared=True,
        store=None,
        resources=(),
        kept=None,
        bounds=None,
        **options,
    ):
        """Make it.

        ``kept`` are the settings of topic tables, if undeclared topics have some; ``bounds`` are
        those of writes in hand.
        """
        self.time = NOW
        self.store = store or MemoryStore("0badcafe")
        self.store.open(tables)
        self.bus = Bus()
        self.cache = RecordCache()
        self.writer, self.readers = Stepped(), Stepped()
        self.clock = HybridClock(self.now, self.store.last_version())
        self.committer = Committer(
            self.store, self.bus, self.cache, self.clock, self.writer, bounds
        )
        self.reader = Reader(
            self.store, self.cache, self.readers, tables, lambda: self.committer.announced
        )
        self.registry = Registry(tables, undeclared=undeclared, logged=kept is not None)
        self.topic_tables = None
        if kept is not None:
            self.topic_tables = TopicTables(
                self.store, self.committer, self.registry, kept, self.now
            )
            self.registry.add(PATH, topic_table_rows(self.topic_tables))
            self.topic_tables.restore(self.store.topic_tables(), self.store.states(OWNER))
            options["topic_tables"] = self.topic_tables
        for path, resource in resources:
            self.registry.add(path, resource)
        self.engine = Engine(
            self.registry, self.bus, self.committer, self.reader, self.now, **options
        )

    def now(self):
        return self.time

    async def put(self, topic, payload=b"{}", caller=None, condition=None, **facts):
        event = Event(topic, PUT, payload, qos=1, retain=True, **facts)
        return await self.engine.write(event, caller or ANN, condition)

    async def delete(self, topic, condition=None):
        event = Event(topic, DELETE, b"", qos=1, retain=True)
        return await self.engine.write(event, ANN, condition)

    async def say(self, topic, payload=b"{}", caller=None, qos=0, **facts):
        event = Event(topic, MESSAGE, payload, qos=qos, **facts)
        return await self.engine.write(event, caller or ANN)


ANN = Caller("ann", ALL, "http")
BEN = Caller("ben", ALL, "http")


async def turns(count=5):
    """Let the loop go round a few times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def refusal(work):
    """Return the code with which work is refused."""
    try:
        await work
    except Error as error:
        return error.code
    return None


def code_of(call, *args, **kwargs):
    """Return the code with which a call is refused."""
    try:
        call(*args, **kwargs)
    except Error as error:
        return error.code
    return None


__all__ = [
    "ANN", "BEN", "COUNTER", "DOG", "KEY", "LEASE", "NOTE", "NOW", "TABLES", "Code", "Listener",
    "Room", "Stepped", "code_of", "refusal", "turns",
]  # fmt: skip
