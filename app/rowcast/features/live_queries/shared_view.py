"""What readers of a live query share whose steps do not follow from one record (M3).

A view is known as of the newest event while somebody reads it. Each event changes it in memory, and
its steps are kept with the event, as it is in the queues of its readers. It is read from the store
by one task, whoever asks, and what happens meanwhile is held. The window of a query with a limit is
one (``window.py``), and so is a query with conditions on related records (``related_view.py``).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from rowcast.core.conditions import Where
from rowcast.core.errors import Code, Error
from rowcast.core.event_cache import EventCache
from rowcast.core.events import Event
from rowcast.core.query_limits import WINDOW_LOAD_EVENTS_MAX
from rowcast.core.tables import Table
from rowcast.features.live_queries.table_queries import Named
from rowcast.seams.query_points import QueryReader
from rowcast.subscriptions.live_query import WindowReplay
from rowcast.subscriptions.reader import Reader

_Steps = dict["SharedView", list[Event] | None]

_STEPS: Final[EventCache[_Steps]] = EventCache("steps of shared views")


def steps_of(event: Event) -> Mapping["SharedView", list[Event] | None]:
    """Return what an event means to the views that it was offered; None: that is not known."""
    return _STEPS.of(event, None) or {}


class SharedView(ABC):
    """One query for all who see the same; ``load_events_max`` bounds the events held meanwhile."""

    def __init__(self, reader: Reader, load_events_max: int = WINDOW_LOAD_EVENTS_MAX) -> None:
        self.reader = reader
        self.readers: dict[QueryReader, None] = {}
        self._load_events_max = load_events_max
        self._applied = 0
        """The number of the last event that is in it."""
        self._held: list[Event] | None = None
        """Events since it began to be read from the store; None: it is not."""
        self._loading: asyncio.Task[None] | None = None

    @property
    @abstractmethod
    def query(self) -> Named:
        """What it is about."""

    @property
    def records(self) -> int:
        """How many records it holds, if it is a window."""
        return 0

    @abstractmethod
    def concerned(self, table: Table) -> Where | None:
        """Return what holds for each record of a table that may concern it."""

    def take(self, event: Event) -> Iterable[QueryReader]:
        """Take an event that may concern it; return the readers to whom it matters."""
        if self._held is not None and self._has_all:
            self._held.append(event)
        steps = self._take(event)
        kept = _STEPS.of(event, None)
        if kept is None:
            kept = _STEPS.put(event, {})
        kept[self] = steps
        return () if steps == [] else self.readers

    @abstractmethod
    def _take(self, event: Event) -> list[Event] | None:
        """Return the steps of an event; None if they are not known."""

    def close(self) -> None:
        """End it, after its last reader."""
        self.forget()

    def forget(self) -> None:
        """Know nothing any more: there are events that it is not given."""
        self._held = None

    def steps(self, event: Event) -> list[Event] | None:
        """Return what an event of the bus means to its readers; None if that is not known."""
        kept = _STEPS.of(event, None)
        return None if kept is None else kept.get(self)

    @property
    def _has_all(self) -> bool:
        """Whether all events were held since the read of the store began."""
        return self._held is not None and len(self._held) <= self._load_events_max

    @property
    def _position(self) -> int:
        """The position of what is known."""
        return max(self._applied, self.reader.announced())

    async def _load_once(self, load: Callable[[], Coroutine[None, None, None]]) -> None:
        """Wait for the read of the store that runs, or for a new one."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._loaded(load()))
        await asyncio.shield(self._loading)

    async def _loaded(self, load: Awaitable[None]) -> None:
        try:
            self._held = []
            await load
        finally:
            self._held = self._loading = None


View = TypeVar("View", bound=SharedView)


class RecordBudget:
    """How many records all windows of a process may hold, with spare ones."""

    def __init__(self, records_max: int) -> None:
        self._records_max = records_max
        self._records = 0

    def enter(self, records: int) -> None:
        """Hold some more; raises BUSY."""
        if records and self._records + records > self._records_max:
            raise Error(
                Code.BUSY,
                f"this server holds {self._records_max} records of live windows, and may hold no "
                "more; ask for a smaller limit, or later",
            )
        self._records += records

    def leave(self, records: int) -> None:
        """Hold them no longer."""
        self._records -= records


class SharedViews(Generic[View]):
    """The views of one kind that are read now, by their keys."""

    def __init__(self, budget: RecordBudget) -> None:
        self._budget = budget
        self._views: dict[str, View] = {}

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[View]:
        return iter(self._views.values())

    def get(self, key: str) -> View | None:
        """Return a view that somebody reads."""
        return self._views.get(key)

    def enter(self, key: str, reader: QueryReader, make: Callable[[], View]) -> View:
        """Return the view of a reader, for the first one a new one; raises BUSY."""
        view = self._views.get(key)
        if view is None:
            view = make()
            self._budget.enter(view.records)
            self._views[key] = view
        view.readers[reader] = None
        return view

    def leave(self, key: str, reader: QueryReader) -> View | None:
        """Let a reader go; return the view if it was its last one."""
        view = self._views[key]
        del view.readers[reader]
        if view.readers:
            return None
        self._budget.leave(view.records)
        view.close()
        return self._views.pop(key)


class ViewHandle(Generic[View]):
    """The view of one reader, by its key: it is there while somebody reads it."""

    def __init__(
        self,
        key: str,
        views: SharedViews[View],
        make: Callable[[], View],
        begin: Callable[[View, int | None], Awaitable[WindowReplay]],
    ) -> None:
        self.key = key
        """Its name, the same for readers that see the same."""
        self._views = views
        self._make = make
        self._begin = begin

    def enter(self, reader: QueryReader) -> View:
        """Let a reader enter the view; raises BUSY."""
        return self._views.enter(self.key, reader, self._make)

    def leave(self, reader: QueryReader) -> bool:
        """Let a reader go; return whether it was the last one of the view."""
        return self._views.leave(self.key, reader) is not None

    async def replay(self, since: int | None) -> WindowReplay:
        """Begin a replay, None: only of its records as they are; raises Unknown, and BUSY."""
        view = self._views.get(self.key)
        if view is None:
            raise Error(Code.BUSY, "the query has ended; subscribe again", retry_after_seconds=1)
        return await self._begin(view, since)
