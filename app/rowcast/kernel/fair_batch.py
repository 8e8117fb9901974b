"""A fair batch: what goes to the disk next when more waits than one transaction takes.

In the order in which it came, one client's megabytes would go before everybody else's few bytes. So
each caller may have up to a level of the batch, such that who wants less than that has all of it.
What is left of a caller, or at a topic, keeps its order: nothing later of either overtakes it.
Facts that come without a write follow all that came before them; what changes facts itself follows
those, and only a plain write may overtake them.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from rowcast.core.callers import Caller
from rowcast.kernel.batch import Batch
from rowcast.kernel.write import FactsWrite, Write


def level_of(held: Iterable[int], budget: int) -> int:
    """Return up to how much each may have of a budget, so that who wants little has all of it."""
    wanted, rest = sorted(held), budget
    left = len(wanted)
    for want in wanted:
        if want * left >= rest:
            return rest // left
        rest -= want
        left -= 1
    return budget


class FairBatches:
    """Takes one fair batch after the other.

    A write or group that is larger than its caller's share goes in every second batch, first come
    first served: what is small waits for one of them, and not for one after the other.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._had_large = False

    def take(self, waiting: deque[Write | FactsWrite], held: Iterable[int]) -> Batch:
        """Take a batch; ``held`` are the bytes that each caller has in hand."""
        level = level_of(held, self._bytes_max)
        choice = _Choice(level, may_be_large=not self._had_large)
        batch = choice.take(waiting, self._bytes_max)
        if not len(batch):  # nothing small waits
            choice = _Choice(level, may_be_large=True)
            batch = choice.take(waiting, self._bytes_max)
        self._had_large = choice.large
        return batch


class _Choice:
    """What was taken, and what was left."""

    def __init__(self, level: int, *, may_be_large: bool) -> None:
        self._level = level
        self._may_be_large = may_be_large
        self.large = False
        """Whether it has one that is larger than the level."""
        self._batch = Batch()
        self._left: deque[Write | FactsWrite] = deque()
        self._used: dict[Caller, int] = {}
        self._taken_bytes = 0
        self._callers: set[Caller] = set()
        """Those of whom something is left."""
        self._topics: set[str] = set()
        """Those at which something is left."""
        self._facts = False
        """Whether facts are left."""

    def take(self, waiting: deque[Write | FactsWrite], bytes_max: int) -> Batch:
        """Go through all that waits, until the shares add up to the whole batch."""
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
        """Take a group or leave it; it waits in one piece, of which the first is taken out."""
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
        """Count so many bytes of a caller, if it may have them."""
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
