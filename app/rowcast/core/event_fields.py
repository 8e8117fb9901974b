"""Typed fields of an event in memory that one feature owns.

A feature that works something out of an event, such as what a kind of caller is shown of it, keeps
the answer with the event for the next reader. It declares a field for that, and nobody else can
read or write what is in it. Only events that have a field pay for it: all are in
``Event.encodings``, which is None until something is kept, is never stored, and goes when the event
is changed. Encodings themselves, such as MQTT frames, are there under keys of the doors.
"""

from typing import Generic, TypeVar, cast

from rowcast.core.events import Event

T = TypeVar("T")
D = TypeVar("D")


class EventField(Generic[T]):
    """One field; ``name`` is for whoever looks at an event in a debugger."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"EventField({self.name!r})"

    def of(self, event: Event, default: D) -> T | D:
        """Return what is kept with an event."""
        kept = event.encodings
        return default if kept is None else cast("T | D", kept.get(self, default))

    def put(self, event: Event, value: T) -> T:
        """Keep and return a value."""
        if event.encodings is None:
            event.encodings = {self: value}
        else:
            event.encodings[self] = value
        return value
