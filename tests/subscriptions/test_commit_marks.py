"""After each transaction a mark, where what its reader has is as of one position (C23)."""

import random

import pytest

from amounts import amount
from rowcast.codecs import JSON
from rowcast.core.events import COMMIT, DELETE, MESSAGE, PUT, RESET, RETAINED, SNAPSHOT, Event
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.core.transaction_parts import is_part, part_of, set_parts, span_of
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from serving import until
from subscription_world import CAT, DOG, SMALL, TABLES, World, kinds

FILTERS = ("Dog/#", "Cat/#", "Dog/1", "x")
TOPICS = ("Dog/1", "Dog/2", "Cat/1", "Cat/2", "x", "y")
THOUSANDS = (
    range(300),
    pytest.param(range(300, amount(long=2_300, short=900)), marks=pytest.mark.slow),
)


class Marked(World):
    """A world with transactions, whose reader checks itself at every mark."""

    def __init__(self, **limits):
        super().__init__(**limits)
        self.ends = {0}
        self.start, self.last = 0, None
        self.has = {}
        self.said = {}
        self.marks = []
        self.wanted = []

    def commit_all(self, *writes):
        """Make the events of one transaction durable."""
        events = []
        for topic, kind in writes:
            self.seq += 1
            table, payload = TABLES.get(topic.split("/")[0]), b"" if kind == DELETE else b"{}"
            event = Event(topic, kind, payload, JSON, 1, kind in RETAINED, table)
            event.seq = event.version = self.seq
            events.append(event)
        set_parts(events)
        self.store.commit(events)
        for event in events:
            if event.kind in RETAINED:
                self.cache.put_all([event])
        self.logged += events
        self.unannounced += events
        self.ends.add(self.seq)
        return events

    def announce_all(self, _events):
        """Announce what is durable."""
        while self.unannounced:
            self.announce()

    def commits(self, text, identifier, since=None, *, current=True):
        """Begin an interest that asks for marks."""
        interest = SubscribedFilter(
            TopicFilter(text), identifiers=(identifier,), marks=False, commits=True
        )
        self.bus.add(interest.topics, self.subscription)
        self.start = self.announced if since is None else since
        self.subscription.add(interest, since, current=current and since is None)
        self.wanted.append(interest.topics)
        if since is not None:  # as a client that comes back, which kept what it had
            self.has = self._at(since)[0]

    def take(self, limit=100):
        pairs = self.subscription.take(limit)
        assert len({id(event) for event, _ in pairs}) <= limit  # a mark may be for several
        for event, _ in pairs:
            if event.kind == COMMIT:
                if event is not self.last:  # the same one may be for several filters
                    self._check(event.seq)
                self.last = event
            elif event.kind == RESET:
                self.has.clear()
            elif event.kind == DELETE:
                self.has.pop(event.topic, None)
            elif event.kind in {PUT, SNAPSHOT}:
                self.has[event.topic] = event.seq
            elif event.kind == MESSAGE and event.seq:
                self.said[event.seq] = event.topic
        self.pairs += pairs
        return pairs

    def looks_again(self):
        """Whether the rest of a transaction is waited for."""
        return self.subscription.commits is not None and self.subscription.commits._looking

    def _check(self, position):
        """Raise unless what was taken is what the log has up to the end of a transaction."""
        end = min(it for it in self.ends if it >= position)
        assert end == position or self._at(end) == self._at(position), (position, end)
        assert self._at(position) == (self.has, self.said), position
        self.marks.append(position)

    def _at(self, position):
        """Return the records at a position, and the messages since the start."""
        there, said = {}, {}
        for event in self.logged[:position]:
            if not any(topics.matches(event.topic) for topics in self.wanted):
                continue
            if event.kind == MESSAGE:
                said |= {event.seq: event.topic} if event.seq > self.start else {}
            elif event.kind == DELETE:
                there.pop(event.topic, None)
            else:
                there[event.topic] = event.seq
        return there, said


def write_some(world, dice):
    """Commit a transaction of one event or of several."""
    count = dice.choice((1, 1, 2, 4, 7))
    kinds_of = (PUT, PUT, DELETE, MESSAGE)
    world.commit_all(*((dice.choice(TOPICS), dice.choice(kinds_of)) for _ in range(count)))


async def one_of_many(seed):
    """Do a random run; return its world when all is settled."""
    dice = random.Random(seed)
    world = Marked(**SMALL)
    filters = dice.sample(FILTERS, dice.randint(1, 3))
    begins, resumes = dice.randrange(10), dice.random() < 0.4
    for number in range(40):
        if number == begins:
            since = dice.randint(0, world.announced) if resumes else None
            for place, text in enumerate(filters):
                world.commits(text, place + 1, since)
        what = dice.choice(("write", "announce", "announce", "ask", "answer", "take"))
        if what == "write":
            write_some(world, dice)
        elif what == "announce" and world.unannounced:
            for _ in range(dice.randint(1, 3)):  # maybe half of a transaction, as a full queue sees
                if world.unannounced:
                    world.announce()
        elif what == "ask" and world.reader.asked:
            world.reader.ask()
        elif what == "answer" and world.reader.answered:
            world.reader.answer()
        elif what == "take":
            world.take(dice.choice((1, 2, 5)))
        if not world.unannounced or world.unannounced[0].seq - 1 in world.ends:
            await world.turn()  # the loop turns between announcements of whole transactions only
    limit = dice.choice((1, 3, 100))
    await world.settle(limit)
    while world.looks_again():  # a mark may be due when a timer ends
        await until(lambda: not world.looks_again())
        await world.settle(limit)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seeds", THOUSANDS)
async def test_c23_at_each_mark_the_topics_are_as_of_one_position(seeds):
    """C23: never inside of a transaction, whatever is read from where, and how slowly."""
    marks = 0
    for seed in seeds:
        try:
            world = await one_of_many(seed)
            if not world.pairs:  # no transaction had anything for its filters
                continue
            assert world.marks
            assert world.marks == sorted(set(world.marks))
            world._check(world.marks[-1])
        except AssertionError as failure:
            failure.add_note(f"seed {seed}")
            raise
        marks += len(world.marks)
    assert marks > 2 * len(seeds)


@pytest.fixture
def world():
    return Marked(**SMALL)


async def test_a_resume_inside_of_a_transaction_gets_its_rest_and_then_the_mark(world):
    world.announce_all(world.commit_all(("Dog/1", PUT), ("Dog/2", PUT), ("Dog/1", PUT)))
    world.commits("Dog/#", 1, since=1)
    await world.settle()
    assert [(PUT, 2), (PUT, 3), (COMMIT, 3)] == kinds(world.pairs)


async def test_a_resume_inside_of_a_transaction_whose_rest_is_for_others(world):
    world.announce_all(world.commit_all(("Dog/1", PUT), ("Cat/1", PUT)))
    world.commits("Dog/#", 1, since=1)
    await world.settle()
    assert [(COMMIT, 1)] == kinds(world.pairs)


async def test_a_resume_after_a_transaction_gets_its_mark_again_before_the_next(world):
    """The client may have been cut off just before it came."""
    world.announce_all(world.commit_all(("Dog/1", PUT), ("Dog/2", PUT)))
    world.announce_all(world.commit_all(("Dog/1", PUT), ("Dog/2", PUT)))
    world.commits("Dog/#", 1, since=2)
    await world.settle()
    assert [(COMMIT, 2), (PUT, 3), (PUT, 4), (COMMIT, 4)] == kinds(world.pairs)


@pytest.mark.parametrize("rest", ["Dog/3", "Cat/1"])
async def test_a_transaction_that_is_half_announced_has_no_mark_yet(world, rest):
    """So it is when a full queue has its reader take at once; the rest may be for others."""
    world.commits("Dog/#", 1, current=False)
    await world.settle()
    assert [(COMMIT, 0)] == kinds(world.pairs)
    world.commit_all(("Dog/1", PUT), ("Dog/2", PUT), (rest, PUT))
    world.announce()
    world.announce()
    assert [(PUT, 1), (PUT, 2)] == kinds(world.take())
    world.announce()
    await world.turn()
    wanted = [(PUT, 3)] if rest == "Dog/3" else []
    assert [*wanted, (COMMIT, 3)] == kinds(world.take())


async def test_what_was_left_out_of_the_records_is_awaited(world):
    """C23: a record that has changed since is not among them, and its event is not announced."""
    world.announce_all(world.commit_all(("Dog/1", PUT)))
    world.announce_all(world.commit_all(("Cat/1", PUT)))
    world.commits("Dog/#", 1)
    world.take()
    await world.turn()
    world.commit_all(("Dog/1", PUT))
    world.reader.ask()
    world.reader.answer()
    await world.turn()
    assert [] == world.take()
    await world.turn()
    assert [] == world.take()
    world.announce()
    await world.turn()
    assert [(PUT, 3), (COMMIT, 3)] == kinds(world.take())


async def test_a_mark_concerns_the_filters_that_had_events_or_wait_for_one(world):
    world.commits("Dog/#", 1, current=False)
    await world.settle()
    world.commits("Cat/#", 2, current=False)
    world.watch("x", 3, current=False, marks=False)
    world.wanted.append(TopicFilter("x"))
    world.announce_all(world.commit_all(("Dog/1", PUT), ("x", PUT)))
    world.announce_all(world.commit_all(("Dog/1", PUT)))
    world.announce_all(world.commit_all(("x", PUT)))
    world.announce_all(world.commit_all(("Dog/1", PUT), ("Cat/1", PUT)))
    await world.settle()
    told = [(it.seq, *of.identifiers) for it, of in world.pairs if it.kind == COMMIT]
    assert [(0, 1), (0, 2), (2, 1), (3, 1), (6, 1), (6, 2)] == told


async def test_unlogged_events_of_a_transaction_come_before_its_mark(world):
    world.commits("Dog/#", 1, current=False)
    await world.settle()
    put, said = Event("Dog/1", PUT, b"{}", table=DOG), Event("Dog/2", MESSAGE, b"1", table=DOG)
    put.seq = world.announced = 1
    set_parts([put, said])
    for event in (put, said, Event("Dog/3", MESSAGE, b"2", table=DOG)):
        world.bus.publish(event)
    heard = [world.subscription.take(1)[0][0] for _ in range(4)]
    assert [PUT, MESSAGE, COMMIT, MESSAGE] == [event.kind for event in heard]
    assert ["Dog/1", "Dog/2", "", "Dog/3"] == [event.topic for event in heard]


async def test_a_mark_waits_for_the_newer_ones_of_what_was_conflated():
    """C23, M4: before them the records are not as of one position."""
    table = Table("Dog", "Dog", delivers_latest=True)
    world = Marked(**SMALL | {"log_page_events": 10, "queue_events": 100})
    tables = {"Dog": table, "Cat": CAT}
    events = []
    for seq, topic in enumerate(("Dog/1", "Cat/1", "Cat/2", "Dog/1", "Cat/1"), 1):
        event = Event(topic, PUT, b"{}", JSON, 1, True, tables[topic[:3]], seq=seq, version=seq)
        events.append(event)
    set_parts(events[:2])
    world.store.commit(events)
    world.announced = world.seq = 5
    subscription = Subscription(world.reader)
    subscription.add(
        SubscribedFilter(TopicFilter("#"), commits=True, marks=False), 0, current=False
    )
    world.subscription = subscription
    heard = []
    for _ in range(10):
        heard += subscription.take(2)
        await world.turn()
        if world.reader.asked:
            world.reader.ask()
            world.reader.answer()
    told = [(e.why, e.last) if isinstance(e, Gap) else (e.kind, e.seq) for e, _ in heard]
    gap = (GapCause.CONFLATED, 1)
    rest = [(PUT, 2), (PUT, 3), (PUT, 4), (PUT, 5), (COMMIT, 5)]
    assert [(COMMIT, 0), gap, *rest] == told


def test_each_part_tells_where_its_transaction_begins_and_ends():
    events = [Event(f"Dog/{number}", PUT, b"", seq=number) for number in (5, 6, 0, 7)]
    set_parts(events)
    assert {(5, 7)} == {span_of(event) for event in events if event.seq}
    assert [True] * 4 == [is_part(event) for event in events]
    alone = Event("Dog/9", PUT, b"", seq=9)
    set_parts([alone])
    assert (9, 9, None, False) == (*span_of(alone), alone.properties, is_part(alone))
    assert ({"part": "1/1"}, None) == (part_of(events[1]), part_of(alone))
