"""Admission, the fourth step of a write: is it of the table's types, and is it to be logged.

The result is a Write, which the committer carries out. It knows neither who writes nor through
which door.
"""

from collections.abc import Callable
from typing import Final

from rowcast.bus.durable_filters import Durable
from rowcast.codecs import decode
from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, EXPIRY, PATCH, PUT, RETAINED, Event
from rowcast.core.tables import Logs, Table
from rowcast.core.writers import note_writer
from rowcast.features.idempotency.idempotent_writes import MARKS, fact_of_mark
from rowcast.features.late_writes.write_version import check_stamp
from rowcast.features.retained.retaining import Retaining
from rowcast.features.rights.rights import Rights
from rowcast.kernel.last_write_wins import is_stamped
from rowcast.kernel.registry import VERB_OF_KIND, Registry, Route
from rowcast.kernel.row_views import TopicTables
from rowcast.kernel.write import Condition, Done, Write
from rowcast.rows.compiled_table import Shape
from rowcast.rows.topic_rows import read_only

NEEDING: Final = frozenset({EXPIRY, *MARKS})
"""Properties that a message cannot be announced without a look at."""


class Admission:
    """Validates events against the tables at their topics."""

    def __init__(
        self,
        now: WallClock,
        payload_bytes_max: int,
        durable: Durable,
        registry: Registry,
        topic_tables: TopicTables | None = None,
    ) -> None:
        self._now = now
        self._registry = registry
        self._topic_tables = topic_tables
        self._durable = durable
        self.payload_bytes_max = payload_bytes_max
        self.rights: Rights | None = None
        """Says what a writer may write of a table."""
        self.retaining: Retaining | None = None
        """The rules for what is kept at undeclared topics; without, anything is."""
        self.guards: list[Callable[[Event], None]] = []
        """Asked of each write that is to be logged; they raise BUSY for what is too much."""

    def admit(
        self,
        route: Route,
        event: Event,
        caller: Caller,
        done: Done,
        condition: Condition | None = None,
    ) -> Write:
        """Return the write that an event asks for; gives the event its table and decoded value.

        Raises TOO_LARGE, INVALID, UNPROCESSABLE, UNSUPPORTED, NOT_ALLOWED for a put at a table
        instead of at a record, or TOO_LARGE when there are too many topic tables.
        """
        self.check_size(event)
        entry, properties = route.entry, event.properties
        shape = entry.shape if entry is not None else None
        patch: object = None
        if entry is not None and entry.view is not None:
            raise read_only(entry.view)
        if shape is None:
            self._admit_undeclared(route, event)
        else:
            event.table = shape.table
            if caller.door in shape.table.hidden_from:
                raise Error(Code.NOT_FOUND, f"{route.topic!r} is not offered here")
            if event.kind in RETAINED and not route.record_id:
                raise _needs_id(route, shape.table)
            shape.check_id(route.record_id)
            if event.kind != PATCH:
                shape.admit(event)
        if event.kind == PATCH:
            patch = decode(event.payload, event.content_type)
        elif event.kind != DELETE:
            may_end = properties is not None or (shape is not None and shape.ends)
            event.expires_at = self._expiry(shape, event) if may_end else 0.0
        logged = logs(event, event.table, self._durable)
        write = Write(event, caller, done, condition, shape, patch, logged=logged)
        if shape is not None and self.rights is not None and self.rights.active:
            self._guard(write)
        if properties is not None and is_stamped(event):
            check_stamp(event, self._now())
            write.stamped = event.kind in RETAINED
        if shape is None and self.retaining is not None:
            write.quota = self.retaining.admit(event)
        if shape is None and self._topic_tables is not None and self._topic_tables.need(event):
            write.logged = True  # asked last: what is refused needs no table
        if properties is not None and (mark := fact_of_mark(event, caller)) is not None:
            write.mark, write.logged = mark, True
        if write.logged:
            note_writer(event, caller)
            for guard in self.guards:
                guard(event)
        if not route.written:
            self._registry.note_write(route)
        return write

    def _guard(self, write: Write) -> None:
        """Have a write judged by its writer's rights, where they depend on what is written."""
        rights, event = self.rights, write.event
        sight = rights.of_table(write.caller, event.table) if rights is not None else None
        if sight is not None and sight.guards:
            write.sight = sight
            write.sent = write.patch if event.kind == PATCH else event.decoded

    def check_size(self, event: Event) -> None:
        """Raise TOO_LARGE for a payload over the limit."""
        if len(event.payload) > self.payload_bytes_max:
            raise Error(
                Code.TOO_LARGE,
                f"the payload has {len(event.payload)} bytes; at most {self.payload_bytes_max} are "
                "accepted",
            )

    def _admit_undeclared(self, route: Route, event: Event) -> None:
        if route.entry is not None:
            raise Error(
                Code.NOT_ALLOWED,
                f"the resource {route.entry.path!r} does not take {VERB_OF_KIND[event.kind]}",
            )

    def _expiry(self, shape: Shape | None, event: Event) -> float:
        """Return when the event's time is over: as its table says, else as its writer said.

        A deletion has no such time: a reader that never heard of it would keep the record.
        """
        if event.kind == PUT and shape is not None and shape.ends:
            return shape.expiry(event, self._now())
        seconds = (event.properties or {}).get(EXPIRY)  # MQTT-3.3.2-5
        return self._now() + seconds if isinstance(seconds, int) else 0.0


def logs(event: Event, table: Table | None, durable: Durable) -> bool:
    """Tell whether an event goes into the log: its table says so, or a durable reader wants it."""
    if event.kind in RETAINED:
        return True
    policy = table.logs if table is not None else Logs.RETAINED
    if policy is Logs.ALL:
        return True
    return event.qos > 0 and (policy is Logs.QOS1 or durable.wanted(event.topic))


def _needs_id(route: Route, table: Table) -> Error:
    return Error(
        Code.NOT_ALLOWED,
        f"{route.topic!r} is the whole table; name a record, such as {table.topic('1')!r}",
        allow=["GET", "HEAD", "POST", "OPTIONS"],
    )
