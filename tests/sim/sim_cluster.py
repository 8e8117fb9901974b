"""Several nodes on one log, from one seed: links that are cut, nodes that are killed and paused.

The log is an engine with compare-and-set, shared by every node that ever numbered. Nodes have
kernels, committers and tables of their own; only sockets and threads are simulated.
"""

import asyncio
import json
import random
from bisect import bisect_right

from sim_checks import Violation, require
from sim_loop import SimLoop
from sim_nodes import ANSWER_SECONDS, DECLARED, EPOCH, START, Follower, Leader, Tables
from sim_results import SeenResults
from sim_server import TABLES
from sim_store import number_of

import build
from rowcast.codecs import JSON
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, RETAINED, Event
from rowcast.core.facts import Change
from rowcast.log.batch import Batch
from rowcast.writes.staged_commit import NOWHERE, YieldScope
from rowcast.writes.write import A_RECORD, FIRE_AND_FORGET, Condition, Receipt, Write
from virtual import turns

TOPICS = ("Dog/1", "Dog/2", "Counter/7", "free/a", "free/b")
HORIZON = 3.0
"""Simulated seconds of trouble; then everything is mended, and must come to rest."""


class World:
    """One run."""

    def __init__(self, seed, *, results=False):
        self.results, self.chance = results, random.Random(seed + 2)
        self.large, self.seen = [], SeenResults(DECLARED.get)
        self.rng = random.Random(seed)
        self.loop = SimLoop(random.Random(seed + 1))
        self.loop._mixing = 0.0  # wires keep the order of what they carry
        self.engine = []
        self.numbers = 0
        self.acknowledged, self.refused, self.unknown = {}, {}, set()
        self.cuts, self.groups = {}, []
        self._seqs, self._decoded = {}, 0
        self._befores, self._newest = {}, {}
        self.events = []
        self.violations = []
        """What was found where nobody could hear an exception."""

    def now(self):
        return START + self.loop.time()

    def by_seq(self):
        """Return the events of the log by their numbers."""
        while self._decoded < len(self.engine):
            batch = Batch.read(self.engine[self._decoded])
            require(batch.number == self._decoded + 1, "a batch without its number", batch.number)
            content = batch.content(DECLARED.get)
            self.seen.yields(content.events)
            for event in (*content.events, *self.seen.switched(content.operations)):
                last = self.events[-1].seq if self.events else 0
                require(event.seq > last, "numbers do not grow", last, event)
                self.events.append(event)
                self._seqs[event.seq] = event
            self._decoded += 1
        return self._seqs

    def seq_before(self, event):
        """Return the number of the record before an event; 0 without one."""
        known = self.by_seq()
        if event.seq not in self._befores:
            newest = self._newest
            for seq in sorted(seq for seq in known if seq not in self._befores):
                stored = known[seq]
                self._befores[seq] = newest.get(stored.topic, 0)
                if stored.kind in RETAINED:
                    newest[stored.topic] = 0 if stored.kind == DELETE else seq
        return self._befores[event.seq]

    def states(self, topic, since):
        """Return the numbers of the record at a topic from a position on; 0 for none."""
        self.by_seq()
        known, found = 0, []
        for event in self.events:
            if event.seq > since and not found:
                found.append(known)
            if event.topic == topic and event.kind in RETAINED:
                known = 0 if event.kind == DELETE else event.seq
                if event.seq > since:
                    found.append(known)
        return found or [known]

    # -- clients -----------------------------------------------------------------------------------

    async def client(self, number):
        rng, seen = self.rng, {}
        while self.loop.time() < HORIZON:
            await self.loop.pause(rng.choice((0, 0.001, 0.01, 0.05)))
            # Also those that have led before, and may not know that another one does.
            nodes = [node for node in (*self.followers, *self.led) if node.alive]
            node = nodes[number % len(nodes)]
            kind = rng.random()
            if kind < 0.1:
                await self._fact(node, number)
            elif kind < 0.2:
                await self._group(node, number)
            else:
                await self._write(node, number, seen)

    async def _fact(self, node, number):
        self.numbers += 1
        name = str(self.numbers)
        future = self.loop.create_future()
        change = Change(f"own/{number}", "last", name.encode())
        node.committer.keep((change,), lambda error: future.done() or future.set_result(error))
        await self._patiently(node, future)

    async def _group(self, node, number):
        """Write two records: both are in the log, one after the other, or none is."""
        first, second = self.rng.sample(TOPICS, 2)
        self.numbers += 2
        numbers = self.numbers - 1, self.numbers
        events = [
            Event(topic, PUT, json.dumps({"n": n}).encode(), "application/json", 1, True)
            for topic, n in zip((first, second), numbers, strict=True)
        ]
        caller = build.Caller(f"client{number}", build.ALL, "http")
        future = self.loop.create_task(node.kernel.write_all(events, caller, atomic=True))
        outcomes = await self._patiently(node, future)
        self.groups.append(numbers)
        if outcomes is None:
            self.unknown.update(numbers)
            future.cancel()
            return
        for n, outcome in zip(numbers, outcomes, strict=True):
            if isinstance(outcome, Receipt):
                self.acknowledged[n] = outcome.event.seq
            elif "not known" in outcome.message:
                self.unknown.add(n)
            else:
                self.refused[n] = outcome

    async def result(self):
        """Write large results at the sequencer: all of one is in the log, or nothing."""
        while self.loop.time() < HORIZON:
            await self.loop.pause(self.chance.choice((0.01, 0.1, 0.3)))
            node, rows = self.leader, self.chance.choice((2, 5))
            numbers = range(self.numbers + 1, self.numbers + 1 + 3 * rows)
            self.numbers = numbers[-1]
            writing = self.loop.create_task(self._result(node, numbers, rows))
            self.large.append((numbers, await self._patiently(node, writing)))
            writing.cancel()

    async def _result(self, node, numbers, rows):
        """Write one of two pages and one of another table; return whether it is acknowledged."""
        committer, chance = node.committer, self.chance
        tables = [name for name in ("Dog", "Counter") if chance.random() < 0.6]
        contested = chance.random() < 0.5
        yields = YieldScope(tables, lambda _topic: True) if tables else NOWHERE
        try:
            staged = committer.begin_staged(len(numbers), yields)
        except Error:
            return False
        pages = [
            [f"Dog/{at if second is contested else n}" for at, n in enumerate(some)]
            for second, some in enumerate((numbers[:rows], numbers[rows : 2 * rows]))
        ]
        pages.append(["Counter/7", *(f"Counter/{1_000 + n}" for n in numbers[2 * rows + 1 :])])
        try:
            for start, topics in enumerate(pages):
                some = [
                    Event(topic, PUT, b'{"n": %d}' % n, JSON, 1, True)
                    for topic, n in zip(topics, numbers[start * rows :], strict=False)
                ]
                told = await committer.stage(staged, [admitted(node, event) for event in some])
                self.seen.lost |= {number_of(one.event.payload) for one in told if one.late}
                await self.loop.pause(self.chance.choice((0, 0.01, 0.1)))
            await committer.switch(staged, lambda *_: (), lambda _topic: True)
        except Error:
            return False
        finally:
            committer.abandon(staged)
        return True

    async def _patiently(self, node, future):
        """Wait for an answer, unless the node dies."""
        while not future.done() and node.alive:
            await self.loop.pause(0.005)
        return future.result() if future.done() else None

    async def _write(self, node, number, seen):
        rng = self.rng
        self.numbers += 1
        n = self.numbers
        topic = rng.choice(TOPICS)
        kind = rng.choice((PUT, PUT, PATCH, PATCH, DELETE, MESSAGE))
        condition = None
        if kind == MESSAGE:
            topic = "Note/1"
        elif rng.random() < 0.4:
            known = seen.get(topic, 0)
            condition = Condition(seqs=frozenset({known})) if known else Condition(exists=False)
        if kind == DELETE:
            condition = condition or A_RECORD
        value = {"n": n} if kind != PATCH else {"n": n, f"k{number % 3}": n}
        payload = b"" if kind == DELETE else json.dumps(value).encode()
        event = Event(topic, kind, payload, "application/json", 1, kind != MESSAGE)
        if kind == DELETE:
            event.content_type, event.properties = None, {"user_property": [["n", str(n)]]}
        caller = build.Caller(f"client{number}", build.ALL, "http")
        since = self.events[-1].seq if self.by_seq() else 0
        future = self.loop.create_future()

        def done(outcome):
            try:
                require(not future.done(), "answered twice", n)
                self._answered(n, kind, topic, condition, since, outcome)
            except Violation as violation:
                self.violations.append(violation)
            if not future.done():
                future.set_result(outcome)

        node.kernel.submit(event, caller, done, condition, wants_existed=True)
        outcome = await self._patiently(node, future)
        if isinstance(outcome, Receipt) and not outcome.late:
            await self._look(node, outcome.event, caller)
            if kind in {PUT, PATCH}:
                seen[topic] = outcome.event.seq
        elif isinstance(outcome, Error) and isinstance(outcome.detail.get("seq"), int):
            seen[topic] = outcome.detail["seq"]
        else:
            seen.pop(topic, None)
            if outcome is None:
                self.unknown.add(n)

    def _answered(self, n, kind, topic, condition, since, outcome):
        known = self.by_seq()
        if isinstance(outcome, Receipt):
            event = outcome.event
            self.acknowledged[n] = event.seq
            stored = known.get(event.seq)
            require(stored is not None, "acknowledged, not stored", n, event)
            own = number_of(stored.payload, stored.properties) == n
            require(own and stored.topic == topic, "stored under another number", n, event, stored)
            require(stored.version == event.version, "another version", event, stored)
            before = self.states(topic, event.seq - 1)[0]
            if kind != MESSAGE:
                require(outcome.existed == bool(before), "existed is wrong", n, before)
            if condition is not None and kind != MESSAGE:
                require(_met(condition, before), "written although it must not be", n, before)
            return
        if outcome.code in {Code.PRECONDITION, Code.NOT_FOUND}:
            states = self.states(topic, since)
            wrong = not all(_met(condition, seq) for seq in states)
            require(wrong, "refused although its condition held", n, condition, states)
            seq = outcome.detail.get("seq")
            require(seq is None or seq in known, "refused because of a number of none", n, seq)
        else:
            require(outcome.code is Code.BUSY, "refused without a reason", n, outcome)
        if "not known" in outcome.message:
            self.unknown.add(n)
        else:
            self.refused[n] = outcome

    async def _look(self, node, event, caller):
        """Read one's own write, at the node that took it."""
        if event.kind == MESSAGE or not node.alive:
            return
        future = self.loop.create_task(_read(node, event.topic, caller))
        record = await self._patiently(node, future)
        if record is None:
            if not future.done():
                future.cancel()
                return
            later = any(seq != event.seq for seq in self.states(event.topic, event.seq - 1)[1:])
            require(event.kind == DELETE or later, "one's own write is not there", event)
        else:
            require(record.seq >= event.seq, "one's own write is not there yet", event, record)

    # -- trouble -----------------------------------------------------------------------------------

    async def make_trouble(self):
        rng = self.rng
        while self.loop.time() < HORIZON and not self.violations:
            await self.loop.pause(rng.random() * rng.choice((0.3, 1.0)))
            rng.choice((self._cut, self._cut, self._kill_leader, self._replace, self._restart))()

    def _cut(self):
        wires = self.leader.wires
        if wires:
            self.rng.choice(wires).cut()

    def _lead(self):
        self.leaders += 1
        self.leader = Leader(self, f"leader{self.leaders}")
        self.all.append(self.leader)
        self.led = [self.leader, *self.led][:3]

    def _kill_leader(self):
        old = self.leader
        old.alive = False
        self._lead()
        old.kill()

    def _replace(self):
        """Let another one lead while the old one is paused; it goes on believing for a while."""
        old = self.leader
        old.paused = self.rng.random() < 0.7
        self._lead()
        self.loop.call_later(self.rng.random() * 0.5, setattr, old, "paused", False)
        for wire in list(old.wires):
            self.loop.call_later(self.rng.random() * 0.6, wire.cut)

    def _restart(self):
        index = self.rng.randrange(len(self.followers))
        old = self.followers[index]
        old.kill()
        self._check_heard(old)
        self.lives += 1
        node = Follower(self, old.name, old.tables_in, self.lives)
        self.followers[index] = node
        self.all.append(node)
        node.connect()

    # -- checks ------------------------------------------------------------------------------------

    async def run(self):
        self.leaders = self.lives = 0
        self.all, self.led = [], []
        self._lead()
        self.followers = [
            Follower(self, f"node{index}", Tables(EPOCH), 0)
            for index in range(self.rng.choice((2, 3, 4)))
        ]
        self.all += self.followers
        for node in self.followers:
            node.connect()
        clients = [
            self.loop.create_task(self.client(number)) for number in range(self.rng.choice((3, 8)))
        ]
        clients += [self.loop.create_task(self.result())] if self.results else []
        trouble = self.loop.create_task(self.make_trouble())
        watching = self.loop.create_task(self._compare())
        await trouble
        if self.violations:
            raise self.violations[0]
        for task in clients:
            await task
        for node in self.all:
            node.paused = False
        await self.loop.pause(ANSWER_SECONDS * 3)
        await watching
        if self.violations:
            raise self.violations[0]
        self._check_end()
        for node in self.all:
            node.alive = False
            node.kill()
        for task in asyncio.all_tasks() - {asyncio.current_task()} if self.results else ():
            task.cancel()  # such as a switch that waits for the turn of a node that died
        await self.loop.pause(0)
        return len(self.events), len(self.acknowledged), len(self.refused), len(self.unknown)

    async def _compare(self):
        """Compare tables of nodes at equal positions, whenever that may be."""
        while self.loop.time() < HORIZON:
            await self.loop.pause(0.03)
            for node in (*self.followers, self.leader):
                self._note(node)

    def _note(self, node):
        number, image = node.tables_in.applied(), node.tables_in.image()
        known = self.cuts.setdefault(number, image)
        require(known == image, "tables differ at an equal position", node.name, number)

    def _check_heard(self, node):
        self.by_seq()
        seqs = [event.seq for event in self.events if event.seq not in self.seen.silent]
        start = bisect_right(seqs, node.from_seq)
        wanted = seqs[start : start + len(node.heard)]
        require(node.heard == wanted, "announced out of order", node.name, node.heard, wanted)

    def _check_end(self):
        self.by_seq()
        found = {}
        for event in self.events:
            n = number_of(event.payload, event.properties)
            require(n not in found, "numbered twice", n, event)
            found[n] = event
        for first, second in self.groups:
            together = (first in found) == (second in found)
            require(together, "half of a group is in the log", first, second)
        require(not self.seen.over_newer, "staged over newer writes", self.seen.over_newer)
        for numbers, acknowledged in self.large:
            there = [n in found for n in numbers if n not in self.seen.lost]
            require(len(set(there)) == 1, "half of a result is in the log", numbers, there)
            require(there[0] or not acknowledged, "a result is lost", numbers)
        self._check_times()
        for n, seq in self.acknowledged.items():
            require(n in found and found[n].seq == seq, "an acknowledged write is lost", n, seq)
        for n, outcome in self.refused.items():
            require(n not in found, "refused, and stored", n, outcome, found.get(n))
        for node in self.all:
            self._check_heard(node)
        for node in self.followers:
            same = node.store.number == len(self.engine)
            require(
                same,
                "a node has not followed",
                node.name,
                node.store.number,
                len(self.engine),
                node.link.problem,
                len(node.wires),
            )
            require(not node.link.problem, "a node is not connected", node.link.problem)
            require(node.committer.proposed == 0, "a proposal is left", node.name)
            self._note(node)
        self._note(self.leader)

    def _check_times(self):
        """The time of creation is that of the first write after there was nothing."""
        created = {}
        for event in self.events:
            if event.table is not TABLES[0]:
                continue
            if event.kind == DELETE:
                created.pop(event.topic, None)
                continue
            time = json.loads(event.payload)["created"]
            if event.seq in self.seen.staged:  # decided before others wrote, and seen after them
                created[event.topic] = time
            known = created.setdefault(event.topic, time)
            require(known == time, "a record was created twice", known, event)


async def _read(node, topic, caller):
    try:
        return await node.kernel.read(topic, caller)
    except Error as error:
        require(error.code is Code.NOT_FOUND, "a read was refused", error)
        return None


def _met(condition, seq):
    """Tell whether a condition is met by a record's number; 0 is none."""
    if not seq:
        return not (condition.strict or condition.exists or condition.seqs is not None)
    if condition.exists is False or seq in condition.not_seqs:
        return False
    return condition.seqs is None or seq in condition.seqs


def admitted(node, event):
    """Return the write of a row of a result."""
    write = Write(event, build.ANN, FIRE_AND_FORGET, passed=True)
    node.kernel.writes.admit(write)
    return write


def run(seed, *, results=False):
    """Run a seed; return how many events there were, acknowledged, refused, and not known.

    ``results``: there are large results, too.
    """
    world = World(seed, results=results)
    asyncio.set_event_loop(world.loop)
    try:
        return world.loop.run_until_complete(world.run())
    finally:
        for task in asyncio.all_tasks(world.loop):  # what a violation has left
            task.cancel()
        world.loop.run_until_complete(turns())
        asyncio.set_event_loop(None)
        world.loop.close()
