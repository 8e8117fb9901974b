"""A store that fails when told to, and remembers for the oracle all that was ever durable.

What retention trims is gone from the log but stays in ``shadow``: the truth that every reader is
compared with. ``SimStore`` has tables alone; ``sim_journal.SimJournal`` has a log before them.
"""

import re

from memory_store import MemoryStore
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, RETAINED
from rowcast.core.tables import Table
from rowcast.store.records import logged

EPOCH = "5eed5eed"
NUMBER = re.compile(rb'\bn"?[:=] ?(\d+)')


class Planted(RuntimeError):  # noqa: N818 - a sentence reads so
    """An exception that the simulation threw itself."""


def number_of(payload, properties=None):
    """Return the number that marks a payload, or a user property of a delete; None if none does."""
    found = NUMBER.search(payload)
    if found:
        return int(found[1])
    for name, value in (properties or {}).get("user_property", ()):
        if name == "n":
            return int(value)
    return None


class Truth:
    """What was ever durable, and how bad the day is."""

    def __init__(self, rng, trace, now):
        self.rng = rng
        self.trace = trace
        self._moment = now
        self.trouble = 0.0
        """How likely a write or read is to fail."""
        self.lags = False
        """Whether the tables are behind the log now and then, for a tenth of a second."""
        self.meanwhile = lambda: None
        """What other threads do between two steps of the writer's."""
        self.shadow = []
        self.by_seq = {}
        self.by_n = {}
        """Number to its event; to the first of them if it may be written again."""
        self.copies = {}
        """Number to all its events."""
        self.ahead = {}
        """Number to event: announced, and not stored yet (``log.qos0: behind``)."""
        self.lost = set()
        """Numbers of payloads that were announced and never stored: some readers have them."""
        self.repeatable = set()
        """Numbers of publishes that may be there twice: QoS 1, sent again."""
        self.gone = []
        """Each trim: when it was, of which source (None is no table), and up to which number."""
        self.changes = {}
        """Topic to [(seq, event or None)]: the states of its record."""
        self.last = {}
        """Owner to the greatest number among its facts: it only grows."""
        self.trims = 0
        self.faults = 0
        self.planted = 0
        """How often it failed as nobody expects."""

    def write_fault(self, name):
        """Fail at times, before anything is written."""
        if self.rng.random() < self.trouble:
            self.faults += 1
            self.trace(f"fault {name}")
            if self.rng.random() < 0.5:
                raise Error(Code.BUSY, "the disk is full")
            self.planted += 1
            raise Planted(name)

    def read_fault(self):
        """Fail at times, before anything is read."""
        if self.rng.random() < self.trouble / 2:
            self.trace("fault read")
            if self.rng.random() < 0.7:
                raise Error(Code.BUSY, "the disk cannot be read")
            self.planted += 1
            raise Planted("read")

    def stored(self, events, changes):
        """Note what is durable from now on."""
        for event in events:
            if self.ahead.pop(event.seq, None) is None:
                self._remember(logged(event))
        for change in changes:
            if change.name == "last":
                number = int(change.value)
                assert number > self.last.get(change.owner, 0), f"a fact goes back: {change}"
                self.last[change.owner] = number
        facts = [f"{'+-'[item.value is None]}{item.owner}:{item.name}" for item in changes]
        self.trace(f"commit {[event.seq for event in events]} and facts {' '.join(facts)}")

    def trimmed_away(self, source, done, until):
        """Note that events of a source are gone."""
        self.trims += 1
        self.gone.append((self._moment(), source, until))
        self.trace(f"trim {source.name if isinstance(source, Table) else source} {done}")

    def announced_first(self, event):
        """Note an event that is announced before it is stored."""
        self.ahead[event.seq] = event
        self._remember(logged(event))

    def lose(self, events):
        """Note that some of what was announced first will never be stored."""
        for event in events:
            if self.ahead.pop(event.seq, None) is not None:
                self.trace(f"lose {event.seq}")
                self.lost.add(number_of(event.payload))

    def _remember(self, event):
        if self.shadow:
            last = self.shadow[-1]
            assert event.seq > last.seq, f"seq goes back: {last} {event}"
            assert event.version > last.version, f"version goes back: {last} {event}"
        self.shadow.append(event)
        self.by_seq[event.seq] = event
        n = number_of(event.payload, event.properties)
        if n is not None:
            assert n not in self.by_n or n in self.repeatable, f"stored twice: {event}"
            self.by_n.setdefault(n, event)
            self.copies.setdefault(n, []).append(event)
        if event.kind in RETAINED:
            state = None if event.kind == DELETE else event
            self.changes.setdefault(event.topic, []).append((event.seq, state))

    def state(self, topic, seq):
        """Return the event that made the record at a topic as of a position; None for no record."""
        found = None
        for changed, state in self.changes.get(topic, ()):
            if changed > seq:
                break
            found = state
        return found

    def records_since(self, topic, since):
        """Return what a topic's record was from a position until now."""
        later = [state for changed, state in self.changes.get(topic, ()) if changed > since]
        return [self.state(topic, since), *later]

    def look(self):
        """Let other threads work, at times."""
        if self.rng.random() < 0.3:
            self.meanwhile()


class SimTables(MemoryStore):
    """Tables whose reads and writes fail when it is so."""

    def __init__(self, truth):
        super().__init__(EPOCH)
        self._truth = truth
        self.fault = truth.write_fault

    def trim(self, source, keep, now_seconds, limit):
        done = super().trim(source, keep, now_seconds, limit)
        if done:
            self._truth.trimmed_away(source, done, self.trimmed(source))
        return done

    def define(self, *tables):
        super().define(*tables)
        self._truth.trace(f"define {' '.join(table.name for table in tables)}")

    def drop(self, table):
        held = self.figures(table.branch)
        super().drop(table)
        assert not (held.events or held.records), f"dropped with what it held: {table} {held}"
        self._truth.trace(f"drop {table.name}")

    def held(self, table, topic):
        """Return the record that the tables have, without any trouble."""
        return super().get(table, topic)

    def all_held(self, table):
        """Return all records of a table, without any trouble."""
        return list(self._part(table).records.values())

    # -- reads that may fail -----------------------------------------------------------------------

    def get(self, table, topic):
        self._truth.read_fault()
        return super().get(table, topic)

    def read(self, after, limit, sources=None):
        self._truth.read_fault()
        return super().read(after, limit, sources)

    def scan(self, table, topics, after, limit):
        self._truth.read_fault()
        return super().scan(table, topics, after, limit)

    def expired(self, now_seconds, limit, behind=(0.0, 0)):
        self._truth.read_fault()
        return super().expired(now_seconds, limit, behind)

    def next_expiry(self):
        self._truth.read_fault()
        return super().next_expiry()


class SimStore(Truth, SimTables):
    """Tables alone."""

    def __init__(self, rng, trace, now):
        Truth.__init__(self, rng, trace, now)
        SimTables.__init__(self, self)

    @property
    def is_behind(self):
        return self.lags and int(10 * self._moment()) % 3 == 0

    def commit(self, events, changes=(), applied=0):
        self.look()
        existed = super().commit(events, changes, applied)
        self.stored(events, changes)
        self.look()
        return existed

    def knows(self, owner, name):
        """Tell whether there is such a fact."""
        return bool(self.facts([(owner, name)]))

    def end(self):
        """End with the process: what was committed stays."""
