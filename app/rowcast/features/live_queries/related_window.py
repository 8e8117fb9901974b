"""A live window of a query with conditions on related records (M3, A9).

It is a window over the steps of a view: what enters, changes or leaves the records that match is
put at its place in the order, or taken from it. While the keys stay the same, that is at once.
After an event that changes keys, the steps come from the past that the readers share: it says how
the records that it is about were before, too, so the window of a reader's position follows from a
later one, and is not kept for anybody. The events after one whose steps come later wait for it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, Record
from rowcast.core.queries import Query, Sort
from rowcast.core.query_limits import (
    WINDOW_BYTES_MAX,
    WINDOW_LOADS_MAX,
    WINDOW_READ_MAX,
    WINDOW_TOUCHED_MAX,
)
from rowcast.core.query_windows import Extent
from rowcast.features.live_queries.related_past import Limits, Past, Steps
from rowcast.features.live_queries.related_plan import Counts, has_of
from rowcast.features.live_queries.related_view import (
    RelatedQuery,
    RelatedReplay,
    RelatedView,
    SharedPast,
)
from rowcast.features.live_queries.window_order import Entry, Key, WindowOrder, WindowStep
from rowcast.features.live_queries.window_replay import TOO_MUCH
from rowcast.reads.loop_turns import each
from rowcast.subscriptions.live_query import (
    PARTS,
    PLACE,
    Step,
    Unknown,
    as_step,
    numbered,
    step_of,
)
from rowcast.subscriptions.reader import Reader


class _Known(NamedTuple):
    """A window at one position, and the keys at a later one, or the same."""

    order: WindowOrder
    at: int
    counts: Counts
    position: int


class RelatedWindow(RelatedView):
    """The first records of a view in an order; ``extent`` says which."""

    def __init__(
        self,
        query: RelatedQuery,
        reader: Reader,
        keys_left: Callable[[], int],
        limits: Limits,
        extent: Extent,
        sort: tuple[Sort, ...],
    ) -> None:
        super().__init__(query, reader, keys_left, limits)
        self.extent = extent
        self._sort = sort
        self._order: WindowOrder | None = None
        """What is known; None: nothing is, until somebody asks."""
        self._at = 0
        """The position of what is known."""
        self._after: list[tuple[int, list[Event] | None]] = []
        """The steps of the view that are not in it yet, after one that is not known (None)."""
        self._ordering: asyncio.Task[None] | None = None
        self._has_missed = False
        """Whether it was not given all events since its records began to be read."""

    @property
    def records(self) -> int:
        """How many records it holds."""
        return self.extent.known

    # -- events ------------------------------------------------------------------------------------

    def _take(self, event: Event) -> list[Event] | None:
        steps = super()._take(event)
        if event.seq <= self._at or (self._order is None and self._ordering is None):
            return None
        if self._order is None or self._after or steps is None:
            if steps != [] and len(self._after) <= self._limits.events:
                self._after.append((event.seq, steps))
            return None
        return self._moved(self._order, event.seq, steps)

    def _moved(self, order: WindowOrder, position: int, steps: list[Event]) -> list[Event] | None:
        """Take the steps of the view for one event; return those of the window."""
        self._at = position
        if not steps:
            return steps
        (step,) = steps  # several follow from keys that have changed, and are not known here
        made = order.take(step.topic, self._entry_of(step))
        if made is None:
            self._order = None
            return None
        return _told(made, position)

    def _entry_of(self, step: Event) -> Entry | None:
        """Return the record of a step at its place; None if it leaves."""
        return None if step_of(step) is Step.LEAVE else self._entry(step)

    def _entry(self, seen: Record) -> Entry:
        """Return a record that matches, as its readers are told it, at its place."""
        kept = seen.changed()  # its own caches alone
        if not PARTS.of(seen, False):
            return Entry(self._plan.place(seen), kept)
        PARTS.put(kept, True)
        return Entry(cast("Key", PLACE.of(seen, None)), kept)

    def forget(self) -> None:
        """Know nothing any more: there are events that it is not given."""
        super().forget()
        self._order, self._after, self._has_missed = None, [], True

    # -- what is known -----------------------------------------------------------------------------

    async def _known(self, least: int = 0) -> _Known:
        """Return a window, if possible so many records, and the keys; raises BUSY."""
        for number in range(WINDOW_LOADS_MAX):
            counts, position = await self.known()
            order = self._order
            if order is not None and order.is_enough and (number or order.reaches(least)):
                at = self._at if self._after else position
                return _Known(order.copy(WINDOW_TOUCHED_MAX), at, counts, position)
            if self._ordering is None:
                loop = asyncio.get_running_loop()
                self._ordering = loop.create_task(self._load_order(least))
            await asyncio.shield(self._ordering)
        raise Error(
            Code.BUSY,
            "the records of this window change faster than they can be read; try again",
            retry_after_seconds=1,
        )

    async def _load_order(self, least: int) -> None:
        """Read the first records from the store, and take what has happened meanwhile."""
        try:
            counts, start = await self.known()
            self._order, self._after, self._at = None, [], start
            self._has_missed = False
            then = [dict(counted) for counted in counts]
            records, more, position = await self._first(then, max(self.extent.known, least))
            past = Past(self._plan, self.reader, start, position, self._limits)
            made = await past.steps_from(then)
            order = await self._ordered(records, position, then, made, more=more)
            announced = position <= self._position  # else there are events that it will be given
            if order.is_enough and announced and not self._has_missed:
                self._install(order, position)
        finally:
            self._ordering = None

    async def _first(self, counts: Counts, most: int) -> tuple[list[Record], bool, int]:
        """Return the first records by some keys, whether there are more, and their position."""
        root, asked = self._plan.root, most
        await self.reader.caught_up()
        where = root.readable(counts)
        if where is None:
            return [], False, self.reader.announced()
        while True:
            page = await self.reader.search(root.table, Query(where, sort=self._sort, limit=asked))
            records = list(page.records)
            seen = sum([root.seen(record) is not None async for record in each(records)])
            if not page.after or seen >= most:
                return records, bool(page.after), page.position
            if asked > WINDOW_READ_MAX:
                raise Error(Code.BUSY, "too many records of this window are withheld from you")
            asked *= 2  # in one read, since two would be of different times

    async def _ordered(
        self,
        records: Sequence[Record],
        position: int,
        counts: Counts,
        made: Sequence[Steps],
        *,
        more: bool,
    ) -> WindowOrder:
        """Return the order of records as of a position; ``made`` is what happened meanwhile.

        They were selected by the keys from before; ``counts`` are those of the read.
        """
        root, has = self._plan.root, has_of(counts)
        found = [
            seen
            async for record in each(records)
            if root.holds(record, has) and (seen := root.seen(record)) is not None
        ]
        entries = [self._entry(record) for record in await self.shown(found, position)]
        horizon = self._entry(records[-1]).key if more and records else None
        most = 2 * max(self.extent.known, len(entries))
        order = WindowOrder(self.extent, entries, horizon, most)
        async for part in each(made):
            async for step in each(part.steps):
                order.put(step.topic, self._entry_of(step))
        if not order.fits:
            raise Error(
                Code.TOO_LARGE,
                f"the records of this window have more than {WINDOW_BYTES_MAX} bytes; ask for a "
                "smaller limit",
            )
        return order

    def _install(self, order: WindowOrder, position: int) -> None:
        """Know the window of a position, and what happened to it since, as far as it is known."""
        after, self._after = self._after, []
        if len(after) > self._limits.events:
            self._order = None  # some are not here
            return
        self._order, self._at = order, position
        for number, (seq, steps) in enumerate(after):
            if seq <= position:
                continue
            if steps is None:
                self._after = after[number:]
                return
            if self._moved(order, seq, steps) is None:
                return

    # -- readers -----------------------------------------------------------------------------------

    async def replay(self, since: int | None) -> RelatedReplay:
        """Begin a replay, None: only of its records as they are; raises Unknown, and BUSY."""
        if since is not None:
            return await super().replay(since)
        known = await self._known()
        if known.at == known.position:
            records = [entry.record for entry in known.order.window]
            return _WindowReplay(self, records, [], known.position)
        past = self._past(known.at)
        try:
            await self._made(past)
        except Unknown:
            self._order = None  # it is too old to be brought to the present
            return await self.replay(None)
        return self._replayed(past, [])

    def _replayed(self, past: SharedPast, steps: list[Event]) -> RelatedReplay:
        return _WindowReplay(self, past.records, steps, past.position)

    async def _read_past(self, past: SharedPast) -> list[Steps]:
        least = 0
        for _ in range(WINDOW_LOADS_MAX):
            known = await self._known(least)
            past.position, first = known.position, min(past.since, known.at)
            read = Past(self._plan, self.reader, first, known.position, self._limits)
            try:
                made = await read.steps([dict(counted) for counted in known.counts])
            except Unknown:
                if first == past.since:
                    raise
                self._order = None  # it is older than the reader's, and too old
                continue
            if first < known.at:
                await self._take_back(known.order, read)
            steps = await self._stepped(known.order, made)
            if steps is not None:
                self._bring_up(known)
                past.since = first
                past.records = [entry.record for entry in known.order.window]
                return steps
            least = self.extent.known + len(read.before)
        raise Unknown(TOO_MUCH)

    def _bring_up(self, known: _Known) -> None:
        """Know the window of a reader that came to the present, if it is newer than what is."""
        if self._after and self._order is not None and known.position > self._at:
            self._install(known.order.copy(-WINDOW_TOUCHED_MAX), known.position)

    async def _take_back(self, order: WindowOrder, read: Past) -> None:
        """Put the records of an order back that something happened to."""
        async for topic, record in each(list(read.before.items())):
            order.put(topic, None if record is None else self._entry(record))

    async def _stepped(self, order: WindowOrder, made: Sequence[Steps]) -> list[Steps] | None:
        """Take the steps of the view; return those of the window.

        None: too few records are known to tell.
        """
        if not order.is_enough:
            return None  # of the window as it was, after records that came since were taken back
        found: list[Steps] = []
        async for part in each(made):
            old = order.window
            async for step in each(part.steps):
                order.put(step.topic, self._entry_of(step))
            steps = order.steps_since(old)
            if steps is None:
                return None
            if steps:
                found.append(Steps(part.position, _told(steps, part.position)))
        return found


class _WindowReplay(RelatedReplay):
    """What happened to a window since a position of one reader, and its records then."""

    def __init__(
        self, view: RelatedWindow, records: Sequence[Record], steps: list[Event], position: int
    ) -> None:
        super().__init__(view, None, steps, position)
        self.complete = False
        self._records = records

    async def current(self) -> Sequence[Record]:
        """Return the records of the window at the position reached, in order."""
        self.complete = True
        return self._records


def _told(steps: Sequence[WindowStep], position: int) -> list[Event]:
    """Return the steps of one event as readers are told them."""
    return numbered([as_step(step, record) for step, record in steps], position)
