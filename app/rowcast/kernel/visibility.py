"""Visibility: what a caller is given of records and events, by rights first and then by filters.

A filter is what a feature has to say beside rights, such as hooks that decide what is read
(``can_read``). It is shown only what the caller's rights let through, as they let it through, and
may keep it back.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.events import Event, Record
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.kernel.authorizer import Authorizer
from rowcast.subscriptions.stage import Stage


class ReadFilter(Protocol):
    """Keeps from callers some of what their rights let them read."""

    def may_read(self, caller: Caller, topic: str, /) -> bool:
        """Tell whether a caller may be given what is at a topic."""

    def may_see(self, caller: Caller, event: Event, /) -> bool:
        """Tell whether a caller may be given a record or event."""


class AccessSeams:
    """The seams at which features decide what callers may do and are shown."""

    def __init__(self) -> None:
        self.rights = Authorizer()
        """Decides what callers may do and are shown; a feature puts its own in this place."""
        self.read_filters: list[ReadFilter] = []
        """Asked, behind ``rights``, what of it a caller is given; there once they decide it."""
        self.visibility = Visibility(self)
        self.view: list[Callable[[Caller], Stage | None]] = []
        """Asked, behind ``rights``, when a caller begins to watch: what each event is to it."""


class Visibility:
    """What the callers of one kernel are given."""

    def __init__(self, seams: AccessSeams) -> None:
        self._seams = seams
        self._filters = seams.read_filters

    @property
    def filtered(self) -> bool:
        """Whether anything but grants decides what may be read."""
        return self._seams.rights.active or bool(self._filters)

    def passes(self, caller: Caller, topic: str) -> bool:
        """Tell whether the filters give a caller what is at a topic; rights are not asked."""
        return not self._filters or all(item.may_read(caller, topic) for item in self._filters)

    def passes_event(self, caller: Caller, event: Event) -> bool:
        """Tell whether the filters give a caller an event; rights are not asked."""
        return not self._filters or all(item.may_see(caller, event) for item in self._filters)

    def may_read(self, caller: Caller, topic: str) -> bool:
        """Tell whether a caller is given what is at a topic, as far as the topic decides."""
        return self._seams.rights.may_read(caller, topic) and self.passes(caller, topic)

    def takes(self, caller: Caller, event: Event) -> bool:
        """Tell whether an event is anything to a caller."""
        seen = self._seams.rights.shown(caller, event)
        return seen is not None and self.passes_event(caller, seen)

    def events(self, caller: Caller, events: Sequence[Event]) -> list[Event]:
        """Return what several events are to a caller."""
        if not self.filtered:
            return list(events)
        shown = self._seams.rights.shown
        seen = [shown(caller, event) for event in events]
        return [item for item in seen if item is not None and self.passes_event(caller, item)]

    def records(self, caller: Caller, records: Sequence[Record]) -> list[Record]:
        """Return what several records are to a caller."""
        if not self.filtered:
            return list(records)
        shown = self._seams.rights.record
        seen = [shown(caller, record) for record in records]
        return [
            record for record in seen if record is not None and self.passes_event(caller, record)
        ]

    # -- tables ------------------------------------------------------------------------------------

    def sifts(self, caller: Caller, table: Table) -> bool:
        """Tell whether each of a table's records has to be asked about."""
        return bool(self._filters) or self._seams.rights.mixed(caller, table)

    def limits(self, caller: Caller, table: Table) -> bool:
        """Tell whether rights show a caller less than all of a table."""
        return self._seams.rights.limits(caller, table)

    def narrowed(self, caller: Caller, table: Table, query: Query) -> Query | None:
        """Return a query that selects only what rights show a caller; None: that is nothing."""
        return self._seams.rights.narrowed(caller, table, query)
