"""Nodes of a simulated cluster, and the connections between them."""

from collections import deque

from sim_checks import Violation, require
from sim_loop import SimExecutor
from sim_server import TABLES

import build
from memory_log import MemoryLog
from memory_store import MemoryStore
from rowcast.cluster.follower_link import FollowerLink
from rowcast.cluster.forwarding import ForwardingCommitter
from rowcast.cluster.sequencer_links import SequencerLinks
from rowcast.cluster.sequencing import SequencingCommitter
from rowcast.core.errors import Code, Error
from rowcast.core.events import RETAINED
from rowcast.core.topics import TopicFilter
from rowcast.journal.applying import InlineApplying
from rowcast.journal.follower_store import FollowerStore
from rowcast.journal.journaled_store import JournaledStore
from rowcast.log.followed_log import FollowedLog
from rowcast.log.log import Head
from rowcast.reads.before_image import UnknownBefore, before_of
from rowcast.writes.pending_bytes import WriteBounds

START = 1_700_000_000
EPOCH = "5eed5eed"
DECLARED = {table.name: table for table in TABLES}
ANSWER_SECONDS = 0.6


class Tables(MemoryStore):
    """Tables in memory that outlive a node's life."""

    _staged = 0, (), ()
    _yields = frozenset()
    _superseded = ()

    def stage(self, table, after, page, *, yields=False):
        """Keep a page of a result, for a table."""
        events, changes = page
        if self._staged[0] != after:
            self._staged, self._superseded, self._yields = (after, (), ()), (), frozenset()
        _, known, facts = self._staged
        self._staged = after, (*known, *events), (*facts, *changes)
        self._yields |= {table} if yields else set()

    def commit(self, events, changes=(), applied=0):
        """Write, and forget what is staged of the same records, and older."""
        after, staged, facts = self._staged
        newest = {event.topic: event.version for event in events if event.kind in RETAINED}
        yields = (event for event in staged if event.table in self._yields)
        older = [one for one in yields if one.version < newest.get(one.topic, 0)]
        if older:
            self._superseded = (*self._superseded, *older)
            gone = {event.topic for event in older}
            left = tuple(event for event in staged if event not in older)
            self._staged = after, left, tuple(fact for fact in facts if fact.name not in gone)
        return super().commit(events, changes, applied)

    def superseded(self):
        """Tell how many rows have lost."""
        return len(self._superseded), 0, 0

    def switch(self, last, counts):
        """Let all see it."""
        count = sum(events for _, events, _ in counts)
        (_, events, changes), self._staged = self._staged, (0, (), ())
        lost, self._superseded = len(self._superseded), ()
        require(len(events) + lost == count, "pages of a result are missing", len(events), count)
        with self._lock:
            for event in events:
                self._apply(event)
            for change in changes:
                self._change(change)

    def abandon(self):
        """Forget it."""
        self._staged, self._superseded = (0, (), ()), ()

    def finish_staged(self):
        """Do what a server of its own does, which nobody may do here."""
        self.abandon()

    def move_staged(self, limit):
        """Tell that nothing is left."""
        return False

    def sync(self):
        return self._applied

    def image(self):
        """Return all that they have, for comparison."""
        records = {
            record.topic: record.fields
            for part in self._parts.values()
            for record in part.records.values()
        }
        return records, {owner: dict(facts) for owner, facts in self._states.items()}


class Engine(MemoryLog):
    """One node's view of the log that all share; it bounds its age itself."""

    def trim(self, until):
        """Leave it to the engine."""


class Threads(SimExecutor):
    """The writer thread of a process that can be paused."""

    def __init__(self, loop, rng, node):
        super().__init__(loop, rng, ordered=True)
        self._node = node

    def work_one(self):
        if self._node.paused:
            self._loop.call_later(0.01, self.work_one)
        else:
            super().work_one()


class Node(build.Server):
    """One life of one node: a kernel with what features need to write."""

    def __init__(self, world, name, store, tables):
        self.world, self.name, self.tables_in = world, name, tables
        self.alive, self.paused = True, False
        rng = world.rng
        skew = rng.uniform(-0.05, 0.05)
        self.heard = []
        self.from_seq = store_head = tables.head()
        writer = Threads(world.loop, rng, self)
        bounds = WriteBounds(batch_events=rng.choice((1, 3, 100)))
        super().__init__(
            TABLES,
            store=store,
            now=lambda: START + skew + world.loop.time(),
            writer=writer,
            readers=SimExecutor(world.loop, rng, ordered=False),
            bounds=bounds,
        )
        self.from_seq = max(store_head, self.store.head())
        self.bus.add(TopicFilter("#"), self)
        self.kernel.reader.remember_before(TABLES[0])  # as a live query does
        self.kernel.registry.shapes[TABLES[0].name].ruled = True

    def offer(self, event):
        if event.seq and self.alive:
            self.heard.append(event.seq)
            if event.seq not in self.world.by_seq():
                self.world.violations.append(Violation(f"announced before it was stored {event}"))
            elif event.table is TABLES[0]:
                self._check_before(event)

    def fall_behind(self, event):
        """Note where a large result begins, which is not offered."""
        if self.alive:
            self.heard.append(event.seq)

    def _check_before(self, event):
        """The record before an event is that of the log."""
        before, wanted = before_of(event), self.world.seq_before(event)
        if not isinstance(before, UnknownBefore):
            before = 0 if before is None else before.seq
        if before != wanted:
            self.world.violations.append(Violation(f"not before {event}: {before}, {wanted}"))

    def show(self, event, path):
        """Hear nothing of system rows."""

    def kill(self):
        self.alive = False
        self.writer.kill()
        self.readers.kill()
        for wire in list(self.wires):
            wire.cut()


class Leader(Node):
    """The sequencer, or a node that believes to be it."""

    def __init__(self, world, name):
        tables = Tables(EPOCH)
        self.log = Engine(EPOCH, world.engine)
        store = JournaledStore(tables, self.log, InlineApplying(tables, self.log), world.now)
        store.sweeps = False  # as the program has it (``node_opening.py``)
        self.wires = []
        super().__init__(world, name, store, tables)
        self.links = SequencerLinks(self.committer, self.store, self.log, DECLARED.get)
        self.links.begin()

    def _committer(self, bounds):
        parts = (self.store, self.bus, self.cache, self.clock, self.writer, bounds)
        return SequencingCommitter(*parts, tables=TABLES, confirms=True)


class Follower(Node):
    """A node that follows, and connects again and again."""

    def __init__(self, world, name, tables, life):
        self.wires = []
        head = Head(tables.applied(), tables.head())
        log = FollowedLog(EPOCH, head)
        self.life = f"{name}/{life}"
        store = FollowerStore(tables, log, InlineApplying(tables, log), world.now)
        super().__init__(world, name, store, tables)
        self.link = FollowerLink(
            self.committer,
            self.store,
            DECLARED.get,
            world.loop,
            self.readers,
            answer_seconds=ANSWER_SECONDS,
        )

    def _committer(self, bounds):
        parts = (self.store, self.bus, self.cache, self.clock, self.writer, bounds)
        return ForwardingCommitter(*parts, node=self.life)

    def connect(self):
        if self.alive and not self.wires:
            Wire(self.world, self, self.world.leader)


class Wire:
    """A connection: both ways in order, with delays; some messages arrive twice."""

    def __init__(self, world, follower, leader):
        self.world, self.follower, self.leader = world, follower, leader
        self.open = True
        self._on_the_way = {"up": deque(), "down": deque()}
        follower.wires.append(self)
        leader.wires.append(self)
        self.link = leader.links.link(lambda data: self._carry("down", data))
        follower.link.connected(lambda data: self._carry("up", data))

    def _carry(self, way, data):
        rng, loop = self.world.rng, self.world.loop
        times = 2 if data[1] in {4, 6} and rng.random() < 0.2 else 1  # PROPOSAL, VERDICT
        for _ in range(times):
            delay = rng.choice((0.0001, 0.001, 0.01, rng.random() * 0.1))
            self._on_the_way[way].append(data)
            loop.call_later(delay, self._arrive, way)

    def _arrive(self, way):
        """Deliver the oldest message of a way."""
        if not self.open:
            return
        there = self.leader if way == "up" else self.follower
        if there.paused:
            self.world.loop.call_later(0.01, self._arrive, way)
            return
        data = self._on_the_way[way].popleft()
        try:
            (self.link if way == "up" else self.follower.link).received(data)
        except Error as error:
            require(error.code in {Code.CONFLICT, Code.INVALID}, "a message was refused", error)
            self.cut()

    def cut(self):
        if not self.open:
            return
        self.open = False
        self.link.close()
        self.follower.wires.remove(self)
        self.leader.wires.remove(self)
        if self.follower.alive:
            self.follower.link.disconnected()
            delay = self.world.rng.choice((0.001, 0.05, 0.3))
            self.world.loop.call_later(delay, self.follower.connect)
