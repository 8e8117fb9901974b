"""What a process that follows the log keeps of a result that is staged elsewhere.

Pages of a result come with the log, and are no events: they go into the tables unseen. Of each only
marks of its topics are kept here (``topic_marks.py``), so that with the switch hardly more readers
go back to the log than it concerns. Who began to follow in the middle of a result does not have
all: then it may concern everybody below the paths of its tables.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, cast

from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event
from rowcast.core.result_limits import STAGED_SWITCH_TRIES
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource
from rowcast.journal.operations import switched_tables
from rowcast.log.batch_content import ABANDON, STAGE, SWITCH, Operation, decode_content
from rowcast.writes.topic_marks import TopicMarks

log = logging.getLogger("rowcast.commit")

CONCERNED: Final = frozenset({STAGE, SWITCH, ABANDON})
"""The operations about a staged result."""


class Reads(Protocol):
    """What is read of a store; it waits until the tables have what is in the log."""

    def read(
        self, after: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return events of these sources."""


class Follows(Reads, Protocol):
    """The part of the store of a follower that is used."""

    def declared(self, name: str) -> Table | None:
        """Return the declared table of a name."""


class Shown(NamedTuple):
    """What all see now of a result in one table: what readers of the bus are told of it."""

    first: Event
    """Its first event there."""
    path: str
    """The path of the table."""
    has: Callable[[str], bool]
    """Whether it may have written at a topic."""


class FollowedStages:
    """The result that is being staged; used by the thread on which calls are made in order."""

    def __init__(self, store: Follows) -> None:
        self._store = store
        self._after = 0
        self._topics: TopicMarks | None = None

    def take(self, operation: Operation) -> None:
        """Keep the topics of a page, or forget those of what nobody will see."""
        if operation.name != STAGE:
            self._after, self._topics = 0, None
            return
        _, after, data = operation.arguments
        topics = self._topics
        if after != self._after or topics is None:
            topics = self._topics = TopicMarks()
            self._after = cast("int", after)
        for event in decode_content(cast("bytes", data), self._after, lambda _: None).events:
            topics.add(event.topic)

    def switch(self, operation: Operation, announced: int) -> list[Shown]:
        """Return what is seen now of each table, once the tables of this process show it.

        ``announced``: the position before it. Without what is not declared here: nobody is
        concerned.
        """
        last, counts = switched_tables(operation.arguments)
        topics, self._after, self._topics = self._topics, 0, None
        complete = topics is not None and topics.count == sum(count for _, count, _ in counts)
        has = topics.has if topics is not None and complete else _everywhere
        shown: list[Shown] = []
        for name, *_ in counts:
            table = self._store.declared(name)
            if table is not None:
                first = first_shown(self._store, table, announced, last)
                shown.append(Shown(first, table.path or "", has))
        return sorted(shown, key=_number_of)


def first_shown(store: Reads, table: Table, announced: int, last: int) -> Event:
    """Return the first event of a result in a table, once the tables have it; readers hear of it.

    ``announced``: the position before it. ``last``: its last number.
    """
    for _ in range(STAGED_SWITCH_TRIES):
        try:
            found = store.read(announced, 1, [table])
        except Error as error:  # nobody may read a record of before, once it is announced
            log.warning("the tables do not have a large result yet: %s", error.full)
        except Exception:  # its readers must go to the log all the same
            log.exception("the first event of a large result could not be read")
            break
        else:
            if found:
                return found[0]
            break
    # None is left in the history, or all have given way; readers hear that from the log.
    return Event(f"{table.path}/", PUT, b"", None, 1, True, table, seq=last)


def _number_of(shown: Shown) -> int:
    return shown.first.seq


def _everywhere(_topic: str) -> bool:
    return True


def concerned(operations: Sequence[Operation]) -> Operation | None:
    """Return the operation of a batch that is about a staged result; there is one at most."""
    for operation in operations:
        if operation.name in CONCERNED:
            return operation
    return None
