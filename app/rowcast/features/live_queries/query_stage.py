"""The stage of a reader with live queries: makes steps of events (M3).

What a step is follows from the event alone: whether the record before it and the record after it
satisfy the conditions, and may be read by the caller. So a reader that reads the log, after a
reconnect or because it was slow, gets the same steps as one that reads along, and the server keeps
no set of any client.

Where nobody knows the record before an event, because the log has been trimmed since, a matching
record enters and any other leaves: both are right whatever the client has. That would reveal the
ids of records that a caller may not read; where rights decide about records, the query begins anew.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.event_cache import EventCache
from rowcast.core.events import DELETE, RETAINED, SNAPSHOT, Event, Record
from rowcast.features.live_queries.shared_view import steps_of
from rowcast.features.live_queries.table_queries import TableQueries
from rowcast.reads.before_image import before_of
from rowcast.seams.query_points import QueryReader
from rowcast.seams.visibility import Visibility
from rowcast.subscriptions.gaps import Gap
from rowcast.subscriptions.live_query import Step, as_step, step_of
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filters import ANY_QUERY, Pair, SubscribedFilter

_Late = dict[str, tuple[SubscribedFilter, int]]
"""Windows whose steps are unknown, by name, with the position before them."""

_Made = dict[tuple[Step, int], tuple[Record | None, Event]]

_STEPS: Final[EventCache[_Made]] = EventCache("steps")
"""The steps that an event is to readers, by kind and form of the record: made once for all."""

_STEPS_MAX: Final = 16
"""Steps kept with one event: of some kinds of readers that see different parts of a record."""

MISSED: Final = "events are missing that say what has left"
"""Why a live query begins anew after a gap, or where the log was trimmed."""


class QueryStage:
    """The stage of one reader, around its stage for other filters."""

    compares = True
    """Each event is compared with the one before: none may be left out."""

    def __init__(
        self,
        reader: QueryReader,
        caller: Caller,
        inner: Stage | None,
        visibility: Visibility,
        tables: dict[str, TableQueries],
        sight: object,
    ) -> None:
        self._reader = reader
        self._caller = caller
        self.sight = sight
        """What decides about the records that the caller sees."""
        self._inner = inner
        self._visibility = visibility
        self._tables = tables

    def counts(self, event: Event) -> bool:
        """Whether the caller may learn that an event existed."""
        return self._inner is None or self._inner.counts(event)

    def show(self, event: Event, granted: int) -> Event | None:
        """Return an event as another filter's stage shows it."""
        return event if self._inner is None else self._inner.show(event, granted)

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return the pairs of other filters after their stage, and steps of live queries."""
        through: list[Pair] = []
        others: list[Pair] = []
        anew: dict[str, SubscribedFilter] = {}
        late: _Late = {}
        for pair in pairs:
            event, interest = pair
            if not _concerns_queries(interest) or not event.topic:
                others.append(pair)
                if isinstance(event, Gap):
                    anew |= self._missed(event, interest)
                continue
            is_report = not event.seq and bool(steps_of(event))  # a copy, for queries alone
            plain = None if is_report else self._plain(interest)
            if plain is not None:
                others.append((event, plain))
            through += self._passed(others)
            others = []
            through += self._steps(event, interest, anew, late)
        through += self._passed(others)
        if anew:
            self._reader.begin_anew(list(anew.values()), MISSED)
        for name, (window, position) in late.items():
            if name not in anew:
                self._reader.go_on_after(window, position)
        return through

    def _passed(self, pairs: list[Pair]) -> list[Pair]:
        return self._inner.pass_on(pairs) if self._inner is not None and pairs else pairs

    def _plain(self, interest: SubscribedFilter | None) -> SubscribedFilter | None:
        """Return the part of an interest that is no live query."""
        if interest is None or not interest.merged:
            return None
        known = self._reader.interests
        return known.as_one(tuple([item for item in interest.merged if item is not ANY_QUERY]))

    def _missed(self, gap: Gap, interest: SubscribedFilter | None) -> dict[str, SubscribedFilter]:
        """Return the queries whose events may be among missed ones."""
        if interest is not None and not _concerns_queries(interest):
            return {}
        logged = bool(gap.last)
        known = self._reader.interests.queries.items()
        return {name: it for name, it in known if logged or (it.query and not it.query.logged)}

    # -- steps -------------------------------------------------------------------------------------

    def _steps(
        self,
        event: Event,
        interest: SubscribedFilter | None,
        anew: dict[str, SubscribedFilter],
        late: _Late,
    ) -> Iterator[Pair]:
        """Yield what an event is to the live queries that it concerns.

        Those to be begun anew are added to ``anew``, windows that lack the steps to ``late``.
        """
        if step_of(event) is not None:  # it waited for room, or is of a window's past
            yield from _shown(event, interest)
        elif event.kind == SNAPSHOT and interest is not None and interest.tells_parts:
            yield event, interest  # made of what the caller may read
        elif event.kind == SNAPSHOT:
            for record in self._visibility.records(self._caller, [event]):
                yield record, interest
        elif event.kind in RETAINED and not event.seq:
            yield from self._row_steps(event, anew)
        elif event.kind in RETAINED and event.table is not None:
            table = self._tables.get(event.table.name)
            if table is None:
                return
            for item in self._concerned(table, event, interest):
                if item.is_window:
                    for window_step in _window_steps(table, event, item, anew, late):
                        yield from _shown(window_step, item)
                elif (step := self._step(table, event, item, anew)) is not None:
                    yield from _shown(step, item)

    def _row_steps(self, event: Event, anew: dict[str, SubscribedFilter]) -> Iterator[Pair]:
        """Yield what a change of a row of ``$SYS`` is to the reader's queries of such rows."""
        for view, steps in steps_of(event).items():
            item = self._reader.interests.queries.get(view.query.name)
            window = None if item is None or item.query is None else item.query.window
            if item is None or window is None or window.key != view.query.key:
                continue
            if steps is None:
                anew[view.query.name] = item
            elif view.query.name not in anew:
                yield from ((step, item) for step in steps)

    def _concerned(
        self, table: TableQueries, event: Event, interest: SubscribedFilter | None
    ) -> list[SubscribedFilter]:
        """Return the reader's queries that an event concerns."""
        if interest is not None and interest.query is not None:
            return [interest]  # alone, or in a replay of its own part of the log
        queries = self._reader.interests.queries
        found = table.matches(event)
        names = queries if found is None else dict.fromkeys(map(table.name_of, found))
        items = [queries[name] for name in names if name in queries]
        return [
            item
            for item in items
            if event.seq > item.floor
            and item.query is not None
            and any(own.name == table.table.name for own in item.query.tables)
        ]

    def _step(
        self,
        table: TableQueries,
        event: Event,
        item: SubscribedFilter,
        anew: dict[str, SubscribedFilter],
    ) -> Event | None:
        """Return the step that an event is to a query; None if it is none."""
        query, name = item.query, item.topics.text
        if query is None or name in anew:
            return None
        found = table.matches(event)
        if found is None:
            selected = event.kind != DELETE and table.selects(query.query.where, event)
            seen = self._seen(event) if selected else None
            if seen is None and not query.exact:
                anew[name] = item
                return None
            return _made(event, Step.LEAVE if seen is None else Step.ENTER, seen)
        was, is_now = found.get(name, (False, False))
        seen = self._seen(event) if is_now else None
        before = before_of(event)
        had = was and isinstance(before, Event) and self._seen(before) is not None
        if seen is not None:
            return _made(event, Step.CHANGE if had else Step.ENTER, seen)
        return _made(event, Step.LEAVE, None) if had else None

    def _seen(self, record: Record) -> Record | None:
        """Return a record as the caller reads it; None if it may not."""
        return next(iter(self._visibility.records(self._caller, [record])), None)


def _shown(step: Event, item: SubscribedFilter | None) -> Sequence[Pair]:
    """Return a step as a reader is told it that may lack some records; none if it is not told."""
    query = None if item is None else item.query
    if query is None or not (query.lacking or query.query.select is not None):
        return ((step, item),)
    shown = query.shown(step)
    return () if shown is None else ((shown, item),)


def _window_steps(
    table: TableQueries,
    event: Event,
    item: SubscribedFilter,
    anew: dict[str, SubscribedFilter],
    late: _Late,
) -> Sequence[Event]:
    """Return the steps that an event is to a window, as it was offered; else add it to ``late``."""
    name, window = item.topics.text, item.query.window if item.query is not None else None
    if window is None or name in anew or name in late or event.seq <= item.floor:
        return ()
    found = table.matches(event)
    if found is not None and window.key not in found:
        return ()
    known = table.windows.get(window.key)
    steps = None if known is None else known.steps(event)
    if steps is None:
        late[name] = item, event.seq - 1
    return steps or ()


def _concerns_queries(interest: SubscribedFilter | None) -> bool:
    if interest is None:
        return False
    return (
        interest is ANY_QUERY
        or interest.query is not None
        or (bool(interest.merged) and interest.merged[-1] is ANY_QUERY)
    )


def _made(event: Event, step: Step, seen: Record | None) -> Event:
    """Return an event as a step; the same for all readers that see the same."""
    steps = _STEPS.of(event, None)
    if steps is None or len(steps) > _STEPS_MAX:
        steps = _STEPS.put(event, {})
    known = steps.get((step, id(seen)))  # kept with the record, so its identity is not used again
    if known is None:
        made = as_step(step, event if seen is None else seen)
        known = steps[step, id(seen)] = seen, made
    return known[1]
