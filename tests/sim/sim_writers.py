"""Those who write through the kernel's door: single writes, conditions, patches, batches, reads."""

import json

from sim_checks import require
from sim_store import Planted

from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.reads.record_cache import Unknown
from rowcast.store.store import Change
from rowcast.writes.write import A_RECORD, Condition, Receipt

TOPICS = (
    "Dog/1", "Dog/2", "Dog/3", "Dog/1", "Dog", "Note/a", "Note/b", "Counter/1", "Counter/2",
    "Lease/1", "Lease/2", "u/1", "u/2/x", "u/1", "v/1",
)  # fmt: skip
COLLECTIONS = {"Dog", "Note", "Counter", "Lease"}


def must_log(topic, kind, qos, wanted, *, undeclared):
    """Tell what goes into the log: the definition, once more; None if nobody can know.

    ``wanted``: whether a durable session asks for the topic; ``undeclared``: whether all that is
    said at undeclared topics does.
    """
    table = topic.split("/")[0]
    if undeclared and table not in COLLECTIONS:
        return True
    if kind != MESSAGE or table in {"Dog", "Counter", "Lease"} or (table == "Note" and qos > 0):
        return True
    return wanted if qos > 0 else False


def make_payload(rng, topic, n):
    """Return a payload that carries its number."""
    if topic.startswith(("Note", "u", "v")) and rng.random() < 0.3:
        return b"raw n=%d" % n + b"." * rng.randrange(80)
    value = {"n": n, f"k{rng.randrange(3)}": rng.randrange(100)}
    return json.dumps(value).encode()


def choose_kind(rng, topic, patches=True):
    """Return what to do at a topic."""
    if topic in COLLECTIONS:
        return MESSAGE
    kinds = (PUT, PUT, PUT, MESSAGE, MESSAGE, DELETE, PATCH if patches else PUT)
    return rng.choice(kinds)


class Writer:
    """One caller with writes under way."""

    def __init__(self, world, name, writes):
        self.world = world
        self.name = name
        self.writes = writes
        self.rng = world.fork(name)
        self.caller = Caller(name, ALL, "http", name)
        self.known = {}
        self.facts = 0

    async def run(self):
        rng, world = self.rng, self.world
        while self.writes > 0:
            server = await world.server_up()
            choice = rng.random()
            if choice < 0.1:
                await self._batch(server)
            elif choice < 0.2:
                self._keep(server)
            else:
                self._write(server)
            await world.loop.pause(rng.choice((0, 0, 0.001, 0.004, 0.03)))

    def _event(self, topic, kind, qos, group=None):
        """Return a numbered event and its attempt."""
        n = self.world.next_number()
        patch = None
        if kind == PATCH:
            patch = {"n": n, f"k{self.rng.randrange(3)}": self.rng.choice((None, n))}
            payload = json.dumps(patch).encode()
        else:
            payload = b"" if kind == DELETE else make_payload(self.rng, topic, n)
        properties = {"user_property": (("n", str(n)),)} if kind == DELETE else {}
        if kind == PUT and topic[0] in "uv" and self.rng.random() < 0.15:
            properties["message_expiry_interval"] = self.rng.randrange(1, 3)
        event = Event(
            topic, kind, payload, None, qos, kind != MESSAGE, None, self.name, properties or None
        )
        world = self.world
        wanted, undeclared = world.wanted(topic), world.keeps_undeclared
        logged = must_log(topic, kind, qos, wanted, undeclared=undeclared)
        self.world.attempt(n, self.name, logged, patch=patch, group=group)
        self.writes -= 1
        return n, event

    def _write(self, server):
        rng = self.rng
        topic = rng.choice(TOPICS)
        kind = choose_kind(rng, topic)
        n, event = self._event(topic, kind, rng.randrange(2))
        condition = self._condition(topic) if rng.random() < 0.25 and kind != MESSAGE else None
        attempt = self.world.attempts[n]
        attempt.condition = condition
        attempt.since = server.kernel.committer.announced
        self.world.trace(f"{self.name} {kind} {topic} n={n} {condition or ''}")

        def done(outcome):
            if server.alive:
                self.world.answered(n, outcome, event)
                if isinstance(outcome, Receipt) and outcome.event.seq:
                    self.known[topic] = outcome.event.seq

        changes = ()
        if rng.random() < 0.4:
            attempt.fact = True
            changes = (Change(self.name, str(n), b""), self._count())
        server.kernel.submit(event, self.caller, done, condition, changes)

    def _count(self):
        """Return a fact that only grows, in whichever way it comes to the disk."""
        self.facts += 1
        return Change(self.name, "last", b"%d" % self.facts)

    def _keep(self, server):
        """Change facts without a write; now and then nobody waits for it."""
        change = self._count()
        number = self.facts

        def done(error):
            if server.alive:
                kept = self.world.store.last.get(self.name, 0) >= number
                require(kept or error is not None, "said to be kept", change)
                require(error is None or error.code is Code.BUSY, "lost facts", change, error)

        server.kernel.committer.keep([change], self.rng.choice((done, done, None)))

    def _condition(self, topic):
        rng = self.rng
        known = self.known.get(topic, 1)
        return rng.choice(
            (
                Condition(exists=False),
                A_RECORD,
                Condition(exists=True),
                Condition(seqs=frozenset({known, known + 1})),
                Condition(not_seqs=frozenset({known})),
            )
        )

    async def _batch(self, server):
        rng, world = self.rng, self.world
        atomic = rng.random() < 0.7
        group = world.next_number() if atomic else None
        numbered = []
        for _ in range(rng.randrange(1, 7)):
            topic = rng.choice(TOPICS)
            kind = choose_kind(rng, topic)
            numbered.append(self._event(topic, kind, rng.randrange(2), group))
        world.trace(f"{self.name} batch {[n for n, _ in numbered]} atomic={atomic}")
        events = [event for _, event in numbered]
        try:
            work = server.kernel.write_all(events, self.caller, atomic=atomic)
            outcomes = await world.guard(work)
        except Error as error:
            outcomes = [error] * len(events)
        if outcomes is None:
            return
        for (n, event), outcome in zip(numbered, outcomes, strict=True):
            world.answered(n, outcome, event)


class Looker:
    """One caller that reads records, several at a time, and is never told of the past."""

    def __init__(self, world, name):
        self.world = world
        self.rng = world.fork(name)
        self.caller = Caller(name, ALL, "http", name)

    async def run(self):
        """Read until nobody writes any more."""
        topics = [item for item in TOPICS if item not in COLLECTIONS]
        while not self.world.quiet:
            server = await self.world.server_up()
            topic = self.rng.choice(topics)
            for _ in range(self.rng.randrange(1, 3)):
                self.world.begin(self._read, server, topic)
            await self.world.loop.pause(self.rng.choice((0, 0.002, 0.005, 0.02)))

    async def _read(self, server, topic):
        world, kernel = self.world, server.kernel
        since = kernel.committer.announced
        known = kernel.peek(topic, self.caller)
        if isinstance(known, Unknown):
            try:
                known = await world.guard(kernel.read(topic, self.caller))
            except (Error, Planted) as error:
                if getattr(error, "code", None) is not Code.NOT_FOUND:
                    return
                known = None
            if not server.alive:
                return
        states = world.store.records_since(topic, since)
        told = known.seq if known is not None else None
        may_be = {state.seq if state is not None else None for state in states}
        if any(state and 0 < state.expires_at <= world.now() for state in states):
            may_be.add(None)
        require(told in may_be, "a read of the past or of nothing", topic, told, may_be)
        self._compare(known)

    def _compare(self, known):
        """Check that a record from memory is the store's, to the byte."""
        store = self.world.store
        held = store.held(known.table, known.topic) if known is not None else None
        if held is not None and held.seq == known.seq:
            require(held.fields == known.fields, "two forms of a record", held, known)
