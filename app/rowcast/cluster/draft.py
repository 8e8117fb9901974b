"""A batch that a follower has decided, before and while it is a proposal.

Its units are atomic: the sequencer carries out the first ones, maybe not all, and the follower
decides the rest again (``forwarding.py``).
"""

from collections.abc import Sequence

from rowcast.cluster.proposals import PLACEHOLDER, Read, Unit
from rowcast.cluster.sequencing import Verdict
from rowcast.core.errors import Error
from rowcast.core.events import Event
from rowcast.writes.batch import Batch
from rowcast.writes.group_commit import GroupCommit
from rowcast.writes.write import FactsWrite, Write


class Draft:
    """A batch, decided here, with what it needs to be a proposal."""

    __slots__ = ("events", "number", "spans", "tries", "units", "verdict", "work")

    def __init__(self, work: GroupCommit, tries: int) -> None:
        self.work = work
        self.tries = tries
        self.number = 0
        self.units: list[Unit] = []
        self.events: list[Event] = []
        self.spans: list[tuple[list[Write], FactsWrite | None]] = []
        """The writes, or the facts, of each unit."""
        self.verdict: tuple[Verdict, int] | None = None
        """The verdict on it, and the batch that must have arrived before it is used."""


def reads_of(unit: list[Write], work: GroupCommit) -> list[Read]:
    """Return the read set of a unit's decision, before it is made."""
    current, reads = work.current, dict[str, Read]()
    for write in unit:
        event = write.event
        if not write.depends or event.topic in reads or event.topic not in current:
            continue
        record = current[event.topic]
        last = write.versioned or write.follows
        stamp = current.tombstones.get(event.topic, (0, "")) if last else None
        table = None if event.table is None else event.table.name
        seq = 0 if record is None else record.seq
        reads[event.topic] = Read(table, event.topic, seq, stamp)
    return list(reads.values())


def first_units(draft: Draft, until: int) -> GroupCommit:
    """Return the first units of a draft as a batch with its outcomes."""
    spans = draft.spans[:until]
    work = GroupCommit(_batch_of(spans))
    work.outcomes = draft.work.outcomes[: len(work.batch.writes)]
    return work


def rest_of(draft: Draft, until: int) -> Batch | None:
    """Return the units of a draft after the first ones; None without any."""
    spans = draft.spans[until:]
    return _batch_of(spans) if spans else None


def _batch_of(spans: Sequence[tuple[list[Write], FactsWrite | None]]) -> Batch:
    batch = Batch()
    for writes, facts_write in spans:
        batch.writes += writes
        if facts_write is not None:
            batch.facts_writes.append((len(batch.writes), facts_write))
    batch.size = sum(write.size for write in batch.writes)
    return batch


def tell_number(error: Error, first: int) -> None:
    """Replace a placeholder number in the detail of an error by the assigned number."""
    seq = error.detail.get("seq")
    if isinstance(seq, int) and seq >= PLACEHOLDER:
        error.detail["seq"] = first + seq - PLACEHOLDER
