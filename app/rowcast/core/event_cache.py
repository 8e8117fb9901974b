"""Results computed from an event and cached with it in memory, each typed and owned by one module.

A module that computes something from an event, such as what a group of callers may see of it,
caches the result with the event for the next reader. It declares an ``EventCache`` for that, and no
other module can read or write it. What is *stored* of an event is in ``events.py``. All cached
results are in ``Event.encodings``, which is None until the first one, is never stored, and is
dropped when the event is changed; encoded frames are there too, under keys of the doors.
"""

from typing import Generic, TypeVar, cast

from rowcast.core.events import Event

T = TypeVar("T")
D = TypeVar("D")


class EventCache(Generic[T]):
    """One kind of cached result; ``name`` is only for debugging."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"EventCache({self.name!r})"

    def of(self, event: Event, default: D) -> T | D:
        """Return the result cached with an event, or the default."""
        kept = event.encodings
        return default if kept is None else cast("T | D", kept.get(self, default))

    def put(self, event: Event, value: T) -> T:
        """Cache and return a result."""
        if event.encodings is None:
            event.encodings = {self: value}
        else:
            event.encodings[self] = value
        return value
