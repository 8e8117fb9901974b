"""Deciders of a write whose right depends on the old and the new record.

They run in the order of commits, so they check the record that the write
replaces. A condition is checked against what the writer may see, so that it does not reveal
unreadable data.
"""

from rowcast.core.events import PATCH, Record
from rowcast.features.rights.row_policy import RowPolicy
from rowcast.writes.decide import replace_value
from rowcast.writes.write import Current, Write


def guard_row(write: Write, row_policy: RowPolicy) -> None:
    """Add the checks of the writer's row policy to a write."""

    def check(write: Write, record: Record | None, _current: Current) -> int:
        event = write.event
        if write.condition is not None:
            write.condition.check(row_policy.seen(record), event.topic)
        row_policy.check_old(event.kind, event.topic, record)
        return 0

    def decide(write: Write, record: Record | None, _current: Current) -> int:
        event = write.event
        sent = write.patch if event.kind == PATCH else event.decoded
        new = row_policy.check_new(event, sent, record)
        if new is not None:
            replace_value(event, write.shape, new)
        return 0

    write.checks = (check, *write.checks)  # before the condition that the kernel checks
    write.decide(decide)
