"""A simulation: one seed makes a server, its clients and their bad luck, and checks every promise.

``run(seed)`` returns the digest of all that happened; a second run of the seed gives the same. A
broken promise raises Failed with the seed and the last things that happened.
"""

import asyncio
import contextlib
import hashlib
import logging
import random
from collections import deque
from unittest.mock import patch

from sim_checks import (
    LATER,
    Violation,
    check_facts,
    check_fold,
    check_groups,
    check_history,
    holds,
    require,
)
from sim_crews import Crew
from sim_devices import Chatterer, Device
from sim_journal import SimJournal
from sim_loop import SimLoop
from sim_passers import Passers
from sim_readers import Juggler, Watcher
from sim_residents import Resident
from sim_server import TABLES, Server
from sim_store import Planted, SimStore, number_of
from sim_wire import hear_goodbye
from sim_writers import Looker, Writer, must_log

from rowcast.core.clock import LeapGuard
from rowcast.core.errors import Code, Error
from rowcast.core.topic_tables import TopicRoot
from rowcast.core.topics import TopicFilter
from rowcast.doors.mqtt.packets.handlers import HANDLERS
from rowcast.mqtt.packets import Disconnect
from rowcast.store.store import Keep
from rowcast.writes.write import Receipt

LIMITS = {
    "queue_events": ("reads", (2, 5, 20, 200)),
    "queue_bytes": ("reads", (200, 2_000, 100_000)),
    "log_page_events": ("reads", (2, 3, 7, 100)),
    "scan_records": ("reads", (1, 2, 3, 100)),
    "batch_events": ("writes", (1, 3, 10, 100)),
    "backlog_events": ("writes", (8, 30, 1_000)),
    "backlog_events_high": ("writes", (2, 5, 1_000)),
    "backlog_changes": ("writes", (5, 20, 1_000)),
    "reserved_numbers": ("writes", (1, 5, 100)),
    "step_events": ("sweeps", (1, 3, 100)),
    "step_records": ("sweeps", (1, 2, 100)),
    "flush_events": ("mqtt", (1, 3, 50)),
}
"""Bounds made small, so that a short run crosses them: whose it is, and what a seed may choose."""
START = 1_700_000_000
TRACE_LINES = 60
LEAP_SECONDS = 400 * 86_400
LEAPS_UNTIL = 30
"""Virtual time until which the clock leaps: later, nobody looks at it for a minute at times, who
would then see two leaps as one that lasts."""
QUIET_SECONDS = 60
"""Virtual time for everything that waits to arrive."""


class Failed(AssertionError):  # noqa: N818 - a sentence reads so
    """A seed that breaks a promise."""


class Attempt:
    """One write that somebody tried."""

    __slots__ = (
        "caller", "condition", "fact", "group", "logged", "outcome", "patch", "sends", "server",
        "since", "will",
    )  # fmt: skip

    def __init__(self, server, caller, logged, patch, group, will):
        self.server = server
        self.caller = caller
        self.logged = logged
        self.patch = patch
        self.group = group
        self.condition = None
        self.fact = False
        """Whether a fact, named by its number, is to become true with it."""
        self.outcome = None
        self.since = 0
        self.sends = 1
        """How often it was sent."""
        self.will = will
        """What is known of it if it is a will."""

    def submitted(self, logged):
        """Note whether it is to be logged; None if it was sent twice and both may be."""
        known = self.logged
        self.logged = logged if known in {LATER, logged} else None


class World:
    """Everything in one simulation."""

    def __init__(self, seed, loop, lines, *, rough=False, leaps=False):
        self.seed = seed
        self._leaps = leaps
        """Whether the wall clock leaps, both ways, for shorter than is believed (P6)."""
        self.rough = rough
        """Whether all that goes wrong at times does so in this run."""
        self.rng = random.Random(f"{seed} world")
        self.limits = _limits(self.fork("limits"))
        self.loop = loop
        self._clock = LeapGuard(self._wall, loop.time) if leaps else self._wall
        self.digest = hashlib.sha256()
        self.lines = deque(maxlen=lines)
        self.events = 0
        self.attempts = {}
        self.heard = set()
        self.on_watch = {}
        self.failure = None
        self.ended = loop.create_future()
        self.quiet = False
        self.closing = False
        self.guarded = []
        dice = self.fork("journal")
        self.logs_first = dice.random() < 0.5
        """Whether a log is before the tables."""
        truth = self.rng, self.trace, loop.time
        self.store = SimJournal(*truth, loop, dice) if self.logs_first else SimStore(*truth)
        self.durable = self.rng.choice((None, TopicFilter("v/#"), TopicFilter("#")))
        """What a durable session that is away will ask the log for."""
        self.keeps_undeclared = self.fork("undeclared").random() < 0.5
        """Whether undeclared topics have tables, and all that is said there is logged."""
        self.announces_first = self.fork("first").random() < 0.5
        """Whether QoS 0 messages are announced before they are stored."""
        self.server = None
        self.residents = []
        self.crews = []
        self.kills = []
        """When servers ended: nothing in memory outlives these moments."""
        self._up = None

    # -- what everybody uses -----------------------------------------------------------------------

    def fork(self, name):
        """Return dice of one's own."""
        return random.Random(f"{self.seed} {name}")

    def now(self):
        return self._clock()

    def _wall(self):
        """Return what the clock of the machine says: in every third tenth of a second it is off."""
        time = self.loop.time()
        off = (0, LEAP_SECONDS, -LEAP_SECONDS)[int(time * 10) % 3]
        return START + time + (off if self._leaps and time < LEAPS_UNTIL else 0)

    def trace(self, line):
        self.events += 1
        text = f"{self.loop.time():.4f} {line}"
        self.lines.append(text)
        self.digest.update(text.encode())

    def fail(self, error):
        """Note what is wrong and stop."""
        if self.failure is None:
            self.failure = error
            if not self.ended.done():
                self.ended.set_result(None)

    def unclear(self, n):
        """Tell whether a message was announced twice, and only once as one that is logged."""
        attempt = self.attempts.get(n)
        return attempt is not None and attempt.sends > 1 and attempt.logged is None

    def next_number(self):
        return len(self.attempts) + 1

    def attempt(self, n, caller, logged, patch=None, group=None, will=None):
        self.attempts[n] = Attempt(self.server, caller, logged, patch, group, will)

    def wanted(self, topic):
        """Tell whether a durable session asks for a topic; None if nobody can know."""
        if self.durable is not None and self.durable.matches(topic):
            return True
        answers = {item.wants(topic) for item in (*self.residents, *self.crews)}
        return True if True in answers else None if None in answers else False

    def answered(self, n, outcome, event):
        """Check an answer: what it says must be so now."""
        attempt = self.attempts[n]
        store = self.store
        require(attempt.outcome is None, "answered twice", n)
        attempt.outcome = outcome
        self.trace(f"answer n={n} {outcome.code if isinstance(outcome, Error) else 'done'}")
        if attempt.fact:
            fine = store.knows(attempt.caller, str(n)) == isinstance(outcome, Receipt)
            require(fine, "a fact without its write, or a write without its fact", n, outcome)
        if isinstance(outcome, Receipt):
            fine = attempt.logged is None or (n in store.by_n) == attempt.logged
            require(fine, "acknowledged, not stored", n, event, attempt.logged)
            again = attempt.sends > 1 and n in store.by_n
            # What was taken twice may have been announced by a server that is gone.
            again |= attempt.sends > 1 and not attempt.server.alive
            require(n in self.heard or again, "acknowledged before it was announced", n, event)
            if attempt.logged and outcome.event.seq > 0:
                require(store.by_n[n].seq == outcome.event.seq, "another number", n, event)
            return
        if outcome.code in {Code.PRECONDITION, Code.NOT_FOUND} and attempt.condition is not None:
            states = store.records_since(event.topic, attempt.since)
            wrong = not all(holds(attempt.condition, state) for state in states)
            require(wrong, "refused although its condition held", n, outcome)
            return
        fine = {Code.BUSY, Code.CONFLICT}
        fine |= {Code.PRECONDITION} if attempt.group or event is None else set()
        require(outcome.code in fine, "refused without a reason", n, event, outcome)

    def unanswered(self, n):
        """Note that nobody will ever know."""
        self.attempts[n].outcome = self

    async def server_up(self):
        """Wait for a server that runs."""
        while not self.server.alive:
            await self._up
        return self.server

    def begin(self, call, *arguments):
        """Let something go on by itself."""
        return self.loop.create_task(self._safe(call, *arguments))

    async def guard(self, work):
        """Await work inside the server; None when the server dies meanwhile."""
        task = self.loop.create_task(work)
        self.guarded.append(task)
        try:
            return await task
        except asyncio.CancelledError:
            return None
        finally:
            self.guarded.remove(task)

    # -- the course of things ----------------------------------------------------------------------

    def start_server(self):
        self.server = server = Server(self)
        if self.durable is not None:
            server.kernel.durable.add(self.durable)
        watch = server.kernel.watch

        def watched(subscription, interest, caller, since=None, *, current=True, **options):
            announced = server.kernel.committer.announced
            result = watch(subscription, interest, caller, since, current=current, **options)
            listener = self.on_watch.get(subscription.client_id)
            if listener is not None:
                listener(server, subscription, announced, since, current)
            return result

        server.kernel.watch = watched
        submit, submit_run = server.kernel.submit, server.kernel.submit_run

        def note(event):
            attempt = self.attempts.get(number_of(event.payload, event.properties))
            if attempt is not None and (attempt.logged is LATER or attempt.sends > 1):
                wanted = self.wanted(event.topic)
                undeclared = self.keeps_undeclared
                logged = must_log(event.topic, event.kind, event.qos, wanted, undeclared=undeclared)
                attempt.submitted(logged)

        def submitted(event, *arguments, **more):
            note(event)
            return submit(event, *arguments, **more)

        def run_submitted(events, *arguments):
            for event in events:
                note(event)
            return submit_run(events, *arguments)

        server.kernel.submit, server.kernel.submit_run = submitted, run_submitted
        self.trace("start")

    async def crash(self):
        """End the process at once, or as it is asked to, and start another on the disk's state."""
        gently = self.rng.random() < 0.3
        self.trace("stop" if gently else "crash")
        self._up = self.loop.create_future()
        if gently:
            await self.server.stop()
        self.server.kill()
        self.kills.append(self.loop.time())
        for task in list(self.guarded):
            task.cancel()
        await self.loop.pause(self.rng.choice((0, 0.02)))
        self.start_server()
        for resident in self.residents:
            resident.killed(self.loop.time())
        self._up.set_result(None)

    async def misfortune(self, busy):
        """Let things go wrong until all writers and residents are done."""
        rng, store = self.rng, self.store
        trouble = rng.choice((0.05, 0.2) if self.rough else (0, 0, 0.05, 0.2))
        crashes = rng.choice((0.05,) if self.rough else (0, 0, 0.05))
        forgets = rng.choice((0, 0.2))
        while not all(task.done() for task in busy) or not all(r.done for r in self.residents):
            store.trouble = trouble if rng.random() < 0.5 else 0
            await self.loop.pause(rng.random() * 0.05)
            choice = rng.random()
            if choice < crashes:
                await self.crash()
            elif choice < forgets:
                with contextlib.suppress(Error, Planted):
                    await self.guard(self._retain())
        store.trouble = 0

    async def _retain(self):
        server, rng = self.server, self.rng
        if rng.random() < 0.5:
            await server.retention.sweep()
            return
        branches = map(TopicRoot, "uvw") if self.keeps_undeclared else ()
        table = rng.choice((*TABLES, None, *branches))
        keep = Keep(events=rng.randrange(1, 8))
        await server.kernel.committer.trim(table, keep, self.now(), 1_000)

    async def play(self):
        """Run it all."""
        self.start_server()
        writes = self.rng.choice((10, 20, 40))
        count = self.rng.randrange(1, 4)
        writers = [Writer(self, f"writer{i}", writes) for i in range(count)]
        readers = [Watcher(self, f"watcher{i}") for i in range(self.rng.randrange(1, 4))]
        readers += [Juggler(self, f"juggler{i}") for i in range(self.rng.randrange(2))]
        devices = [Device(self, f"device{i}", writes) for i in range(self.rng.randrange(1, 4))]
        if self.announces_first:
            devices.append(Chatterer(self, "chatterer", 4 * writes))
        count = 2 if self.rough else self.rng.randrange(3)
        residents = [Resident(self, f"resident{i}", writes) for i in range(count)]
        self.residents += residents
        busy = [self.begin(item.run) for item in writers]
        others = [self.begin(item.run) for item in (*readers, *devices, *residents)]
        if self.rough or self.fork("crew").random() < 0.2:
            self.crews.append(Crew(self, "crew"))
            others += [self.begin(member.run) for member in self.crews[0].members]
        others.append(self.begin(Looker(self, "looker").run))
        if self.rough:
            others.append(self.begin(Passers(self, "passer").run))
        await self.misfortune(busy)
        self.quiet = True
        self.trace("quiet")
        await self.server.kernel.committer.settle()
        await self.loop.pause(QUIET_SECONDS)
        self.check(readers, devices)
        await self.leave(others)

    def check(self, readers, devices):
        """Check everything, now that all that was under way has arrived."""
        require(self.server.tap.complete, "stored, never announced")
        for item in (*readers, *devices, *self.residents, *self.crews):
            item.finish()
        for n, attempt in self.attempts.items():
            require(attempt.outcome or not attempt.server.alive, "never answered", n)
            if isinstance(attempt.outcome, Error) and attempt.sends == 1:
                require(n not in self.store.by_n, "refused, yet stored", n, attempt.outcome)
        check_groups(self.store, self.attempts)
        check_facts(self.store, self.attempts)
        check_history(self.store, self.attempts)
        check_fold(self.store, TABLES)
        self.server.check_topic_tables(self.store)
        self.server.check_cache(self.store)

    async def leave(self, others):
        """Let every client go; then nothing may be left."""
        self.closing = True
        for end in self.server.ends:
            end()
        while not all(task.done() for task in others):
            await self.loop.pause(0.5)
        await self.server.topic_tables.stop()
        self.server.groups.stop()
        await self.server.kernel.stop()
        await self.loop.pause(1)
        self.server.check_empty()
        left = [task.get_coro().__qualname__ for task in self.loop.tasks]
        require(left == ["run.<locals>.main", "World._safe"], "tasks left running", left)
        broker = self.server.broker
        regular = {broker._expiry_timer, broker.keeper._refresh_timer}
        timers = [item for item in self.loop.timers() if item not in regular]
        require(not timers, "timers left running", timers)

    async def _safe(self, call, *arguments):
        try:
            await call(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed has failed
            self.fail(error)


class Hearer(logging.Handler):
    """Hears the server's log: an exception there is a mistake, unless it was planted."""

    def __init__(self, world):
        super().__init__()
        self._world = world

    def emit(self, record):
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, Planted):
            self._world.fail(error)


def _limits(rng):
    """Return the bounds of one run, by whose they are."""
    chosen = {owner: {} for owner, _ in LIMITS.values()}
    for name, (owner, choices) in LIMITS.items():
        chosen[owner][name] = rng.choice(choices)
    reads = chosen["reads"]
    reads["table_scan_records"] = reads["scan_records"]
    return chosen


@contextlib.contextmanager
def _surroundings(world):
    """Hear the log and what clients say at their end, for the time of one run."""
    logger, hearer = logging.getLogger("rowcast"), Hearer(world)
    logger.addHandler(hearer)
    known, logger.propagate = logger.propagate, False
    moments = world.fork("goodbyes").randrange
    with (
        patch.dict(HANDLERS, {Disconnect: hear_goodbye}),
        # Its length counts.
        patch("rowcast.doors.mqtt.connections.server_disconnect.randbelow", moments),
    ):
        try:
            yield
        finally:
            logger.removeHandler(hearer)
            logger.propagate = known


def run(seed, lines=TRACE_LINES, *, rough=False, leaps=False):
    """Run one seed; return the digest of its trace and the world as it was at the end.

    ``rough`` is another run, in which sessions are there, the disk fails and the server is killed.
    With ``leaps`` the wall clock leaps by more than a year, and nobody may notice.
    """
    loop = SimLoop(random.Random(f"{seed} loop"))
    world = World(seed, loop, lines, rough=rough, leaps=leaps)
    loop.set_exception_handler(
        lambda _loop, context: world.fail(context.get("exception") or Violation(str(context)))
    )

    async def main():
        playing = world.begin(world.play)
        playing.add_done_callback(lambda _: world.ended.done() or world.ended.set_result(None))
        await world.ended

    with _surroundings(world):
        try:
            loop.run_until_complete(main())
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed has failed
            world.fail(error)
        finally:
            _abandon(loop)
    if world.failure is not None:
        trace = "\n".join(world.lines)
        failure = f"{type(world.failure).__name__}: {world.failure}"
        raise Failed(f"seed {seed}: {failure}\n{trace}") from world.failure
    return world.digest.hexdigest(), world


def _abandon(loop):
    """Close the loop; after a failure tasks may be left."""
    for task in list(loop.tasks):
        task._log_destroy_pending = False
        task.cancel()
    loop._ready.clear()
    loop._scheduled.clear()
    for task in list(loop.tasks):
        with contextlib.suppress(BaseException):
            task.get_coro().close()
    loop.close()
