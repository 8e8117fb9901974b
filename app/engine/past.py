"""The past: windows of the log, read as an answer and not as a stream.

A window is what happened after one position and up to another, at the topics of one filter. It is
read a page at a time, so it costs the memory of a page, and it ends where the log was when it was
asked for. What a caller may not read is left out, as in any other read (FEATURES G6).

It knows no protocol and no format.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from app.core.callers import Caller
from app.core.clock import WallClock
from app.core.errors import Code, Error
from app.core.events import Event
from app.core.limits import HISTORY_PAGE_EVENTS
from app.core.tables import Table
from app.core.topic_tables import Source
from app.core.topics import TopicFilter
from app.engine.hooks import Hooks
from app.engine.moments import Moment, forgotten, moment_of, position_of
from app.engine.places import Place, place_of
from app.engine.reader import Reader
from app.engine.rights import check_read

Wanted = Callable[[Event], bool]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the past: what the filter selects after one position, up to another."""

    topics: TopicFilter
    sources: Sequence[Source]
    after: int
    until: int
    trimmed: int = 0
    """Up to where the log was trimmed, if what is gone may have been a part of this."""


class Past:
    """Reads windows of the log."""

    def __init__(self, reader: Reader, hooks: Hooks, now: WallClock) -> None:
        self._reader = reader
        self._hooks = hooks
        self._now = now

    def moment(self, value: object, name: str) -> Moment:
        """Read a moment as a caller writes it; ``name`` says what it is for. Raises INVALID."""
        return moment_of(value, name, self._now())

    def place(self, fields: Mapping[str, object]) -> Place:
        """Read where a subscription begins, which may be so long ago; raises INVALID."""
        return place_of(fields, self._now())

    def sources(self, topics: TopicFilter, table: Table | None) -> list[Source]:
        """Return the parts of the log that a filter reaches: a table's, or undeclared topics'."""
        if table is not None:
            return [table]
        return [item for item in self._reader.sources(topics) if not isinstance(item, Table)]

    async def window(
        self,
        topics: TopicFilter,
        table: Table | None,
        caller: Caller,
        start: Moment | None = None,
        end: Moment | None = None,
    ) -> Window:
        """Return what happened from one moment to another; raises INVALID, DENIED, GONE."""
        self._authorise(topics, caller)
        reader, sources = self._reader, self.sources(topics, table)
        until = await position_of(reader, sources, end) if end else reader.announced()
        after = await position_of(reader, sources, start) if start else 0
        if start and end and _is_reversed(start, end, after, until):
            raise Error(Code.INVALID, "from is after to; a window begins before it ends")
        trimmed = reader.trimmed(sources)
        by_cursor = start is not None and start.cursor is not None  # of which nothing is gone
        gone = trimmed if not by_cursor and await self._reaches_beyond(sources, after) else 0
        if end and gone and gone >= until:
            raise forgotten(reader, "what was before that", trimmed)
        return Window(topics, sources, max(after, trimmed), until, gone)

    def _authorise(self, topics: TopicFilter, caller: Caller) -> None:
        check_read(topics.text, caller)
        if topics.exact and not self._may_read(caller, topics.text):
            raise Error(Code.DENIED, f"{caller.user} may not read {topics.text!r}")

    def _may_read(self, caller: Caller, topic: str) -> bool:
        return not self._hooks.reading or self._hooks.may_read(caller, topic)

    async def _reaches_beyond(self, sources: Sequence[Source], after: int) -> bool:
        """Tell whether what was trimmed may have been after a position that a time gave."""
        for source in sources:
            trimmed = self._reader.trimmed([source])
            if trimmed > after:
                return True
            if trimmed:
                first = await self._reader.read(trimmed, 1, [source])
                if first and after < first[0].seq:
                    return True
        return False

    async def pages(self, window: Window, caller: Caller) -> AsyncIterator[list[Event]]:
        """Give the events of a window, oldest first; a page may be empty.

        Raises GONE if the log is trimmed meanwhile beyond what was read.
        """
        after = window.after
        while after < window.until:
            page = await self._reader.read(after, HISTORY_PAGE_EVENTS, window.sources)
            trimmed = self._reader.trimmed(window.sources)  # asked last: it only grows
            if trimmed > after:
                raise forgotten(self._reader, "what was asked for", trimmed)
            yield self._selected(window, page, caller)
            if len(page) < HISTORY_PAGE_EVENTS:
                return
            after = page[-1].seq

    def _selected(self, window: Window, page: Sequence[Event], caller: Caller) -> list[Event]:
        topics, until = window.topics, window.until
        if topics.exact:
            return [event for event in page if event.topic == topics.text and event.seq <= until]
        found = [event for event in page if event.seq <= until and topics.matches(event.topic)]
        if self._hooks.reading:
            return [event for event in found if self._hooks.may_read(caller, event.topic)]
        return found

    async def known(self, topics: TopicFilter, table: Table | None) -> bool:
        """Tell whether there is or was anything at a topic, as far as the log reaches."""
        if await self._reader.get(table, topics.text) is not None:
            return True
        for source in self.sources(topics, table):
            if await self._reader.history(source, topics.text, 1):
                return True
        return False

    async def last(
        self, window: Window, caller: Caller, count: int, wanted: Wanted | None = None
    ) -> list[Event]:
        """Return the last events of a window that are wanted, oldest first."""
        topics, sources = window.topics, window.sources
        if topics.exact and len(sources) == 1 and wanted is None:
            events = await self._reader.history(sources[0], topics.text, count)
            if not events or events[-1].seq <= window.until:
                return [event for event in events if event.seq > window.after]
        return await self._backwards(window, caller, count, wanted)

    async def _backwards(
        self, window: Window, caller: Caller, count: int, wanted: Wanted | None
    ) -> list[Event]:
        """Look for the last events from the end on, in growing steps."""
        found: deque[Event] = deque()
        high, span = window.until, HISTORY_PAGE_EVENTS
        while high > window.after and len(found) < count:
            low = max(window.after, high - span)
            part = Window(window.topics, window.sources, low, high)
            step: deque[Event] = deque(maxlen=count - len(found))
            async for page in self.pages(part, caller):
                step.extend(filter(wanted, page) if wanted else page)
            found.extendleft(reversed(step))
            high, span = low, span * 2
        return list(found)


def _is_reversed(start: Moment, end: Moment, after: int, until: int) -> bool:
    """Tell whether a window ends before it begins: by its times if it has two, else by position."""
    if start.cursor or end.cursor:
        return after > until
    return start.version > end.version
