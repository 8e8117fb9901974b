"""A batch: what goes to the disk in one transaction, in the order in which it came.

Data only: writes, and changes of facts that come without one. It knows what stands or falls
together, and what is told to whom when it falls; ``commit.py`` carries it out.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from rowcast.core.errors import Error
from rowcast.core.memory_limits import COMMIT_BATCH_BYTES_MAX
from rowcast.kernel.write import FactsWrite, Outcome, Receipt, Write
from rowcast.store.disk import size_of


@dataclass(slots=True)
class Batch:
    """Writes, and between them facts that are to be kept."""

    writes: list[Write] = field(default_factory=list)
    keeps: list[tuple[int, FactsWrite]] = field(default_factory=list)
    """Each with the number of writes that come before it."""
    size: int = 0
    """Bytes of the writes."""

    def __len__(self) -> int:
        return len(self.writes) + len(self.keeps)

    @property
    def content_bytes(self) -> int:
        """About how many bytes the disk is asked to take."""
        facts = [change for _, keeping in self.keeps for change in keeping.changes]
        facts += [change for write in self.writes for change in write.changes]
        return size_of((write.event for write in self.writes), facts)

    def stretches(self) -> Iterator[tuple[list[Write], FactsWrite | None]]:
        """Return the writes up to each of the facts, and those after the last."""
        if not self.keeps:  # as nearly always
            yield self.writes, None
            return
        start = 0
        for end, keeping in self.keeps:
            yield self.writes[start:end], keeping
            start = end
        yield self.writes[start:], None

    def parts(self) -> Iterator["Batch"]:
        """Return what can fail alone, each as a batch of its own."""
        for writes, keeping in self.stretches():
            for unit in units(writes):
                yield Batch(unit)
            if keeping is not None:
                yield Batch(keeps=[(0, keeping)])

    def refused(self, error: Error) -> list[Outcome]:
        """Return the outcomes when the disk took none of it.

        A message that nobody stores, and of which nothing is remembered, does not need the disk.
        """
        for _, keeping in self.keeps:
            keeping.error = error
        outcomes: list[Outcome] = []
        for unit in units(self.writes):
            if any(write.logged or write.changes for write in unit):
                outcomes += [error] * len(unit)
            else:
                outcomes += [Receipt(write.event) for write in unit]
        return outcomes


def units(writes: list[Write]) -> Iterator[list[Write]]:
    """Split writes into what is decided together: single writes, and whole groups."""
    index = 0
    while index < len(writes):
        group = writes[index].group
        size = len(group.writes) if group is not None else 1
        yield writes[index : index + size]
        index += size


def take(
    waiting: deque[Write | FactsWrite], size: int, bytes_max: int = COMMIT_BATCH_BYTES_MAX
) -> Batch:
    """Take a batch of about ``size`` from what waits, in its order; a group is never split.

    It has no more than ``bytes_max``, unless its first write or group alone has.
    """
    batch, taken, taken_bytes = Batch(), 0, 0
    writes = batch.writes
    while waiting:
        item = waiting[0]
        if isinstance(item, Write):
            with_it = taken_bytes + item.size
            if (taken >= size or (with_it > bytes_max and taken)) and not _continues(item):
                break
            writes.append(item)
            taken += 1
            taken_bytes = with_it
        elif taken >= size:
            break
        else:
            batch.keeps.append((len(writes), item))
            taken += item.weight
        waiting.popleft()
    batch.size = taken_bytes
    return batch


def _continues(item: Write) -> bool:
    return item.group is not None and item.group.writes[0] is not item
