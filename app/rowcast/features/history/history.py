"""History: windows of the log, as a response and not as a stream.

A window has the events after one position and up to another, at the topics of one filter. It is
read page by page, in the memory of a page, and ends at the log's end at the time of the request.
Events that the caller may not read are left out, as in any other read (G6).

It knows no protocol and no format.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock, seconds_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, Record
from rowcast.core.moments import Moment, bygone_of, moment_of
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, branch_of
from rowcast.core.topics import TopicFilter
from rowcast.features.history.asof import AsOf
from rowcast.features.history.bounds import BOUNDS, HistoryBounds
from rowcast.features.history.moments import forgotten, position_of
from rowcast.reads.row_reads import find_row
from rowcast.seams.past_points import PastPoints
from rowcast.seams.seams import Seams
from rowcast.subscriptions.reader import Reader

Wanted = Callable[[Event], bool]


@dataclass(frozen=True, slots=True)
class Window:
    """A window: the filter's events after one position, up to another."""

    topics: TopicFilter
    source: LogSource
    after: int
    until: int
    trimmed: int = 0
    """The trim position of the log, if it may affect the window."""
    kept: tuple[Event, ...] = ()
    """Events before that, which a table that compacts has kept."""
    begins: bool = False
    """Whether it begins at a point that was asked for, and not with what the log has."""


class HistoryReads(PastPoints):
    """Reads windows of the log."""

    def __init__(
        self,
        reader: Reader,
        seams: Seams,
        asof: AsOf,
        now: WallClock,
        bounds: HistoryBounds = BOUNDS,
    ) -> None:
        self._reader = reader
        self._asof = asof
        self._seams = seams
        self._now = now
        self.bounds = bounds

    def moment(self, value: object, name: str) -> Moment:
        """Parse a time or cursor; ``name`` is the parameter. Raises INVALID."""
        return moment_of(value, name, self._now())

    def bygone(self, value: object, name: str) -> Moment:
        """Parse a past time; raises for one in the future."""
        return bygone_of(value, name, self._now())

    async def window(
        self,
        topics: TopicFilter,
        table: Table | None,
        caller: Caller,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        keeps: bool = False,
    ) -> Window:
        """Return the window from one time to another; raises INVALID, DENIED, GONE.

        ``keeps``: with what a table that compacts has kept, if it keeps events; a cursor of a part
        that was trimmed is no error then.
        """
        self.authorise(topics, caller)
        reader, source = self._reader, self._source(topics, table)
        keeps = keeps and isinstance(source, Table) and bool(source.kept_by)
        until = await position_of(reader, source, end) if end else reader.announced()
        after = await position_of(reader, source, start, kept=not keeps) if start else 0
        if start and end and _is_reversed(start, end, after, until):
            raise Error(Code.INVALID, "from is after to; a window begins before it ends")
        trimmed = reader.trimmed([source])
        by_cursor = start is not None and start.cursor is not None and after >= trimmed
        gone = trimmed if not by_cursor and await self._reaches_beyond(source, after) else 0
        kept: tuple[Event, ...] = ()
        if keeps and gone:
            kept = await self._kept(topics, source, (start, end), trimmed)
        elif end and gone and gone >= until:
            raise forgotten(reader, "what was before that", trimmed)
        return Window(topics, source, max(after, trimmed), until, gone, kept, start is not None)

    async def _kept(
        self,
        topics: TopicFilter,
        source: LogSource,
        ends: tuple[Moment | None, Moment | None],
        trimmed: int,
    ) -> tuple[Event, ...]:
        """Return the events between two points that are kept of a part that was trimmed."""
        compacted = self._seams.compacted
        if compacted is None or not isinstance(source, Table):
            return ()
        start, end = ends
        found = await compacted.kept(source, topics, trimmed)
        found = [event for event in found if start is None or not _is_before(event, start)]
        return tuple([event for event in found if end is None or _is_before(event, end)])

    def authorise(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise unless the caller may read the filter."""
        self._seams.rights.check_watch(topics, caller)
        if topics.exact and not self._seams.visibility.may_read(caller, topics.text):
            raise Error(Code.DENIED, f"{caller.user} may not read {topics.text!r}")

    async def _reaches_beyond(self, source: LogSource, after: int) -> bool:
        """Whether trimmed events may be after a position resolved from a time."""
        trimmed = self._reader.trimmed([source])
        if not trimmed or trimmed > after:
            return bool(trimmed)
        first = await self._reader.read(trimmed, 1, [source])
        return not first or after < first[0].seq  # if nothing is left, no time is known to be later

    async def pages(self, window: Window, caller: Caller) -> AsyncIterator[list[Event]]:
        """Yield the events of a window, oldest first; a page may be empty.

        Raises GONE if the log is trimmed beyond the read position meanwhile.
        """
        after, limit, kept = window.after, self.bounds.first_events, window.kept
        while after < window.until:
            page = await self._page(window, after, limit)
            trimmed = self._reader.trimmed([window.source])  # asked last: it only grows
            if trimmed > after:
                raise forgotten(self._reader, "what was asked for", trimmed)
            for piece in self._pieces(kept):  # after the first look at the log, which may be GONE
                yield self._visible(window, piece, caller)
            kept = ()
            yield self._selected(window, page, caller)
            if len(page) < limit:
                return
            after, limit = page[-1].seq, self._next_limit(page)
        for piece in self._pieces(kept):
            yield self._visible(window, piece, caller)

    def _pieces(self, kept: Sequence[Event]) -> Iterator[Sequence[Event]]:
        """Yield pages of kept events, whose size is unknown."""
        size = self.bounds.first_events
        return (kept[n : n + size] for n in range(0, len(kept), size))

    def _source(self, topics: TopicFilter, table: Table | None) -> LogSource:
        rows = self._reader.rows(topics)
        return source_of(topics, table) if rows is None else rows.view.branch

    def _names_a_topic(self, topics: TopicFilter) -> bool:
        """Whether a filter is a single topic, which the log can look up."""
        return topics.exact and self._reader.rows(topics) is None

    async def _page(self, window: Window, after: int, limit: int) -> list[Event]:
        """Return events after a position, oldest first."""
        if self._names_a_topic(window.topics):
            return await self._reader.follow(window.source, window.topics.text, after, limit)
        return await self._reader.read(after, limit, [window.source])

    async def _page_back(self, window: Window, before: int, limit: int) -> list[Event]:
        """Return events before a position, newest first."""
        if self._names_a_topic(window.topics):
            topic = window.topics.text
            return (await self._reader.history(window.source, topic, limit, before))[::-1]
        return await self._reader.read_back(before, limit, [window.source])

    def _next_limit(self, page: Sequence[Event]) -> int:
        """Return the size of the next page in events, by the size of these."""
        fitting = self.bounds.page_bytes * len(page) // max(1, bytes_of(page))
        return max(1, min(self.bounds.page_events, 4 * len(page), fitting))

    def _selected(self, window: Window, page: Sequence[Event], caller: Caller) -> list[Event]:
        inside = [event for event in page if window.after < event.seq <= window.until]
        return self._visible(window, inside, caller)

    def _visible(self, window: Window, inside: Sequence[Event], caller: Caller) -> list[Event]:
        topics = window.topics
        rows = self._reader.rows(topics)
        if rows is not None:
            seen = [row for event in inside if (row := rows.row(event)) is not None]
            return self._seams.visibility.events(caller, seen)
        if topics.exact:
            of_it = [event for event in inside if event.topic == topics.text]
            return self._seams.visibility.events(caller, of_it)
        parent = topics.prefix  # which "home/#" matches, too, and which is of another branch
        found = [e for e in inside if topics.matches(e.topic) and e.topic != parent]
        return self._seams.visibility.events(caller, found)

    async def known(self, topics: TopicFilter, table: Table | None, caller: Caller) -> bool:
        """Whether the log has any event at a topic that the caller may see."""
        rows = self._reader.rows(topics)
        if rows is not None:
            row = await find_row(self._reader, rows.view, rows.row_id)
            return row is not None and bool(self._seams.visibility.events(caller, [row]))
        record = await self._reader.get(table, topics.text)
        if record is not None and self._seams.rights.record(caller, record) is not None:
            return True
        last = await self._reader.history(source_of(topics, table), topics.text, 1)
        return bool(self._seams.visibility.events(caller, last))

    async def last(
        self, window: Window, caller: Caller, count: int, wanted: Wanted | None = None
    ) -> list[Event]:
        """Return the last matching events of a window, oldest first.

        Raises TOO_LARGE when they exceed the memory bound, and GONE if the log is trimmed meanwhile
        and they would have gone on there, if the window ``begins`` before that.
        """
        found: list[Event] = []
        bounds, size = self.bounds, 0
        before, limit = window.until + 1, min(count, bounds.first_events)
        while before > window.after + 1 and len(found) < count:
            page = await self._page_back(window, before, limit)
            part = self._selected(window, page, caller)
            part = [event for event in part if wanted is None or wanted(event)]
            part = part[: count - len(found)]
            found += part
            size += bytes_of(part)
            if size > bounds.whole_bytes:
                raise Error(
                    Code.TOO_LARGE,
                    f"the last {count} have more than {bounds.whole_bytes} bytes; ask for "
                    "fewer, or for all from a time on with from",
                )
            if len(page) < limit:
                break
            before, limit = page[-1].seq, self._next_limit(page)
        trimmed = self._reader.trimmed([window.source])  # asked last: it only grows
        if window.begins and trimmed > window.after and len(found) < count:
            raise forgotten(self._reader, "what was asked for", trimmed)
        if window.kept and len(found) < count:
            kept = self._visible(window, window.kept, caller)
            kept = [event for event in kept if wanted is None or wanted(event)]
            found += kept[::-1][: count - len(found)]
        return found[::-1]

    async def record(
        self, topic: str, table: Table | None, moment: Moment, caller: Caller
    ) -> Record:
        """Return the past record at a topic; raises NOT_FOUND, DENIED, GONE."""
        topics = TopicFilter(topic)
        self.authorise(topics, caller)
        self._check_changes(topics)
        source = source_of(topics, table)
        position = await position_of(self._reader, source, moment.later(1), kept=False)
        record = await self._asof.record(table, topic, position)
        if record is not None:
            record = self._seams.rights.record(caller, record)
            trimmed = self._reader.trimmed([source])
            if record is None and trimmed > position:  # as if there had been none
                raise self._asof.unknown(topic, trimmed)
        over = record is not None and 0 < record.expires_at <= seconds_of(moment.version)
        if record is None or over:
            raise Error(Code.NOT_FOUND, f"there was no record at {topic!r} then")
        return record

    def _check_changes(self, topics: TopicFilter) -> None:
        """Raise for topic tables, whose rows never change."""
        rows = self._reader.rows(topics)
        if rows is not None:
            raise Error(
                Code.INVALID,
                f"the rows of {rows.view.table.name} do not change; ask for those up to a time with"
                " to=, or for the retained message at its own topic",
            )

    async def position(self, table: Table, moment: Moment) -> int:
        """Return the position of an as-of read of a table."""
        self._check_changes(TopicFilter(table.topic("#")))
        return await position_of(self._reader, table, moment.later(1), kept=False)

    async def records(
        self, table: Table, position: int, caller: Caller
    ) -> AsyncIterator[list[Record]]:
        """Yield a table's past records, sorted by id; raises DENIED, GONE, TOO_LARGE."""
        self._seams.rights.check_table(table, caller)
        async for page in self._asof.records(table, position):
            yield self._seams.visibility.records(caller, page)

    # -- of any filter, for replays; callers are not checked ---------------------------------------

    async def place(self, topics: TopicFilter, moment: Moment, *, kept: bool = True) -> int:
        """Return the position before the first event of a moment at a filter's topics."""
        reader = self._reader
        return min(
            [await position_of(reader, it, moment, kept=kept) for it in reader.sources(topics)]
        )

    async def then(self, topics: TopicFilter, position: int) -> AsyncIterator[list[Record]]:
        """Yield the records as of a position that a filter selects, one source after another."""
        for source in self._reader.sources(topics):
            table = source if isinstance(source, Table) else None
            if topics.exact:
                record = await self._asof.record(table, topics.text, position)
                yield [record] if record is not None else []
                continue
            async for page in self._asof.selected(source, topics, position):
                yield page

    def gone(self, what: str, trimmed: int) -> Error:
        """Return the GONE Error for trimmed events."""
        return forgotten(self._reader, what, trimmed)


def history_of(kernel: Seams) -> HistoryReads:
    """Return the reads of the past; raises INVALID where the feature is not installed."""
    reads = kernel.service(HistoryReads)
    if reads is None:
        raise Error(
            Code.INVALID,
            "reads of past events are not available: from, to, last and asof need the feature "
            "history, which is not installed",
        )
    return reads


def source_of(topics: TopicFilter, table: Table | None) -> LogSource:
    """Return the source of a table's topics, or of a branch's undeclared ones."""
    if table is not None:
        return table
    return branch_of(topics.text) if topics.prefix else None


def _is_reversed(start: Moment, end: Moment, after: int, until: int) -> bool:
    """Whether a window ends before it starts: by times if it has two, else by positions."""
    if start.cursor or end.cursor:
        return after > until
    return start.version > end.version


def _is_before(event: Event, moment: Moment) -> bool:
    """Whether an event is before a time, or not after a cursor."""
    if moment.cursor is not None:
        return event.seq <= moment.cursor.seq
    return event.version < moment.version


def bytes_of(events: Sequence[Event]) -> int:
    """Return the bytes of the payloads of events."""
    return sum(len(event.payload) for event in events)
