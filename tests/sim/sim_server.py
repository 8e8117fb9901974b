"""A whole server without a machine: the real kernel and the real MQTT edge on simulated threads."""

from math import inf

from sim_checks import require
from sim_loop import SimExecutor
from sim_store import number_of

import build
from rowcast.bus.subscriber import Subscriber
from rowcast.core.events import MESSAGE
from rowcast.core.read_limits import READER_THREADS
from rowcast.core.tables import Attribute, Logs, Role, Table, Type
from rowcast.core.topics import TopicFilter
from rowcast.doors.mqtt.sessions.session_loading import OWNER
from rowcast.doors.mqtt.sessions.wills import WILLS
from rowcast.features.retention.expiries import EndOfRecords, Expiries
from rowcast.features.retention.retention import Retention, RetentionSettings
from rowcast.features.shared_subscriptions.group_table import OWNER as GROUPS
from rowcast.features.undeclared_topics.topic_tables import OWNER as TOPIC_TABLES
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.reads.loop_turns import LoopTurns
from rowcast.reads.read_queue import ReadQueue
from rowcast.reads.record_cache import RecordCache
from rowcast.store.store import Keep
from rowcast.writes.pending_bytes import WriteBounds

KEY = Attribute("id", Type.ID, primary_key=True)
NUMBERS = tuple(Attribute(name, Type.LONG) for name in ("n", "k0", "k1", "k2"))
DOG = Table(
    "Dog",
    "Dog",
    (
        KEY,
        *NUMBERS,
        Attribute("created", Type.DATE, role=Role.CREATED_TIME),
        Attribute("updated", Type.DATE, role=Role.UPDATED_TIME),
    ),
)
NOTE = Table("Note", "Note", (KEY,), logs=Logs.QOS1)
COUNTER = Table("Counter", "Counter", (Attribute("id", Type.LONG, primary_key=True), *NUMBERS))
LEASE = Table("Lease", "Lease", (KEY, *NUMBERS), expiration_seconds=0.4)
TABLES = (DOG, NOTE, COUNTER, LEASE)


class Tap(Subscriber):
    """A subscriber to everything: it hears what is announced, at the moment of announcement."""

    def __init__(self, world, server):
        self._world = world
        self._server = server
        self.index = len(world.store.shadow)
        """How many of all that was ever stored are announced."""
        self._last_of = {}
        self.unlogged = []

    def offer(self, event):
        world = self._world
        if not self._server.alive:
            return
        n = number_of(event.payload, event.properties)
        world.trace(f"announce {event.topic} {event.kind} n={n} seq={event.seq}")
        if event.seq:
            if event.seq not in world.store.by_seq:
                first = world.announces_first and event.kind == MESSAGE and not event.qos
                require(first, "announced before it was stored", event)
                world.store.announced_first(event)
            wanted = world.store.shadow[self.index]
            self.index += 1
            require(wanted.seq == event.seq, "announced out of order", event, wanted)
        else:
            require(event.version == 0, "an unlogged event has a version", event)
            self.unlogged.append(event)
        attempt = world.attempts.get(n)
        again = n in world.heard
        world.heard.add(n)
        if attempt is not None and attempt.will is not None:
            attempt.will.told(world.loop.time())
        elif attempt is not None and attempt.sends > 1:
            fine = not again or n in world.store.repeatable
            require(fine, "announced twice", event)
        elif attempt is not None:
            before = self._last_of.get(attempt.caller, 0)
            require(before < n, f"{attempt.caller}: announced out of its order", before, event)
            self._last_of[attempt.caller] = n

    @property
    def complete(self):
        """Whether everything stored since the start was announced."""
        return self.index == len(self._world.store.shadow)


SLOW_READS_MAX = 1_000
"""Reads at once where each takes half a second: five could not keep up with these clients."""


class Ordered(dict):
    """A set that is gone through in the order of its making, so that a seed is a replay."""

    def add(self, item):
        self[item] = None

    def discard(self, item):
        self.pop(item, None)


class Server(build.Server):
    """One life of the server, from start to stop or crash."""

    def __init__(self, world):
        rng, loop, store = world.rng, world.loop, world.store
        self._world = world
        self.alive = True
        self.ended_at = inf
        writer = SimExecutor(loop, rng, ordered=True)
        self._slowness = rng.choice((1, 1, 10))
        readers = SimExecutor(loop, rng, ordered=False, slowness=self._slowness)
        store.meanwhile = readers.work_one
        cache = RecordCache(
            rng.choice((1, 2, 4, 8, 1000)),
            rng.choice((300, 10_000)),
            world.fork("cache").choice((8, 1_000)),
            weigh=lambda record: len(record.payload),
        )
        batch = world.fork("bounds").choice((1_500, 6_000, 1_000_000))
        shares = world.fork("shares")
        store.lags = shares.random() < 0.5
        shared = {
            "shared_events": shares.choice((1, 3, 256)),
            "shared_batch": shares.choice((1_100, 6_000, 1_000_000)),
            "caller_events": shares.choice((0, 1, 8)),
            "few_bytes": shares.choice((600, 1_200, 8_192)),
            "unawaited_events": shares.choice((1, 3, 64)),
            "unawaited_batch": shares.choice((1_100, 131_072)),
            "shared_client_high": shares.choice((1_200, 400_000)),
        }
        keep = Keep(events=rng.choice((0, 5, 20)))
        super().__init__(
            TABLES,
            store=store,
            topics=TopicSettings(rng.choice((0.02, 0.2, 2)), keep=keep),
            undeclared="table" if world.keeps_undeclared else "route",
            now=world.now,
            writer=writer,
            readers=readers,
            cache=cache,
            bounds=WriteBounds(batch=batch, **shared, **world.limits["writes"]),
            reading=world.limits["reads"],
        )
        self.kernel.turns = self.kernel.reader.turns = LoopTurns(clock=loop.time)  # for replays
        steps = world.limits["sweeps"]
        settings = RetentionSettings(keep, 1, step_events=steps["step_events"])
        self.retention = Retention(self.kernel, TABLES, settings, world.now)
        ends = EndOfRecords(self.kernel, world.now, ended_together=steps["step_records"])
        self.expiries = Expiries([ends], world.now, loop.call_later)
        self.committer.on_rare.append(self.expiries.written)
        self.tap = Tap(world, self)
        self._everything = TopicFilter("#")
        self.bus.add(self._everything, self.tap)
        self.links = []
        """Connections of MQTT clients, ever."""
        self.ends = []
        """What to call when the process dies."""
        lose = self.committer._lose
        self.committer._lose = lambda work, error: (store.lose(work.events), lose(work, error))
        first = world.announces_first
        self.open_mqtt(loop, receive_maximum=6, announces_first=first, **world.limits["mqtt"])
        self.broker.clients = Ordered()
        self.expiries.start()

    def _reader(self, limits):
        reader = super()._reader(limits)
        reader.queue = ReadQueue(
            self.store,
            self.readers,
            READER_THREADS if self._slowness == 1 else SLOW_READS_MAX,
            meter=lambda: lambda: 0.0,  # of a processor's time, so that a seed is a replay
        )
        return reader

    async def stop(self):
        """Stop as the program does when it is asked to."""
        await self.broker.stop()
        await self.expiries.stop()
        await super().stop()

    def kill(self):
        """Die as a process does."""
        self.alive = False
        store = self._world.store
        store.lose(list(store.ahead.values()))
        store.end()
        self.ended_at = self.loop.time()
        self.writer.kill()
        self.readers.kill()
        self.reader.queue.stop()
        for link in self.links:
            link.cut()
        clients = [link.client for link in self.links if link.client is not None]
        for client in clients:
            if client.opening is not None:
                client.opening.cancel()
        mine = {
            self.broker,
            self.broker.keeper,
            self.broker.wills,
            self.broker.wheel,
            *clients,
            *(item.patience for item in clients),
        }
        mine |= {self.expiries, self.topic_tables, self.groups, *self.groups}
        for group in self.groups:
            group.stop()
        for timer in self.loop.timers():
            owner = getattr(timer._callback, "__self__", None)
            if owner in mine:
                timer.cancel()
        for session in self.broker.sessions:
            if session.subscription is not None:
                session.subscription.close()
        for end in self.ends:
            end()
        for task in list(self.kernel._resource_dispatch._running):
            task.cancel()
        for task in (self.topic_tables._cleaning, self.expiries._task):
            if task is not None:
                task.cancel()

    def check_empty(self):
        """Check that nothing is left when every client is gone."""
        kernel, committer = self.kernel, self.kernel.committer
        kernel.bus.remove(self._everything, self.tap)
        if self._world.durable is not None:
            kernel.durable.remove(self._world.durable)
        left = {
            "pending": committer.pending,
            "backlog": committer.backlog,
            "relieved": committer._relieved,
            "subscriptions": kernel.bus.subscriptions,
            "tasks": kernel._resource_dispatch._running,
            "clients": self.broker.clients,
            "sessions": len(self.broker.sessions),
            "sessions on disk": self._world.store.states(OWNER),
            "wills on disk": self._world.store.states(WILLS),
            "groups on disk": self._world.store.states(GROUPS),
            "durable filters": kernel.durable._counts,
            "filters of topic tables": self.topic_tables._filters,
            "writer": not self.writer.idle,
            "readers": not self.readers.idle,
        }
        require(not any(left.values()), "left running", {k: v for k, v in left.items() if v})

    def check_topic_tables(self, store):
        """Check that the tables that are known are those on disk, and that there is no other."""
        known = {entry.table.name for entry in self.topic_tables}
        there = {table.name for table in store.topic_tables()}
        facts = {owner.removeprefix(TOPIC_TABLES) for owner, *_ in store.states(TOPIC_TABLES)}
        require(there <= known, "a topic table that nobody knows", there, known)
        require(facts <= known, "facts of no topic table", facts, known)
        for session in self.broker.sessions:
            exact = (item.topics.text for item in session.interests if item.topics.exact)
            wanted = {text for text in exact if text[0] in "uvw"}
            told = set(self.topic_tables._filters.get(session, ()))
            require(told == wanted, f"{session.client_id}: subscribes", told, wanted)

    def check_cache(self, store):
        """Check that memory and store agree."""
        head = store.shadow[-1].seq if store.shadow else 0
        size = 0
        for topic, record in self.cache._records.items():
            state = store.state(topic, head)
            told, wanted = (item.seq if item is not None else None for item in (record, state))
            require(told == wanted, "the cache is stale", topic, told, wanted)
            size += len(record.payload) if record is not None else 0
        require(size == self.cache._bytes, "the cache has miscounted", size, self.cache._bytes)
