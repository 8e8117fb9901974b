"""Tables excluded from protocols of HTTP: ``@export(rest: false)``, likewise ``sse`` and ``ws``.

A table that is excluded from a protocol is not there for its clients: not by its path, and not
among what a wildcard matches.
"""

from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.tables import Table
from rowcast.routes.registry import Registry
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filters import Pair

PROTOCOLS: Final = {"rest": "REST", "sse": "SSE", "ws": "WebSocket", "mqtt": "MQTT"}
"""The names of protocols in ``Table.hidden_from``, and as they are written."""


def check_not_excluded(table: Table | None, protocol: str) -> None:
    """Raise NOT_FOUND for a table that is excluded from a protocol."""
    if table is not None and protocol in table.hidden_from:
        raise Error(Code.NOT_FOUND, f"{table.name} is not offered over {PROTOCOLS[protocol]}")


class ExcludedTables:
    """The stage of events that withholds those of tables excluded from a protocol."""

    __slots__ = ("_protocol",)
    compares = False

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol

    def counts(self, event: Event) -> bool:
        """Whether the caller may learn that an event existed."""
        return event.table is None or self._protocol not in event.table.hidden_from

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return the pairs of offered tables, in order, and all marks."""
        return [pair for pair in pairs if self.counts(pair[0])]

    def show(self, event: Event, granted: int) -> Event | None:  # noqa: ARG002 - of any QoS
        """Return an event of an offered table; None for another."""
        return event if self.counts(event) else None


class Exclusions:
    """Makes the stage of a stream; protocols that offer every table need none."""

    def __init__(self, registry: Registry) -> None:
        hidden = {
            protocol
            for entry in registry.entries
            if entry.shape is not None
            for protocol in entry.shape.table.hidden_from
        }
        self._stages: dict[str, ExcludedTables] = {
            name: ExcludedTables(name) for name in ("sse", "ws") if name in hidden
        }

    def stage(self, caller: Caller) -> Stage | None:
        """Return the stage for a caller's protocol; None if it has all tables."""
        return self._stages.get(caller.door)
