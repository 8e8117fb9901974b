"""Visibility: the records and events that a caller sees, after rights and read filters.

A filter is a feature's check besides rights, such as hooks for reads (``can_read``). It gets only
records that the caller's rights allow, in the form that they allow, and may withhold them.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.events import Event, Record
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.seams.authorizer import Authorizer
from rowcast.subscriptions.stage import Stage


class ReadFilter(Protocol):
    """Withholds records that a caller's rights allow."""

    def may_read(self, caller: Caller, topic: str, /) -> bool:
        """Whether a caller may read a topic."""

    def may_see(self, caller: Caller, event: Event, /) -> bool:
        """Whether a caller may see a record or event."""


class AccessSeams:
    """The seams for authorisation and visibility."""

    def __init__(self) -> None:
        self.rights = Authorizer()
        """The authorizer; a feature replaces it."""
        self.read_filters: list[ReadFilter] = []
        """Read filters, called after ``rights``."""
        self.visibility = Visibility(self)
        self.view: list[Callable[[Caller], Stage | None]] = []
        """Factories of stages, called after ``rights`` for a new subscription."""


class Visibility:
    """The visibility for callers of one kernel."""

    def __init__(self, seams: AccessSeams) -> None:
        self._seams = seams
        self._filters = seams.read_filters

    @property
    def filtered(self) -> bool:
        """Whether there is more than grants for reads."""
        return self._seams.rights.active or bool(self._filters)

    def passes(self, caller: Caller, topic: str) -> bool:
        """Whether the filters let a caller read a topic; without rights."""
        return not self._filters or all(item.may_read(caller, topic) for item in self._filters)

    def passes_event(self, caller: Caller, event: Event) -> bool:
        """Whether the filters let a caller see an event; without rights."""
        return not self._filters or all(item.may_see(caller, event) for item in self._filters)

    def may_read(self, caller: Caller, topic: str) -> bool:
        """Whether a caller may read a topic, as far as the topic decides."""
        return self._seams.rights.may_read(caller, topic) and self.passes(caller, topic)

    def takes(self, caller: Caller, event: Event) -> bool:
        """Whether a caller may see an event."""
        seen = self._seams.rights.shown(caller, event)
        return seen is not None and self.passes_event(caller, seen)

    def events(self, caller: Caller, events: Sequence[Event]) -> list[Event]:
        """Return events as a caller sees them."""
        if not self.filtered:
            return list(events)
        shown = self._seams.rights.shown
        seen = [shown(caller, event) for event in events]
        return [item for item in seen if item is not None and self.passes_event(caller, item)]

    def records(self, caller: Caller, records: Sequence[Record]) -> list[Record]:
        """Return records as a caller sees them."""
        if not self.filtered:
            return list(records)
        shown = self._seams.rights.record
        seen = [shown(caller, record) for record in records]
        return [
            record for record in seen if record is not None and self.passes_event(caller, record)
        ]

    # -- tables ------------------------------------------------------------------------------------

    def sifts(self, caller: Caller, table: Table) -> bool:
        """Whether each of a table's records must be checked separately."""
        return bool(self._filters) or self._seams.rights.mixed(caller, table)

    def limits(self, caller: Caller, table: Table) -> bool:
        """Whether rights restrict what a caller sees of a table."""
        return self._seams.rights.limits(caller, table)

    def narrowed(self, caller: Caller, table: Table, query: Query) -> Query | None:
        """Return a query restricted by the caller's rights; None if nothing is left."""
        return self._seams.rights.narrowed(caller, table, query)
