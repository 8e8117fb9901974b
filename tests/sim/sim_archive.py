"""Nodes that share an archive: the sequencer may be killed, paused or replaced at any call.

Each node has tables of its own, with numbers of its own for the parts of the log. What it does at
the place of the archive may be interrupted before each call, for as long as another node needs to
take over, to archive, and to merge. A trim is in the log, which takes it only from who has the
newest term. Whoever reads, at any node and moment, gets every event once, in order, or is refused
while the place is away. Where the archive has an age limit, the clocks of the nodes differ: then a
reader is told of what was removed, and all of that is too old by one of the clocks.

Nodes are threads that pass one baton on, so a seed is a replay.
"""

import asyncio
import random
from concurrent.futures import Executor, Future
from copy import copy
from threading import Event, Thread

from sim_archive_place import Place
from sim_checks import Violation

from rowcast.core.errors import Error
from rowcast.features.archive.archive_index import ArchiveIndex
from rowcast.features.archive.archived_rows import ArchivedRows
from rowcast.features.archive.archiver import Archiver, ArchiverBounds
from rowcast.store.older_rows import Oldest, OldestRoom, Span
from rowcast.store.store import Keep

PARTS = ("Dog", "Note", "/home")
NODES = 3
KEEP = 3
STEP = OldestRoom(5, 1 << 20)
PIECE = 6
"""Events that a node applies at a time at most."""
READS = 0.3
"""How often a thread that only reads has the baton."""
KEPT_SECONDS = 600
"""The age limit of the archive, where it has one; a step of a run is a second."""
SKEWS = (0, 20, -20)
"""How far the clocks of the nodes are ahead, in seconds."""
PER_SECOND = 1_000_000
"""Of versions."""
WAITED_SECONDS = 60
"""For a thread that has the baton; it only computes."""
_NOTHING = Keep(events=KEEP)


class Killed(BaseException):
    """A node ends, at once."""


class Replaced(Exception):  # noqa: N818 - it is no mistake
    """The log has a newer term."""


class Actor:
    """A thread that works while it has the baton."""

    def __init__(self, world, work):
        self.world, self.work = world, work
        self.killed, self.over, self.failure = False, False, None
        self._mine, self._back = Event(), Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        self._mine.wait()
        try:
            if not self.killed:
                self.work()
        except (Killed, Replaced):
            pass
        except BaseException as error:  # noqa: BLE001 - told by who waits
            self.failure = error
        self.over = True
        self._back.set()

    def go(self):
        """Let it work until its next turn, or its end."""
        self.world.working = self
        self._back.clear()
        self._mine.set()
        if not self._back.wait(WAITED_SECONDS):
            raise Violation("a node waits for itself")
        if self.failure is not None:
            raise self.failure

    def kill(self):
        """End it."""
        self.killed = True
        while not self.over:
            self.go()

    def turn(self):
        """Give the baton back, and wait for it."""
        self._mine.clear()
        self._back.set()
        self._mine.wait()
        if self.killed:
            raise Killed


class Lock:
    """A lock whose waiters pass the baton on."""

    def __init__(self, world):
        self._world, self._held = world, False

    def acquire(self, *, blocking=True):
        while self._held:
            if not blocking:
                return False
            self._world.turn()
        self._held = True
        return True

    def release(self):
        self._held = False

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()


class Inline(Executor):
    """Does work at once."""

    def submit(self, work, /, *rest):
        future = Future()
        try:
            future.set_result(work(*rest))
        except Exception as error:  # noqa: BLE001 - raised by who asks
            future.set_exception(error)
        return future


class Node:
    """One life of a node: its tables, and what it knows of the archive."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.number = dict(zip(PARTS, world.numbers[name], strict=True))
        self.part = {number: part for part, number in self.number.items()}
        self.applied = 0
        self.rows = {part: [] for part in PARTS}
        self.trimmed = dict.fromkeys(PARTS, 0)
        self.term = 0
        self.lives = 0
        self.boot()

    def boot(self):
        """Begin anew, with the tables that are there."""
        world = self.world
        self.lives += 1
        self.loaded = False
        self.index = ArchiveIndex(world.place, f"{self.name}{self.lives}")
        self.index._lock, self.index._opening = Lock(world), Lock(world)
        self.older = ArchivedRows(self.index, world.place, footers=1, groups=0)
        self.archiver = Archiver(
            self.index, self.older, world.place, self.oldest, Inline(), self.now, "epoch",
            ArchiverBounds(STEP, world.file_rows, KEPT_SECONDS / 2, world.keep_seconds),
        )  # fmt: skip
        self.upto = len(world.log)
        """What it knows of the log."""

    def now(self):
        """Return the time by the clock of this node."""
        return self.world.clock + self.world.skews[self.name]

    def load(self, *, clean):
        """Learn which files there are."""
        parts = {n: (part, self.trimmed[part]) for part, n in self.number.items()}
        try:
            self.index.read(parts, clean=clean)
        except ConnectionError:
            self.world.trace(f"{self.name} does not reach the place")
        self.loaded = True

    # -- the tables

    def apply(self, upto):
        """Take over the log; files are looked for before a trim is seen."""
        trimmed, rows = dict(self.trimmed), {part: list(x) for part, x in self.rows.items()}
        for seq, kind, part, count in self.world.log[self.applied : upto]:
            if kind == "event":
                rows[part].append(seq)
            else:
                gone, rows[part] = rows[part][:count], rows[part][count:]
                trimmed[part] = max([trimmed[part], *gone])
        for part in PARTS:
            self.older.look(self.number[part], part, trimmed[part])
        self.applied, self.rows, self.trimmed = max(upto, self.applied), rows, trimmed

    async def oldest(self, source, _keep, _now, room):
        """Return the oldest events of a part beyond what is kept."""
        self.apply(self.upto)
        number, rows = self.number[source], self.rows[source]
        after = max(self.older.archived(number), self.trimmed[source])
        beyond = rows[: max(0, min(len(rows) - KEEP, room.events))]
        chosen = [
            (seq, number, source, "put", self.world.versions[seq]) for seq in beyond if seq > after
        ]
        return Oldest(number, source, after, len(beyond), chosen)

    # -- what it does in its role

    def follow(self):
        """Take over the log, and read, again and again."""
        self.load(clean=False)
        while True:
            self.world.turn()
            self.apply(min(len(self.world.log), self.applied + self.world.rng.randrange(PIECE)))
            self.check()

    def number_events(self):
        """Be the sequencer until another one is."""
        world, rng = self.world, self.world.rng
        self.apply(len(world.log))
        self.load(clean=True)
        world.turn()
        world.terms += 1
        self.term, self.upto = world.terms, len(world.log)
        while True:
            world.turn()
            for _ in range(rng.randrange(8)):
                self.append("event", rng.choice(PARTS), 0)
            for part in PARTS:
                self.trim(part)
            self.remove_old()
            self.check()

    def read(self):
        """Read on a thread of its own, with what the other one knows."""
        while True:
            self.world.turn()
            if self.loaded:
                self.check()

    def append(self, kind, part, count):
        """Append to the log. Raises Replaced."""
        world = self.world
        if self.term != world.terms:
            raise Replaced
        if kind == "event":
            world.seq += 1
            newest = world.versions.get(world.seq - 1, 0)
            world.versions[world.seq] = max(newest + 1, int(self.now() * PER_SECOND))
        world.log.append((world.seq, kind, part, count))
        self.upto = len(world.log)

    def trim(self, part):
        """Archive what is beyond the limit, and trim as much."""
        count = asyncio.run(self.archiver.secure(part, _NOTHING, 0))
        self.world.turn()
        if count:
            self.append("trim", part, count)
            self.world.archived += 1
            self.apply(self.upto)

    def remove_old(self):
        """Remove what is too old. What another node has removed is no problem."""
        asyncio.run(self.archiver.clean())
        problem = self.archiver.problem
        if "cannot be removed" in problem and not self.world.was_away:
            raise Violation(f"{self.name}: {problem}")

    def told(self, part):
        """Return after which number all of a part is there; what is not must be too old."""
        world = self.world
        gone = self.older.after(self.number[part], self.trimmed[part])
        least = (world.clock + max(SKEWS) - world.keep_seconds) * PER_SECOND
        newest = max((seq for seq in world.seqs(part, self.applied) if seq <= gone), default=0)
        if newest and (not world.keep_seconds or world.versions[newest] > least):
            raise Violation(f"{self.name}: a reader of {part} is told that {newest} is gone")
        world.gone += newest > 0
        return gone

    def check(self):
        """Read all of a part that is there, as of what the tables have now."""
        for part in PARTS:
            number, rows, trimmed = self.number[part], list(self.rows[part]), self.trimmed[part]
            every = self.world.seqs(part, self.applied)
            for back in (False, True):
                gone = self.told(part)
                wanted = [seq for seq in every if seq > gone]
                span = Span(gone, trimmed, back)
                try:
                    found = list(self.older.walk(number, span, self.world.turn))
                except Error as error:
                    if not self.world.was_away:
                        raise Violation(f"{self.name}: {part} is refused: {error}") from error
                    continue
                if any(row[1] != number for row in found):
                    raise Violation(f"{self.name}: events of {part} are those of another part")
                seqs = [row[0] for row in (reversed(found) if back else found)]
                if self.told(part) > gone:
                    continue  # as any reader that looks after it has read
                if seqs + [seq for seq in rows if seq > gone] != wanted:
                    raise Violation(f"{self.name}, {part}: {seqs} and {rows}, not {wanted}")
            self.world.read += len(every)


class World:
    """Nodes, their log, and the place."""

    def __init__(self, seed, keep_seconds=0):
        self.rng = random.Random(seed)
        self.log: list[tuple[int, str, str, int]] = []
        self.seq, self.terms, self.read, self.archived, self.gone = 0, 0, 0, 0, 0
        self.clock, self.keep_seconds = 0, keep_seconds
        self.versions: dict[int, int] = {}
        self.away, self.was_away = False, False
        self.working = None
        self.file_rows = self.rng.choice((8, 30, 1_000))
        self.told: list[str] = []
        self.place = Place(self)
        names = "abc"[:NODES]
        self.skews = dict(zip(names, SKEWS, strict=True))
        self.numbers = {name: self.rng.sample(range(1, 9), len(PARTS)) for name in names}
        self.nodes = [Node(self, name) for name in names]
        self.actors = {node.name: self._actors(node, node.follow) for node in self.nodes}
        self.paused: list[Actor] = []
        """Sequencers that were replaced, and do not know it."""

    def seqs(self, part, upto):
        """Return the numbers of a part's events, of so many entries of the log."""
        return [entry[0] for entry in self.log[:upto] if entry[1:3] == ("event", part)]

    def trace(self, text):
        """Note what happens."""
        self.told.append(text)

    def turn(self):
        """Let others work."""
        self.working.turn()

    def _actors(self, node, work):
        return [Actor(self, work), Actor(self, node.read)]

    def everybody(self):
        """Return all that may work."""
        return [actor for pair in self.actors.values() for actor in pair] + self.paused

    def run(self, steps):
        """Do so many steps."""
        rng = self.rng
        self._replace(self.nodes[0])
        for _ in range(steps):
            self.clock += 1
            chance = rng.random()
            if chance < 0.01:
                self._replace(rng.choice(self.nodes))
            elif chance < 0.013:
                self.away = self.was_away = True
            elif chance < 0.1 and self.away:
                self.away = False
            else:
                working = [actor for actor in self.everybody() if not actor.over]
                reads = rng.random() < READS
                chosen = [x for x in working if reads == (x.work.__name__ == "read")]
                rng.choice(chosen or working).go()
                self.paused = [actor for actor in self.paused if not actor.over]
        for actor in self.everybody():
            actor.kill()

    def _replace(self, node):
        """Let a node take over; whoever had the role is killed, or goes on without knowing."""
        for place, other in enumerate(self.nodes):
            pair = self.actors[other.name]
            if other is not node and not pair[0].over and other.term != self.terms:
                continue
            again = other
            if other is not node and not pair[0].over and self.rng.random() < 0.6:
                self.paused += pair
                again = copy(other)  # the machine's next life has the same tables
                self.nodes[place] = again
            else:
                for actor in pair:
                    actor.kill()
            again.boot()
            work = again.number_events if other is node else again.follow
            self.actors[again.name] = self._actors(again, work)
        self.trace(f"{node.name} takes over")


def run(seed, steps=2_000, keep_seconds=0):
    """Run a seed; return what there was: events, trims, events that were read, and files.

    The last is how often a reader was told of what is gone.
    """
    world = World(seed, keep_seconds)
    try:
        world.run(steps)
    except BaseException as error:
        for actor in world.everybody():
            actor.failure, actor.killed = None, True
            while not actor.over:
                _end(actor)
        if isinstance(error, Violation):
            raise Violation(f"seed {seed}: {error}; {world.told[-8:]}") from error
        raise
    files = sorted(map(str, world.place.files))
    return world.seq, world.archived, world.read, files, world.gone


def _end(actor):
    try:
        actor.go()
    except BaseException:  # noqa: BLE001 - it ends
        actor.failure = None
