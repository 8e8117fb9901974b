"""A world in which a test decides everything that happens to a subscription, one step at a time.

A commit, its announcement, the two halves of a read (asking the store, hearing the answer) and the
reader's own taking are separate steps, so every interleaving of them can be made and repeated.
"""

import asyncio
from dataclasses import dataclass, field

from memory_store import MemoryStore
from rowcast.bus.bus import Bus
from rowcast.core.events import (
    CURRENT,
    DELETE,
    GAP,
    MESSAGE,
    PATCH,
    PUT,
    RESET,
    RETAINED,
    SNAPSHOT,
    Event,
)  # fmt: skip
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.reads.record_cache import RecordCache
from rowcast.reads.source_heads import SourceHeads
from rowcast.store.store import Keep
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from rowcast.writes.write import Receipt

SMALL = {
    "queue_events": 3,
    "queue_bytes": 10_000,
    "log_page_events": 3,
    "scan_records": 2,
    "table_scan_records": 2,
}
"""Limits so small that every one of them is met within a few events."""


def kinds(pairs):
    """Return kind and number of each pair."""
    return [(event.kind, event.seq) for event, _ in pairs]


DOG = Table("Dog", "Dog")
CAT = Table("Cat", "Cat")
TABLES = {"Dog": DOG, "Cat": CAT}
LOGGED = {PUT, PATCH, DELETE, MESSAGE}


class SteppedReader(Reader):
    """A reader whose every call waits for the test, once to be asked and once to be answered."""

    def __init__(self, world, limits):
        super().__init__(
            world.store, world.cache, None, (DOG, CAT), lambda: world.announced, **limits
        )
        self.asked = []
        self.answered = []

    async def _run(self, call, lane=None):
        future = asyncio.get_running_loop().create_future()
        self.asked.append((call, future))
        return await future

    def ask(self):
        """Let the store answer the oldest question; the answer is still on its way."""
        call, future = self.asked.pop(0)
        self.answered.append((future, call()))

    def answer(self):
        """Bring the oldest answer."""
        future, result = self.answered.pop(0)
        if not future.done():
            future.set_result(result)


@dataclass
class Heard:
    """What one interest has heard since it began or was reset."""

    topics: TopicFilter
    floor: int
    kind: str
    snapshots: list = field(default_factory=list)
    events: list = field(default_factory=list)
    unlogged: list = field(default_factory=list)
    current: int | None = None
    resets: int = 0


class World:
    """A store, a bus and one subscription; ``heard`` is by interest identifier.

    ``limits`` are those of its reader.
    """

    def __init__(self, **limits):
        self.store = MemoryStore("0badcafe")
        self.store.open([DOG, CAT])
        self.bus = Bus()
        self.cache = RecordCache()
        self.announced = 0
        self.seq = 0
        self.logged = []
        self.unannounced = []
        self.after_append = []
        self.reader = SteppedReader(self, limits)
        self.reader.heads = SourceHeads(self.after_append)
        self.subscription = Subscription(self.reader)
        self.interests = {}
        self.heard = {}
        self.gone = {}
        self.sent_unlogged = 0
        self.gaps = 0
        self.pairs = []

    # -- writers ---------------------------------------------------------------------------------

    def commit(self, topic, kind=PUT, value=b"{}", expires_at=0.0):
        """Make an event durable; nobody is told yet."""
        self.seq += 1
        payload = b"" if kind == DELETE else value
        table = TABLES.get(topic.split("/")[0])
        event = Event(topic, kind, payload, "application/json", 1, kind in RETAINED, table)
        event.seq = event.version = self.seq
        event.expires_at = expires_at
        self.store.commit([event])
        if kind in RETAINED:
            self.cache.put_all([event])
        self.logged.append(event)
        self.unannounced.append(event)
        return event

    def announce(self):
        """Tell the bus of the oldest event that is not announced."""
        event = self.unannounced.pop(0)
        self.bus.publish(event)
        self.announced = event.seq
        for listener in list(self.after_append):
            listener([Receipt(event)])

    def write(self, topic, kind=PUT, value=b"{}"):
        """Commit and announce at once."""
        event = self.commit(topic, kind, value)
        while self.unannounced:
            self.announce()
        return event

    def say(self, topic, payload=b"1"):
        """Announce an event that is not logged."""
        self.sent_unlogged += bool(self.subscription.interests.matching(topic))
        self.bus.publish(Event(topic, MESSAGE, payload, "application/json"))

    def say_all(self, topic, *payloads):
        """Announce events of one topic together that are not logged."""
        self.sent_unlogged += len(payloads) * bool(self.subscription.interests.matching(topic))
        self.bus.publish_run([Event(topic, MESSAGE, item, "text/plain") for item in payloads])

    def trim(self, keep, table=DOG):
        """Forget all but the last events of a table."""
        self.store.trim(table, Keep(events=keep), 0, 10_000)

    # -- the reader ------------------------------------------------------------------------------

    def watch(self, text, identifier, since=None, *, current=True, marks=True):
        """Begin an interest, as the kernel does."""
        interest = SubscribedFilter(TopicFilter(text), identifiers=(identifier,), marks=marks)
        self.bus.add(interest.topics, self.subscription)
        self.subscription.add(interest, since, current=current and since is None)
        kind = "since" if since is not None else "current" if current else "new"
        start = self.announced if since is None else since
        self.interests[identifier] = interest
        self.heard[identifier] = Heard(interest.topics, start, kind)
        return interest

    def replace(self, identifier, *, current):
        """Change the options of an interest."""
        old = self.heard[identifier]
        interest = SubscribedFilter(old.topics, 1, identifiers=(identifier,))
        self.interests[identifier] = interest
        self.subscription.replace(interest, current=current)

    def unwatch(self, identifier):
        """End an interest."""
        topics = self.heard[identifier].topics
        self.bus.remove(topics, self.subscription)
        self.subscription.discard(topics)
        del self.interests[identifier]
        self.gone[identifier] = self.heard.pop(identifier)

    def take(self, limit=100):
        """Take what is there and note who heard it."""
        pairs = self.subscription.take(limit)
        for event, interest in pairs:
            self.pairs.append((event, interest))
            self._hear(event, interest)
        return pairs

    def _hear(self, event, interest):
        if event.kind == GAP:
            self.gaps += event.count
            return
        if event.kind == MESSAGE and not event.seq:
            self.gaps += 1
        identifiers = interest.identifiers if interest is not None else list(self.heard)
        for identifier in identifiers:
            heard = self.heard[identifier]  # a KeyError here: heard after its end
            if event.kind == RESET:
                self.heard[identifier] = Heard(heard.topics, event.seq, "current")
                self.heard[identifier].resets = heard.resets + 1
            elif event.kind == SNAPSHOT:
                heard.snapshots.append(event)
            elif event.kind == CURRENT:
                heard.current = event.seq
            elif event.seq:
                heard.events.append(event)
            else:
                heard.unlogged.append(event)

    async def turn(self):
        """Let tasks run until they wait for the test; none does where nothing is due."""
        loop = asyncio.get_running_loop()
        for _ in range(3):
            if not (loop._ready or loop._scheduled):
                return
            await asyncio.sleep(0)

    async def settle(self, limit=100):
        """Announce, answer and take until nothing is left."""
        while self.unannounced:
            self.announce()
        for _ in range(10_000):
            if self.take(limit):
                continue
            await self.turn()
            if self.reader.asked:
                self.reader.ask()
            if self.reader.answered:
                self.reader.answer()
                await self.turn()
            elif not self.take(limit):
                await self.turn()  # a page may be known, and then nobody is asked
                if not self.reader.asked and not self.subscription.ready:
                    return
        raise AssertionError("it does not settle")

    # -- what must hold --------------------------------------------------------------------------

    def check(self):
        """Raise unless every interest heard all it must, once and in order."""
        for identifier, heard in self.heard.items():
            wanted = [e.seq for e in self.logged if self._counts(heard, e)]
            assert wanted == [e.seq for e in heard.events], (identifier, heard)
            self._check_snapshot(heard)
        for heard in self.gone.values():
            wanted = [e.seq for e in self.logged if self._counts(heard, e)]
            got = [e.seq for e in heard.events]
            assert wanted[: len(got)] == got
        if not self.gone:  # what was queued for a filter that ended is forgotten, and rightly
            assert self.sent_unlogged == self.gaps
        head = max(self.announced, 0)
        assert head <= self.subscription.settled

    @staticmethod
    def _counts(heard, event):
        return event.seq > heard.floor and heard.topics.matches(event.topic)

    def _check_snapshot(self, heard):
        """The snapshot and the events that follow make the records as they are."""
        if heard.kind != "current":
            assert heard.snapshots == []
            return
        assert heard.current == heard.floor
        shown = {event.topic: event.seq for event in heard.snapshots}
        assert len(shown) == len(heard.snapshots)
        at_floor = {}
        for event in self.logged:
            if event.seq <= heard.floor and heard.topics.matches(event.topic):
                if event.kind in {PUT, PATCH}:
                    at_floor[event.topic] = event.seq
                elif event.kind == DELETE:
                    at_floor.pop(event.topic, None)
        later = {event.topic for event in heard.events if event.kind in RETAINED}
        assert shown.items() <= at_floor.items()
        assert at_floor.keys() - shown.keys() <= later
