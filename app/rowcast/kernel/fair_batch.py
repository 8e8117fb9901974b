"""Fair batches: the next transaction when the queue is larger than one.

In FIFO order, one client's megabytes would delay everybody else's small writes. So each caller gets
at most a level of the batch (max-min fairness): callers with less get all of theirs. Writes of one
caller, and at one topic, are never reordered. Facts without a write stay behind all earlier writes;
writes with facts stay behind those, and only plain writes may overtake them.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from rowcast.core.callers import Caller
from rowcast.kernel.batch import Batch
from rowcast.kernel.write import FactsWrite, Write


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


class FairBatches:
    """Takes fair batches from the queue.

    A write or group larger than its caller's share goes into every second batch, in FIFO order, so
    that small writes wait for at most one of them.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._had_large = False

    def take(self, waiting: deque[Write | FactsWrite], held: Iterable[int]) -> Batch:
        """Take a batch; ``held`` are the pending bytes of each caller."""
        level = level_of(held, self._bytes_max)
        choice = _Choice(level, may_be_large=not self._had_large)
        batch = choice.take(waiting, self._bytes_max)
        if not len(batch):  # no small write is queued
            choice = _Choice(level, may_be_large=True)
            batch = choice.take(waiting, self._bytes_max)
        self._had_large = choice.large
        return batch


class _Choice:
    """The taken and the remaining writes."""

    def __init__(self, level: int, *, may_be_large: bool) -> None:
        self._level = level
        self._may_be_large = may_be_large
        self.large = False
        """Whether it has a write above the level."""
        self._batch = Batch()
        self._left: deque[Write | FactsWrite] = deque()
        self._used: dict[Caller, int] = {}
        self._taken_bytes = 0
        self._callers: set[Caller] = set()
        """Callers with remaining writes."""
        self._topics: set[str] = set()
        """Topics with remaining writes."""
        self._facts = False
        """Whether facts remain."""

    def take(self, waiting: deque[Write | FactsWrite], bytes_max: int) -> Batch:
        """Scan the queue until the batch is full."""
        batch, left = self._batch, self._left
        while waiting and self._taken_bytes < bytes_max:
            item = waiting.popleft()
            if isinstance(item, Write):
                if item.group is None:
                    self._take_one(item)
                else:
                    self._take_group(item.group.writes, waiting)
            elif left:
                left.append(item)
                self._facts = True
            else:
                batch.keeps.append((len(batch.writes), item))
        waiting.extendleft(reversed(left))
        batch.size = sum(self._used.values())
        return batch

    def _take_one(self, write: Write) -> None:
        caller, topic = write.caller, write.event.topic
        if (
            caller not in self._callers
            and topic not in self._topics
            and not (self._facts and _changes_facts(write))
            and self._fits(caller, write.size)
        ):
            self._batch.writes.append(write)
        else:
            self._callers.add(caller)
            self._topics.add(topic)
            self._left.append(write)

    def _take_group(self, group: Sequence[Write], waiting: deque[Write | FactsWrite]) -> None:
        """Take or leave a group, which is contiguous in the queue."""
        for _ in group[1:]:
            waiting.popleft()
        caller, topics = group[0].caller, {write.event.topic for write in group}
        if (
            caller not in self._callers
            and topics.isdisjoint(self._topics)
            and not (self._facts and any(map(_changes_facts, group)))
            and self._fits(caller, sum(write.size for write in group))
        ):
            self._batch.writes += group
        else:
            self._callers.add(caller)
            self._topics |= topics
            self._left += group

    def _fits(self, caller: Caller, size: int) -> bool:
        """Add bytes to a caller's share if they fit."""
        used = self._used.get(caller, 0)
        if used + size <= self._level:
            self._taken_bytes += size
        elif used or self.large or not self._may_be_large:
            return False
        else:
            self.large = True
        self._used[caller] = used + size
        return True


def _changes_facts(write: Write) -> bool:
    group = write.group
    return (
        bool(write.changes)
        or write.conclude is not None
        or (group is not None and group.conclude is not None)
    )
