"""Admission: the step of a write that checks its content: size, type, expiry, and logging.

Compiled for each route: content of a declared table is checked against it; an undeclared topic
accepts any bytes. Of the caller it looks only at the door.
"""

from functools import partial
from typing import Final

from rowcast.bus.durable_filters import DurableFilters
from rowcast.codecs import decode, is_structured
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, EXPIRY, PATCH, PUT, RETAINED, Event
from rowcast.core.tables import Logs, Table
from rowcast.kernel.steps import Steps
from rowcast.routes.registry import VERB_OF_KIND, Entry, Route
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.topic_rows import View, read_only
from rowcast.seams.write_detour import WriteDetour
from rowcast.writes.write import OPEN, Examination, Step, Write

_ALL: Final = Logs.ALL
_QOS1: Final = Logs.QOS1
"""Members of an enumeration cost a search of its class each time."""
_WRITES: Final = {
    "put": "PUT (in MQTT a retained message)",
    "patch": "PATCH",
    "delete": "DELETE (in MQTT an empty retained message)",
    "publish": "messages (PUBLISH without retain, or POST with ?retain=false)",
}
"""The writes of each verb, as clients know them."""


class Admission:
    """Validates the content of events against the tables at their topics."""

    def __init__(
        self, now: WallClock, payload_bytes_max: int, durable: DurableFilters, steps: Steps
    ) -> None:
        self._now = now
        self.durable = durable
        """Tells whether a durable reader wants the messages of a topic, which are then logged."""
        self._steps = steps
        self._open_step: Step = self._admit_undeclared  # one for all routes
        self.payload_bytes_max = payload_bytes_max
        self.detour: WriteDetour | None = None
        """Where large values are examined; None without that feature."""

    def step(self, route: Route) -> Step:
        """Return the step that sets the table, value and expiry of a route's events.

        It raises TOO_LARGE, INVALID, UNPROCESSABLE, UNSUPPORTED, NOT_ALLOWED for a put at a table
        instead of at a record, or NOT_FOUND for a topic of a feature that is not installed.
        """
        shape, view = route.shape, route.view
        if view is not None:
            return partial(_refuse_rows, view)
        if shape is None:
            if route.entry is None and route.topic[0] == "$":
                return partial(self._admit_own, route)
            return self._open_step if route.entry is None else partial(self._admit_entry, route)
        return partial(self._admit_declared, shape)

    def _admit_declared(self, shape: CompiledTable, write: Write) -> bool | None:
        event, table = write.event, shape.table
        kind, door = event.kind, write.caller.door
        if len(event.payload) > self.payload_bytes_max:
            self.check_size(event)
        event.table, write.shape = table, shape
        if door in table.hidden_from:
            raise Error(Code.NOT_FOUND, f"{event.topic!r} is not offered here", excluded=door)
        if kind in RETAINED and (len(event.topic) <= shape.id_from or event.topic[-1] == "/"):
            _check_named(event, shape)
        if shape.numbered:
            shape.check_id(event.topic[shape.id_from :])
        if write.examination is not None and self._detours(write):
            return True
        if kind == PATCH:
            write.patch = shape.patch_of(event)
        elif kind != DELETE:
            if write.examination is None or not write.examination.checked:
                shape.admit(event)
            else:
                _accept(shape, write, write.examination)
            if shape.ends and kind == PUT:
                event.expires_at = shape.expiry(event, self._now())
            else:
                event.expires_at = 0.0 if event.properties is None else self._expiry(event)
        write.logged = kind in RETAINED or logs(event, table, self.durable)
        write.depends |= shape.ruled or bool(shape.managed)
        if event.properties is not None:
            self._admit_properties(write)
        return None

    def _detours(self, write: Write) -> bool:
        """Return whether a write waits for its examination; raises what that has found."""
        examination = write.examination
        if examination is OPEN:
            return self.detour is not None and self.detour.take(write)
        if examination is not None and examination.error is not None:
            raise examination.error
        return False

    def _admit_own(self, route: Route, write: Write) -> bool | None:
        """Admit events of the server itself, at topics that no client may write."""
        if write.caller.door != "server":
            raise Error(
                Code.NOT_FOUND,
                f"nothing takes what is written to {route.topic!r}: topics with $ are those of "
                "features, and this server has none here",
            )
        return self._admit_undeclared(write)

    def _admit_entry(self, route: Route, write: Write) -> bool | None:
        """Admit what a resource class without a table writes at its own topics."""
        self.check_size(write.event)
        if route.entry is not None and not write.direct:
            raise _without_verb(route.entry, VERB_OF_KIND[write.event.kind])
        return self._admit_undeclared(write)

    def _admit_undeclared(self, write: Write) -> bool | None:
        event = write.event
        kind = event.kind
        if len(event.payload) > self.payload_bytes_max:
            self.check_size(event)
        if write.examination is not None and self._detours(write):
            return True
        if kind == PATCH:
            write.patch = decode(event.payload, event.content_type)
        elif kind != DELETE:
            event.expires_at = 0.0 if event.properties is None else self._expiry(event)
        write.logged = kind in RETAINED or (event.qos > 0 and self.durable.wanted(event.topic))
        if event.properties is not None:
            self._admit_properties(write)
        return None

    def _admit_properties(self, write: Write) -> None:
        for step in self._steps.after_content(write.event.properties or {}):
            step(write)

    def check_size(self, event: Event) -> None:
        """Raise TOO_LARGE for a payload over the limit."""
        if len(event.payload) > self.payload_bytes_max:
            raise Error(
                Code.TOO_LARGE,
                f"the payload has {len(event.payload)} bytes; at most {self.payload_bytes_max} are "
                "accepted",
            )

    def _expiry(self, event: Event) -> float:
        """Return the event's expiry time, from its writer.

        A deletion has none: a reader that missed it would keep the record.
        """
        seconds = (event.properties or {}).get(EXPIRY)  # MQTT-3.3.2-5
        return self._now() + seconds if isinstance(seconds, int) else 0.0


def _accept(shape: CompiledTable, write: Write, examination: Examination) -> None:
    """Set what an examination found; decoded only where later steps need the value."""
    event = write.event
    event.content_type = examination.content_type
    if examination.payload is not None:
        event.payload = examination.payload
    if (
        (shape.ruled or shape.managed or shape.expires or write.deciders)
        and event.content_type is not None
        and is_structured(event.content_type)
    ):
        event.decoded = shape.restore(decode(event.payload, event.content_type))


def logs(event: Event, table: Table | None, durable: DurableFilters) -> bool:
    """Whether an event is logged: by its table, or for a durable reader."""
    if event.kind in RETAINED:
        return True
    policy = table.logs if table is not None else None
    if policy is _ALL:
        return True
    return event.qos > 0 and (policy is _QOS1 or durable.wanted(event.topic))


def _refuse_rows(view: View, _write: Write) -> None:
    raise read_only(view)


def _check_named(event: Event, shape: CompiledTable) -> None:
    """Raise for a write that names no record, or one with an id that ends in a slash.

    Such a record can be deleted, since an earlier version took it.
    """
    topic, table = event.topic, shape.table
    if len(topic) <= shape.id_from:
        raise Error(
            Code.NOT_ALLOWED,
            f"{topic!r} is the whole table; name a record, such as {table.topic('1')!r}",
            allow=["GET", "HEAD", "POST", "OPTIONS"],
        )
    if event.kind != DELETE:
        record_id = topic[shape.id_from :][:200]
        raise Error(
            Code.INVALID,
            f"the id {record_id!r} of {table.name} ends in '/', so its path would be that of the "
            "records below it; leave the slash at the end out",
        )


def _without_verb(entry: Entry, verb: str) -> Error:
    """Return the Error of a write whose verb a resource class without a table does not have."""
    accepted = [_WRITES[name] for name in _WRITES if name in entry.overrides]
    hint = f"it accepts {' and '.join(accepted)}" if accepted else "it can only be read"
    return Error(
        Code.NOT_ALLOWED, f"the resource {entry.path!r} does not accept {_WRITES[verb]}; {hint}"
    )
