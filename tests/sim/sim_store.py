"""A store that fails when told to, and remembers for the oracle all that was ever committed.

What retention trims is gone from the log but stays in ``shadow``: the truth that every reader is
compared with.
"""

import re

from memory_store import MemoryStore
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, RETAINED
from rowcast.core.tables import Table
from rowcast.store.records import logged

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


class SimStore(MemoryStore):
    """MemoryStore with a bad day, and a memory."""

    def __init__(self, rng, trace, now):
        super().__init__("5eed5eed")
        self._rng = rng
        self._trace = trace
        self._now = now
        self.trouble = 0.0
        """How likely a write or read is to fail."""
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
        self.fault = self._write_fault

    def _write_fault(self, name):
        if self._rng.random() < self.trouble:
            self.faults += 1
            self._trace(f"fault {name}")
            if self._rng.random() < 0.5:
                raise Error(Code.BUSY, "the disk is full")
            self.planted += 1
            raise Planted(name)

    def _read_fault(self):
        if self._rng.random() < self.trouble / 2:
            self._trace("fault read")
            if self._rng.random() < 0.7:
                raise Error(Code.BUSY, "the disk cannot be read")
            self.planted += 1
            raise Planted("read")

    def commit(self, events, changes=()):
        if self._rng.random() < 0.3:
            self.meanwhile()
        existed = super().commit(events, changes)
        for event in events:
            if self.ahead.pop(event.seq, None) is None:
                self._remember(logged(event))
        for change in changes:
            if change.name == "last":
                number = int(change.value)
                assert number > self.last.get(change.owner, 0), f"a fact goes back: {change}"
                self.last[change.owner] = number
        facts = [f"{'+-'[item.value is None]}{item.owner}:{item.name}" for item in changes]
        self._trace(f"commit {[event.seq for event in events]} and facts {' '.join(facts)}")
        if self._rng.random() < 0.3:
            self.meanwhile()
        return existed

    def announced_first(self, event):
        """Note an event that is announced before it is stored."""
        self.ahead[event.seq] = event
        self._remember(logged(event))

    def lose(self, events):
        """Note that some of what was announced first will never be stored."""
        for event in events:
            if self.ahead.pop(event.seq, None) is not None:
                self._trace(f"lose {event.seq}")
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

    def trim(self, source, keep, now_seconds, limit):
        done = super().trim(source, keep, now_seconds, limit)
        if done:
            self.trims += 1
            self.gone.append((self._now(), source, self.trimmed(source)))
            self._trace(f"trim {source.name if isinstance(source, Table) else source} {done}")
        return done

    def define(self, table):
        super().define(table)
        self._trace(f"define {table.name}")

    def drop(self, table):
        held = self.figures(table.branch)
        super().drop(table)
        assert not (held.events or held.records), f"dropped with what it held: {table} {held}"
        self._trace(f"drop {table.name}")

    def state(self, topic, seq):
        """Return the event that made the record at a topic as of a position; None for no record."""
        found = None
        for changed, state in self.changes.get(topic, ()):
            if changed > seq:
                break
            found = state
        return found

    def held(self, table, topic):
        """Return the record that the store has, without any trouble."""
        return super().get(table, topic)

    def knows(self, owner, name):
        """Tell whether there is such a fact."""
        return name in self._states.get(owner, {})

    def records_since(self, topic, since):
        """Return what a topic's record was from a position until now."""
        later = [state for changed, state in self.changes.get(topic, ()) if changed > since]
        return [self.state(topic, since), *later]

    # -- reads that may fail -----------------------------------------------------------------------

    def get(self, table, topic):
        self._read_fault()
        return super().get(table, topic)

    def read(self, after, limit, sources=None):
        self._read_fault()
        return super().read(after, limit, sources)

    def scan(self, table, topics, after, limit):
        self._read_fault()
        return super().scan(table, topics, after, limit)

    def expired(self, now_seconds, limit):
        self._read_fault()
        return super().expired(now_seconds, limit)

    def next_expiry(self):
        self._read_fault()
        return super().next_expiry()
