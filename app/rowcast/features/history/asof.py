"""As-of reads: records at a past position, reconstructed from the log (B14).

A record that has not changed since is the current one; any other is its last change before. The
result is exact or an error: GONE if the log no longer has that change, and it is not certain that
there was no record. A table is read in the order of its ids, page by page; concurrent changes are
read from the log like earlier ones.

It knows no protocol and does not authorise: ``history.py`` does.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from operator import itemgetter
from typing import Final

from rowcast.core.clock import seconds_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, RETAINED, Event, Record
from rowcast.core.tables import Role, Table
from rowcast.core.topic_tables import LogSource, branch_of
from rowcast.core.topics import TopicFilter
from rowcast.features.history.bounds import BOUNDS, HistoryBounds
from rowcast.features.history.moments import forgotten
from rowcast.reads.loop_turns import each, in_turns
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder
from rowcast.store.records import Key, Layout
from rowcast.subscriptions.reader import Reader

_NOT_THERE: Final = -1

Rank = tuple[int, str]
"""The sort key of a record's key: numbers or text, one kind in a table."""


class AsOf:
    """Reads records as of a position."""

    def __init__(
        self,
        reader: Reader,
        transcoder: Transcoder,
        shapes: Mapping[str, CompiledTable],
        bounds: HistoryBounds = BOUNDS,
    ) -> None:
        self._reader = reader
        self._transcoder = transcoder
        self._shapes = shapes
        self._page_events = bounds.page_events
        self._changed_max = bounds.changed_records

    @property
    def page_records(self) -> int:
        """How many records are given at a time."""
        return self._reader.table_scan_records

    # -- one record ------------------------------------------------------------------------------

    async def record(self, table: Table | None, topic: str, position: int) -> Record | None:
        """Return the record at a topic; raises GONE if the log was trimmed."""
        reader = self._reader
        source: LogSource = table if table is not None else branch_of(topic)
        current = await reader.get(table, topic)
        if current is not None and current.seq <= position:
            return current
        change = await reader.change(source, topic, position)
        if change is not None:
            return None if change.kind == DELETE else change
        later = await self._began_later(source, topic, position)
        trimmed = reader.trimmed([source])  # checked after the read: it only grows
        if trimmed > position or (trimmed and not later):
            raise self.unknown(topic, trimmed)
        return None

    def unknown(self, topic: str, trimmed: int) -> Error:
        """Return the GONE Error of a record of which nobody knows what it was."""
        return forgotten(self._reader, f"what {topic!r} was before", trimmed)

    async def _began_later(self, source: LogSource, topic: str, position: int) -> bool:
        """Whether the first later change proves that there was no record."""
        after = position
        while True:
            page = await self._reader.read(after, self._page_events, [source])
            for event in page:
                if event.topic == topic and event.kind in RETAINED:
                    return self._began(event)
            if len(page) < self._page_events:
                return True  # no change since, and no record now
            after = page[-1].seq

    def _began(self, event: Event) -> bool:
        """Whether a change created its record, by the server-set time of creation."""
        shape = self._shapes[event.table.name] if event.table is not None else None
        if shape is None or event.kind != PUT:
            return False
        made = next((i for i in shape.table.attributes if i.role is Role.CREATED_TIME), None)
        if made is None or not self._transcoder.structured(event):  # asked last: it decodes
            return False
        value = event.decoded
        return isinstance(value, dict) and bool(
            value.get(made.name) == shape.time_value(made, seconds_of(event.version))
        )

    # -- a table ---------------------------------------------------------------------------------

    def records(self, table: Table, position: int) -> AsyncIterator[list[Record]]:
        """Yield the records of a table in pages, sorted by id; raises GONE, TOO_LARGE."""
        return self.selected(table, TopicFilter.below(table.path or ""), position)

    async def selected(
        self, source: LogSource, topics: TopicFilter, position: int
    ) -> AsyncIterator[list[Record]]:
        """Yield the records of a table, or of a branch, that a filter selects, in pages.

        They are sorted by id or topic. Raises GONE, TOO_LARGE.
        """
        table = source if isinstance(source, Table) else None
        what = table.name if table is not None else repr(topics.text)
        then, after = _Then(self, source, topics, position, what), ""
        await then.catch_up(self._reader.announced())
        while True:
            page = await self._reader.scan(table, topics, after, self.page_records)
            await then.catch_up(page.position)
            more = page.more and bool(page.records)
            after = page.records[-1].topic if more else ""
            trimmed = self._reader.trimmed([source])  # earlier deletions are unknown
            if trimmed > position:
                raise forgotten(self._reader, f"what {what} was then", trimmed)
            async for records in then.merged(page.records, after):
                yield records
            if not more:
                return

    async def changed(
        self,
        source: LogSource,
        topics: TopicFilter,
        after: int,
        until: int,
        known: dict[str, int],
    ) -> dict[str, bool]:
        """Return the records changed between two positions, and whether they were created then."""
        found: dict[str, bool] = {}
        while after < until:
            page = await self._reader.read(after, self._page_events, [source])
            async for event in each(page):
                new = event.topic not in found and event.topic not in known
                counts = event.seq <= until and event.kind in RETAINED
                if new and counts and topics.matches(event.topic):
                    found[event.topic] = self._began(event)
            if len(found) + len(known) > self._changed_max:
                raise Error(
                    Code.TOO_LARGE,
                    f"more than {self._changed_max} records changed since; ask for a "
                    "later moment, or for single records",
                )
            if len(page) < self._page_events:
                break
            after = page[-1].seq
        return found

    async def numbers(
        self, source: LogSource, position: int, began: Mapping[str, bool], what: str
    ) -> dict[str, int]:
        """Return the numbers of the last changes up to a position; raises GONE of ``what``.

        Negative for a record that did not exist. None is named: the caller may not know of it.
        """
        numbers = {topic: _NOT_THERE for topic, later in began.items() if later}
        wanted = {topic for topic, later in began.items() if not later}
        before = position + 1
        while wanted:
            page = await self._reader.read_back(before, self._page_events, [source])
            for event in page:
                if event.topic in wanted and event.kind in RETAINED:
                    wanted.discard(event.topic)
                    numbers[event.topic] = event.seq if event.kind != DELETE else _NOT_THERE
            if len(page) < self._page_events:
                break
            before = page[-1].seq
        trimmed = self._reader.trimmed([source])  # checked after the read: it only grows
        if wanted and trimmed:
            raise forgotten(self._reader, f"what {what} was then", trimmed)
        return numbers | dict.fromkeys(wanted, _NOT_THERE)

    async def pick(self, source: LogSource, seqs: list[int]) -> dict[int, Event]:
        """Return a source's events by their numbers; raises GONE when one was trimmed meanwhile."""
        found = await self._reader.pick(seqs, [source])
        if len(found.keys() & {*seqs}) != len(seqs):
            raise Error(Code.GONE, "the log was trimmed while it was read; ask for a later moment")
        return found


class _Then:
    """An as-of read of one table, or of one branch of undeclared topics."""

    def __init__(
        self, asof: AsOf, source: LogSource, topics: TopicFilter, position: int, what: str
    ) -> None:
        self._asof = asof
        self._what = what
        self._source = source
        self._topics = topics
        self._position = position
        self._layout = Layout(source if isinstance(source, Table) else None)
        self._numbers: dict[str, int] = {}
        """The former number of each record that changed since."""
        self._waiting: list[list[tuple[Rank, int]]] = []
        """Rank and number of pending records: a heap of runs, each sorted by rank. There may be a
        hundred thousand, and to sort them at once would hold up the loop."""
        self._last: Rank | None = None
        """The rank up to which all were returned."""
        self._upto = position

    async def catch_up(self, upto: int) -> None:
        """Add changes up to the position of a read of current records."""
        if upto <= self._upto:
            return
        asof, source, last = self._asof, self._source, self._last
        began = await asof.changed(source, self._topics, self._upto, upto, self._numbers)
        numbers = await asof.numbers(source, self._position, began, self._what)
        async for some in in_turns([*numbers.items()]):
            there = [(self._rank(topic), seq) for topic, seq in some if seq > 0]
            if run := sorted(pair for pair in there if last is None or pair[0] > last):
                heappush(self._waiting, run)
        self._numbers |= numbers
        self._upto = upto

    async def merged(self, page: Sequence[Record], after: str) -> AsyncIterator[list[Record]]:
        """Yield the records up to the end of a page of current ones, sorted by rank."""
        if after:
            self._last = self._rank(after)
        then = [(self._rank(item.topic), item) for item in page if item.seq <= self._position]
        current = deque(sorted(then, key=itemgetter(0)))
        while part := self._next(current, self._last if after else None):
            seqs = [item for item in part if isinstance(item, int)]
            events = await self._asof.pick(self._source, seqs)
            yield [events[item] if isinstance(item, int) else item for item in part]

    def _next(self, current: deque[tuple[Rank, Record]], last: Rank | None) -> list[Record | int]:
        """Return the next records, or their numbers: up to a rank, and as many as are given."""
        part: list[Record | int] = []
        while len(part) < self._asof.page_records:
            first = self._waiting[0][0] if self._waiting else None
            if first is not None and last is not None and first[0] > last:
                first = None
            if first is not None and (not current or first[0] < current[0][0]):
                part.append(self._take())
            elif current:
                part.append(current.popleft()[1])
            else:
                break
        return part

    def _take(self) -> int:
        """Take the number of the first record that waits."""
        run = self._waiting[0]
        _, seq = run.pop(0)
        if run:
            heapreplace(self._waiting, run)
        else:
            heappop(self._waiting)
        return seq

    def _rank(self, topic: str) -> Rank:
        key: Key = self._layout.key(topic)
        return (key, "") if isinstance(key, int) else (0, key)
