"""The deciders of a write whose right depends on the record, as it is and as it will be.

They run on the writer thread, in the order of commits, so what they judge is the record that the
write replaces. A condition is checked against what its writer may see: it must not find out by a
condition what it cannot read.
"""

from rowcast.core.events import PATCH, Record
from rowcast.features.rights.row_policy import RowPolicy
from rowcast.kernel.decide import replace_value
from rowcast.kernel.write import Current, Write


def guard_row(write: Write, sight: RowPolicy) -> None:
    """Have a write judged by what its writer may see and write of the table."""

    def check(write: Write, record: Record | None, _current: Current) -> int:
        event = write.event
        if write.condition is not None:
            write.condition.check(sight.seen(record), event.topic)
        sight.check_old(event.kind, event.topic, record)
        return 0

    def decide(write: Write, record: Record | None, _current: Current) -> int:
        event = write.event
        sent = write.patch if event.kind == PATCH else event.decoded
        new = sight.check_new(event, sent, record)
        if new is not None:
            replace_value(event, write.shape, new)
        return 0

    write.checks = (check, *write.checks)  # before the condition that the kernel checks
    write.decide(decide)
