"""What a result changes: its rows without those that are as their records, and what it removes.

It exists so that a transaction, for which all other writers wait, has only what changes, and so
that no result is in memory as a whole: of a row that is equal only its topic is kept.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.lineage import client_of
from rowcast.features.results.staged_rows import too_many_changes
from rowcast.kernel.unchanged import Unchanged
from rowcast.kernel.write import UNHEARD, Write

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

RESULT: Final = "a result"
"""The description of a result, for the error of a row that cannot be part of one."""


class Changes:
    """The writes of one result."""

    def __init__(self, kernel: "Kernel", job: str, cut: str, caller: Caller, most: int) -> None:
        self._kernel = kernel
        self._client = client_of(job, cut)
        self._leave = Unchanged(job)
        self._caller = caller
        self._most = most
        self.writes: list[Write] = []
        self.topics: set[str] = set()
        """The topics of all rows."""

    async def add(self, events: Sequence[Event]) -> None:
        """Add a page of rows; the records that they are compared with are read together."""
        writes = [self._write(event) for event in events]
        wanted = [(write.event.table, write.event.topic) for write in writes]
        found = await self._kernel.committer.records(wanted)
        for write in writes:
            if not self._leave.leaves(write, found.get(write.event.topic)):
                self._keep(write)

    def _write(self, event: Event) -> Write:
        event.client = self._client
        write = admitted(self._kernel, event, self._caller)
        topic = write.event.topic
        self._kernel.rights.check_write(topic, self._caller, PUT)
        if topic in self.topics:
            raise Error(
                Code.CONFLICT,
                f"two rows of the result are for {topic}; a result has one row for each key",
            )
        self.topics.add(topic)
        return write

    def remove(self, topics: AbstractSet[str]) -> None:
        """Remove the records at these topics for which there was no row."""
        for topic in sorted(topics - self.topics):
            event = Event(topic, DELETE, b"", None, 1, True, client=self._client)
            self._keep(admitted(self._kernel, event, self._caller))

    def _keep(self, write: Write) -> None:
        if len(self.writes) >= self._most:
            raise too_many_changes(f"more than {self._most} changes", self._most)
        self._leave.decide_on(write)
        self.writes.append(write)


def admitted(kernel: "Kernel", event: Event, caller: Caller, *, check: bool = False) -> Write:
    """Return the write of a row; raises the Error of one that is refused.

    ``check``: it is never carried out, so no hook hears of its outcome.
    """
    done = UNHEARD if check else kernel.gate.telling(caller, UNHEARD)
    write = Write(event, caller, done, passed=True, part_of=RESULT)
    kernel.writes.admit(write)
    return write
