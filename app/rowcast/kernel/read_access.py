"""Who may read and watch: what the kernel asks before it reads, for every verb of every door.

The rights feature answers. Without it the answer is no: nothing is allowed by omission.
"""

from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Record
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.stage import Stage


class ReadAccess(Protocol):
    """Decides what callers may read."""

    active: bool
    """Whether anything but grants decides."""

    def check_read(self, topic: str, caller: Caller) -> None:
        """Raise DENIED or UNAUTHENTICATED unless the caller may be given what is at a topic."""

    def check_table(self, table: Table, caller: Caller) -> None:
        """Raise likewise unless it may be given any of a table's records."""

    def check_watch(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise likewise unless it may be given anything that a filter selects."""

    def record(self, caller: Caller, record: Record) -> Record | None:
        """Return what a record is to a caller: itself, another, or nothing."""

    def stage(self, caller: Caller) -> Stage | None:
        """Return what each event is to a caller who begins to watch; None: all as it is."""


class NothingAllowed:
    """What decides as long as no feature does."""

    active = True

    def check_read(self, topic: str, caller: Caller) -> None:
        """Raise DENIED."""
        raise _refused(caller, topic)

    def check_table(self, table: Table, caller: Caller) -> None:
        """Raise DENIED."""
        raise _refused(caller, table.path or table.name)

    def check_watch(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise DENIED."""
        raise _refused(caller, topics.text)

    def record(self, caller: Caller, record: Record) -> Record | None:
        """Raise DENIED."""
        raise _refused(caller, record.topic)

    def stage(self, caller: Caller) -> Stage | None:
        """Raise DENIED."""
        raise _refused(caller, "#")


def _refused(caller: Caller, topic: str) -> Error:
    return Error(Code.DENIED, f"{caller.user} may not read {topic!r}: no rights are installed")
