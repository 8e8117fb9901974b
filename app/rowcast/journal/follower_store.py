"""The store of a follower: the tables as reader of a log that another node writes.

It reads and packs as the store of a server does (``journaled_store.py``); what it has in its tail
comes from outside, batch by batch in order (``take``), and nothing is appended here.
"""

import logging
from collections.abc import Callable, Sequence

from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import MISSING, Event, Record
from rowcast.core.number_gaps import NumberGaps
from rowcast.core.tables import Table
from rowcast.journal.applier import restorer
from rowcast.journal.applying import Applied, Applying
from rowcast.journal.journaled_store import GAPS, JournaledStore
from rowcast.journal.tail import Nothing, Tail
from rowcast.journal.written_schema import schema_in
from rowcast.log.batch import Batch
from rowcast.log.batch_content import Content
from rowcast.log.followed_log import FollowedLog
from rowcast.store.sqlite import SqlStore

log = logging.getLogger("rowcast.journal")


class FollowerStore(JournaledStore):
    """Tail and tables of one follower."""

    sweeps = False
    schema = ""
    """The text of the schema that batches are read with; empty where there is only one."""
    differs = False
    """Whether the next batch begins with another schema, so that this store takes no more."""
    on_other_schema: Callable[[], None] | None = None
    """Called then."""

    def __init__(
        self,
        tables: SqlStore,
        log: FollowedLog,
        applying: Applying,
        now: WallClock,
        tail: Tail | None = None,
    ) -> None:
        super().__init__(tables, log, applying, now, tail)
        self._followed = log
        self.restore: Callable[[Event], None]
        """Decodes an event of ``take``, as its writer had decoded it; set by ``open``."""

    def declared(self, name: str) -> Table | None:
        """Return the declared table of a name."""
        return self._declared.get(name)

    def open(self, tables: Sequence[Table]) -> None:
        """Open the tables, and apply what they lack of the batches that are here."""
        self._declared = {table.name: table for table in tables}
        self.restore = in_one_step(restorer(tables))
        super().open(tables)

    @property
    def number(self) -> int:
        """The number of the last batch that is here; the next one is to follow it."""
        return self._followed.head.number

    @property
    def checksum(self) -> int:
        """The checksum of that batch; 0 if it is not known."""
        return self._followed.checksum

    def take(self, batch: Batch) -> Content:
        """Take the next batch, which is durable where it was appended; return what it has.

        Its events are not decoded: most are of topics that nobody reads here (``restore``).
        Raises CONFLICT when it is not the next one, or was written under another schema; INVALID
        when its content is no content.
        """
        content = batch.content(self._declared.get)
        if self.schema and content.operations:
            self._check_schema(batch.number, schema_in(content.changes))
        for operation in content.operations:
            if operation.name == "reserve":
                (seq,) = operation.arguments
                self._reserved = max(self._reserved, int(seq or 0))
        for change in content.changes if content.operations else ():
            if (change.owner, change.name) == GAPS:
                self._gaps = NumberGaps.read(change.value or b"", self._reserved)
        self._followed.take(batch)
        self._head = max(self._head, batch.last)
        if content.events:
            self._last_version = max(self._last_version, batch.made_at)
        self.tail.add(batch, content.events, content.changes)
        self.applying.push(batch.number)
        return content

    def _check_schema(self, number: int, schema: str) -> None:
        """Raise CONFLICT for a batch after which events are those of other tables."""
        if schema in {"", self.schema}:
            return
        self.differs = True
        if self.on_other_schema is not None:
            self.on_other_schema()
        raise Error(Code.CONFLICT, f"batch {number} begins with another schema")

    def _newest(self, topic: str) -> Record | Nothing | None:
        """Return what the tail has of a topic, decoded."""
        known = super()._newest(topic)
        if isinstance(known, Event) and known.decoded is MISSING:
            self.restore(known)
        return known

    def note_applied(self, applied: Applied) -> None:
        """Take a report on tables that another process writes; not on the thread that follows.

        They may have batches that are not here yet, for which this waits.
        """
        try:
            self._take_applied(applied)
        except Error as error:
            log.warning("a report on the tables was not understood: %s", error.full)

    def _take_applied(self, applied: Applied) -> None:
        super()._take_applied(applied)
        self._followed.trim(applied.number)

    def append(self, packed: object, *, may_outrun_tables: bool = False) -> int:  # noqa: ARG002
        """Refuse, with BUSY: another node appends."""
        raise Error(
            Code.BUSY,
            "this node follows the log of another one, which makes this change; try it there",
            retry_after_seconds=1,
        )


def in_one_step(restore: Callable[[Event], None]) -> Callable[[Event], None]:
    """Decode events that other threads look at: these see one before or after, nothing between."""

    def decode(event: Event) -> None:
        known = event.payload, event.content_type
        copy = Event(event.topic, event.kind, *known, table=event.table, seq=event.seq)
        restore(copy)
        event.payload, event.content_type = copy.payload, copy.content_type
        event.decoded = copy.decoded

    return decode
