"""The decider of a result's rows: unchanged rows append no event, and only own rows are deleted."""

from rowcast.core.errors import Error
from rowcast.core.events import DELETE, Record
from rowcast.core.lineage import is_of
from rowcast.writes.decide import value_of_record
from rowcast.writes.write import Current, Write


class Unchanged:
    """Skips rows of one job's result that would not change their record."""

    __slots__ = ("_job",)

    def __init__(self, job: str) -> None:
        self._job = job

    def decide_on(self, write: Write) -> None:
        """Add it to a write's deciders, once: a result may be committed again after a failure."""
        others = (decider for decider in write.deciders if type(decider) is not Unchanged)
        write.deciders = tuple(others)
        write.decide(self)

    def leaves(self, write: Write, record: Record | None) -> bool:
        """Whether a put would change nothing, and nothing else decides about it."""
        notes = 1 if write.follows else 0  # what notes which writes it had seen refuses nothing
        alone = not write.checks and len(write.deciders) <= notes
        return alone and record is not None and self(write, record, Current()) > 0

    def __call__(self, write: Write, record: Record | None, _current: Current) -> int:
        """Return the version of the unchanged record; 0 if the write changes it.

        Expiring records are rewritten, because their lifetime starts at the last write.
        """
        if write.event.kind == DELETE:
            its_own = record is not None and is_of(record.client, self._job)
            return 0 if its_own else (1 if record is None else record.version)
        shape = write.shape
        if record is None or shape is None or shape.ends:
            return 0
        try:
            known, new = value_of_record(record), write.event.decoded
        except Error:
            return 0
        for name in (item.name for item in shape.managed):
            known, new = without(known, name), without(new, name)
        return record.version if known == new else 0


def without(value: object, name: str) -> object:
    """Return a value without one attribute."""
    if not isinstance(value, dict) or name not in value:
        return value
    return {key: item for key, item in value.items() if key != name}
