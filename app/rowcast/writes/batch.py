"""A batch: the writes of one transaction, in order of submission.

Data only: writes, and changes of facts without a write. It knows which writes are atomic, and the
outcomes of a failed batch; ``commit.py`` writes it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from rowcast.core.errors import Error
from rowcast.core.memory_limits import COMMIT_BATCH_BYTES_MAX
from rowcast.store.disk import size_of
from rowcast.writes.write import FactsWrite, Outcome, Receipt, Write


@dataclass(slots=True)
class Batch:
    """Writes, and in between changes of facts."""

    writes: list[Write] = field(default_factory=list)
    facts_writes: list[tuple[int, FactsWrite]] = field(default_factory=list)
    """Each with the number of writes before it."""
    size: int = 0
    """Bytes of the writes."""
    may_outrun_tables: bool = False
    """Whether it need not wait for tables that are behind, unless they are much further so."""

    def __len__(self) -> int:
        return len(self.writes) + len(self.facts_writes)

    @property
    def content_bytes(self) -> int:
        """The approximate number of bytes to write."""
        facts = [change for _, facts_write in self.facts_writes for change in facts_write.changes]
        facts += [change for write in self.writes for change in write.changes]
        return size_of((write.event for write in self.writes), facts)

    def stretches(self) -> Iterator[tuple[list[Write], FactsWrite | None]]:
        """Return the writes up to each of the facts, and those after the last."""
        if not self.facts_writes:  # the common case
            yield self.writes, None
            return
        start = 0
        for end, facts_write in self.facts_writes:
            yield self.writes[start:end], facts_write
            start = end
        yield self.writes[start:], None

    def parts(self) -> Iterator["Batch"]:
        """Split the batch into the smallest parts that can fail separately."""
        for writes, facts_write in self.stretches():
            for unit in units(writes):
                yield Batch(unit)
            if facts_write is not None:
                yield Batch(facts_writes=[(0, facts_write)])

    def refused(self, error: Error) -> list[Outcome]:
        """Return the outcomes when the disk refused the batch.

        An unlogged message without facts does not need the disk, and succeeds.
        """
        for _, facts_write in self.facts_writes:
            facts_write.error = error
        outcomes: list[Outcome] = []
        for unit in units(self.writes):
            if any(write.logged or write.changes for write in unit):
                outcomes += [error] * len(unit)
            else:
                outcomes += [Receipt(write.event) for write in unit]
        return outcomes


def units(writes: list[Write]) -> Iterator[list[Write]]:
    """Split writes into units of decision: single writes, and groups."""
    index = 0
    while index < len(writes):
        group = writes[index].group
        size = len(group.writes) if group is not None else 1
        yield writes[index : index + size]
        index += size


def take(
    waiting: deque[Write | FactsWrite], size: int, bytes_max: int = COMMIT_BATCH_BYTES_MAX
) -> Batch:
    """Take a batch of about ``size`` writes from the queue, in order; a group is never split.

    It has at most ``bytes_max``, unless its first write or group alone is larger.
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
            batch.facts_writes.append((len(writes), item))
            taken += item.weight
        waiting.popleft()
    batch.size = taken_bytes
    return batch


def _continues(item: Write) -> bool:
    return item.group is not None and item.group.writes[0] is not item
