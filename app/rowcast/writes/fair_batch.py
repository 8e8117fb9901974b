"""Fair batches: the next transaction when several callers have more than one waiting.

In FIFO order, one client's flood would delay everybody else's few writes. So each caller has a
lane, and gets at most a level of the batch (max-min fairness): callers with less get all of theirs.
Writes of one caller, and at one topic, are never reordered. Facts without a write stay behind all
earlier writes; writes with facts stay behind those, and only plain writes may overtake them.

A write is moved into its lane once, and a batch looks at the first of each lane and at what it
takes: what a flood has waiting costs nothing.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heapreplace

from rowcast.core.callers import Caller
from rowcast.writes.batch import Batch
from rowcast.writes.write import LOW_PRIORITY_TYPES, FactsWrite, Write


def level_of(held: Iterable[int], budget: int) -> int:
    """Return the max-min fair level of a budget."""
    wanted, rest = sorted(held), budget
    left = len(wanted)
    for want in wanted:
        if want * left >= rest:
            return rest // left
        rest -= want
        left -= 1
    return budget


class _Unit:
    """A write or a group, which is taken or left as a whole."""

    __slots__ = ("arrival", "changes_facts", "place", "places", "size", "writes")

    def __init__(
        self, arrival: int, writes: Sequence[Write], place: int, places: list[int] | None
    ) -> None:
        self.arrival = arrival
        """Its place among all that came."""
        self.writes = writes
        self.place = place
        """The place of its first write among those at its topic."""
        self.places = places
        """That of each of its writes; None for a write that is no group."""
        if places is None:
            write = writes[0]
            self.size = write.size
            self.changes_facts = bool(write.changes) or write.conclude is not None
        else:
            self.size = sum([write.size for write in writes])
            self.changes_facts = any(map(_changes_facts, writes))


class _Lane:
    """The waiting units of one caller."""

    __slots__ = ("count", "size", "units", "used", "used_count")

    def __init__(self) -> None:
        self.units: deque[_Unit] = deque()
        self.size = self.count = 0
        """Bytes and number of the writes in it."""
        self.used = self.used_count = 0
        """The same of those in the batch that is being made."""


class FairBatches:
    """Takes fair batches of what it was given, in lanes.

    A unit larger than its caller's share goes into every second batch, one at a time, so that small
    writes wait for at most one of them. A caller with at most ``few_bytes`` waiting has few.
    """

    def __init__(self, few_bytes: int) -> None:
        self._few_bytes = few_bytes
        self._lanes: dict[object, _Lane] = {}
        """By connection: a caller is another one after a change of its rights."""
        self._facts: deque[tuple[int, FactsWrite]] = deque()
        self._topics: dict[str, list[int]] = {}
        """For each topic with waiting writes: how many came, and how many of them were taken."""
        self._arrivals = 0
        self._had_large = False
        self.count = 0
        """How many writes and facts wait here."""

    def add(self, waiting: deque[Write | FactsWrite]) -> None:
        """Move all that waits in a queue into lanes."""
        self.count += len(waiting)
        caller: Caller | None = None
        lane: _Lane | None = None
        while waiting:
            item = waiting.popleft()
            self._arrivals += 1
            if not isinstance(item, Write):
                self._facts.append((self._arrivals, item))
                continue
            if item.group is None:
                unit = _Unit(self._arrivals, (item,), self._place(item), None)
            else:
                writes = item.group.writes
                for _ in writes[1:]:  # a group is contiguous in the queue
                    waiting.popleft()
                places = [self._place(write) for write in writes]
                unit = _Unit(self._arrivals, writes, places[0], places)
            if lane is None or item.caller is not caller:
                caller = item.caller
                lane = self._lanes.get(caller.connection)
                if lane is None:
                    lane = self._lanes[caller.connection] = _Lane()
            lane.units.append(unit)
            lane.size += unit.size
            lane.count += len(unit.writes)

    def _place(self, write: Write) -> int:
        places = self._topics.get(write.event.topic)
        if places is None:
            places = self._topics[write.event.topic] = [0, 0]
        places[0] += 1
        return places[0] - 1

    def has_many_awaited(self) -> bool:
        """Whether somebody with more than few bytes here waits until they are stored."""
        return any(
            lane.size > self._few_bytes
            and type(lane.units[0].writes[0].done) not in LOW_PRIORITY_TYPES
            for lane in self._lanes.values()
        )

    def take(self, bytes_max: int, events_max: int, *, few: bool = False) -> Batch:
        """Take a batch of about this size; ``few``: only of callers who have few bytes waiting.

        It is empty when nothing waits, or nothing of those.
        """
        lanes = self._lanes.values()
        sizes, counts = [lane.size for lane in lanes], [lane.count for lane in lanes]
        choice = _Choice(self._topics, bytes_max, events_max)
        choice.level = max(level_of(sizes, bytes_max), min(self._few_bytes, bytes_max))
        choice.count_level = max(level_of(counts, events_max), 1)
        choice.may_be_large = not self._had_large
        self._fill(choice, few=few)
        if not len(choice.batch) and self.count:  # no small write is waiting
            choice.may_be_large = True
            self._fill(choice, few=few)
        self._had_large = choice.large
        self.count -= len(choice.batch)
        return choice.batch

    def _begin(self, choice: "_Choice", *, few: bool) -> dict[int, _Lane]:
        """Return the lanes that may be taken from, by the arrival of their first unit."""
        choice.first_left = 0
        heads: dict[int, _Lane] = {}
        for lane in self._lanes.values():
            lane.used = lane.used_count = 0
            arrival = lane.units[0].arrival
            if few and lane.size > self._few_bytes:
                choice.leave(arrival)
            else:
                heads[arrival] = lane
        return heads

    def _fill(self, choice: "_Choice", *, few: bool) -> None:
        """Take what came first, again and again, of lanes that have not had their share."""
        heads, facts = self._begin(choice, few=few), self._facts
        order = list(heads)
        heapify(order)
        while order and not choice.is_full:
            arrival = order[0]
            while facts and facts[0][0] < arrival and choice.takes_facts(*facts[0]):
                facts.popleft()
            lane = heads[arrival]
            kept_back = lane.units[0].changes_facts and bool(facts) and facts[0][0] < arrival
            taken = not kept_back and choice.takes(lane)
            if taken and not facts:
                choice.take_run(lane, min(order[1:3], default=0))  # the heap's next is one of these
            if taken and lane.units:
                following = lane.units[0].arrival
                heads[following] = lane
                heapreplace(order, following)
                continue
            if lane.units:
                choice.leave(lane.units[0].arrival)
            heappop(order)
        if order:
            choice.leave(order[0])
        while facts and choice.takes_facts(*facts[0]):
            facts.popleft()
        for caller in [caller for caller, lane in self._lanes.items() if not lane.units]:
            del self._lanes[caller]


class _Choice:
    """The batch that is being made."""

    def __init__(self, topics: dict[str, list[int]], bytes_max: int, events_max: int) -> None:
        self._topics = topics
        self._bytes_max = bytes_max
        self._events_max = events_max
        self.level = self.count_level = 0
        """A caller's share in bytes, and in writes."""
        self.may_be_large = self.large = False
        """Whether it may have, and has, a unit above the level."""
        self.batch = Batch()
        self._small_bytes = 0
        """Of units within the level."""
        self._weight = 0
        """Changes of facts in it, besides those of writes."""
        self.first_left = 0
        """The earliest arrival of what is left; 0 for none."""

    @property
    def is_full(self) -> bool:
        """Whether it has as much as it may have."""
        count = len(self.batch.writes) + self._weight
        return self._small_bytes >= self._bytes_max or count >= self._events_max

    def leave(self, arrival: int) -> None:
        """Note what is left: facts that came later are left, too."""
        if not self.first_left or arrival < self.first_left:
            self.first_left = arrival

    def takes_facts(self, arrival: int, facts: FactsWrite) -> bool:
        """Take facts, if all that came before them is taken; return whether they are."""
        if self.is_full or 0 < self.first_left < arrival:
            return False
        self.batch.facts_writes.append((len(self.batch.writes), facts))
        self._weight += facts.weight
        return True

    def takes(self, lane: _Lane) -> bool:
        """Take the first unit of a lane, if it may be taken; return whether it is."""
        unit, topics = lane.units[0], self._topics
        if not (self._is_next(unit) and self._fits(lane, unit)):
            return False
        for write in unit.writes:
            places = topics[write.event.topic]
            places[1] += 1
            if places[0] == places[1]:
                del topics[write.event.topic]
        count = len(unit.writes)
        lane.units.popleft()
        lane.size -= unit.size
        lane.count -= count
        lane.used += unit.size
        lane.used_count += count
        self.batch.size += unit.size
        self.batch.writes += unit.writes
        return True

    def take_run(self, lane: _Lane, until: int) -> None:
        """Take more of a lane, up to the first unit of another lane; 0: there is none."""
        units = lane.units
        while units and not self.is_full and (not until or units[0].arrival < until):
            if not self.takes(lane):
                return

    def _is_next(self, unit: _Unit) -> bool:
        """Return whether nothing that came earlier is left at its topics."""
        if unit.places is None:
            return self._topics[unit.writes[0].event.topic][1] == unit.place
        own: dict[str, int] = {}
        for write, place in zip(unit.writes, unit.places, strict=True):
            topic = write.event.topic
            if place != self._topics[topic][1] + own.get(topic, 0):
                return False
            own[topic] = own.get(topic, 0) + 1
        return True

    def _fits(self, lane: _Lane, unit: _Unit) -> bool:
        """Return whether a unit is within its caller's share, or the large one of the batch."""
        count = lane.used_count + len(unit.writes)
        if lane.used + unit.size <= self.level and count <= self.count_level:
            self._small_bytes += unit.size
            return True
        if lane.used_count or self.large or not self.may_be_large:
            return False
        self.large = True
        return True


def _changes_facts(write: Write) -> bool:
    group = write.group
    return (
        bool(write.changes)
        or write.conclude is not None
        or (group is not None and group.conclude is not None)
    )
