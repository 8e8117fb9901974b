"""A live query with conditions on related records, for all who read the same (M3, A9).

It knows, as of the newest event, the keys that lead to related records which match, and no record
of its own table. A write of its own table is then a step or none, at once. A write of a related
record that adds or removes a key concerns the records that refer to it: they are read from the
store, and each reader goes on by the past since its position (``related_past.py``), which readers
at one position share. A reader that was slow, or returns with a cursor, goes on the same way.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowcast.core.conditions import Where
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, Record
from rowcast.core.queries import Query
from rowcast.core.query_limits import WINDOW_LOADS_MAX
from rowcast.core.relation_limits import LIVE_RELATED_KEYS_MAX
from rowcast.core.tables import Table
from rowcast.features.live_queries.related_past import TOO_MANY, Limits, Past, Steps
from rowcast.features.live_queries.related_plan import Branch, Counts, Plan, add, has_of
from rowcast.features.live_queries.related_pool import SelectedRecords
from rowcast.features.live_queries.shared_view import RecordBudget, SharedView, SharedViews
from rowcast.reads.before_image import UnknownBefore, before_of
from rowcast.reads.loop_turns import LOOP_TURN_ITEMS, each
from rowcast.subscriptions.backfill import page_records
from rowcast.subscriptions.live_query import Step, Unknown, as_step, numbered
from rowcast.subscriptions.reader import Reader


@dataclass(frozen=True, slots=True)
class RelatedQuery:
    """What a view is about."""

    name: str
    """The filter that names it."""
    key: str
    """The same text for readers that see the same."""
    plan: Plan


class SharedPast:
    """A past that is being read, or was; ``position`` is 0 until it is known."""

    def __init__(self, since: int) -> None:
        self.since = since
        self.position = 0
        self.where: Where | None = None
        """What selects the records at the position; None: there are none."""
        self.records: Sequence[Record] = ()
        """The records of a window at the position, in order."""
        self.task: asyncio.Task[list[Steps]] | None = None


class RelatedView(SharedView):
    """One query, as of the newest event; ``keys_left``: how many more keys the process may hold."""

    def __init__(
        self, query: RelatedQuery, reader: Reader, keys_left: Callable[[], int], limits: Limits
    ) -> None:
        super().__init__(reader)
        self._query = query
        self._plan = query.plan
        self._selected_records = SelectedRecords(query.plan, {})
        self._keys_left = keys_left
        self._limits = limits
        self._counts: Counts | None = None
        """What is known; None: nothing is, until somebody asks."""
        self._where: Where | None = None
        """The conditions with these keys, once somebody asked; None else."""
        self._shared: SharedPast | None = None

    @property
    def query(self) -> RelatedQuery:
        """What it is about."""
        return self._query

    def concerned(self, table: Table) -> Where:
        """Return what holds for each record of a table that may concern it."""
        return self._plan.loose(table)

    @property
    def keys(self) -> int:
        """How many keys it holds."""
        return sum(map(len, self._counts or ()))

    # -- events ------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Know nothing any more: there are events that it is not given."""
        super().forget()
        self._counts = self._where = None

    def _take(self, event: Event) -> list[Event] | None:
        if self._counts is None or event.seq <= self._applied:
            return None  # it was read from the store before the bus had it
        self._applied = event.seq
        moved = self._plan.count(event, self._counts)
        if moved:
            self._where = None
        if moved is None or moved - self._plan.outer or self._is_full(self._counts):
            self._counts = None
        if moved or self._counts is None:
            return None
        return self._own_steps(event, self._counts)

    def _is_full(self, counts: Counts) -> bool:
        return any(len(counted) > self._limits.keys for counted in counts)

    def _own_steps(self, event: Event, counts: Counts) -> list[Event] | None:
        """Return the step of a record that was written, while the keys are the same."""
        root, has, before = self._plan.root, has_of(counts), before_of(event)
        if self._plan.tells(event):
            return None
        if event.table is None or event.table.name != root.table.name:
            return []
        if isinstance(before, UnknownBefore):
            return None
        was = before is not None and root.holds(before, has)
        seen = root.seen(event) if root.holds(event, has) else None
        if seen is not None:
            if self._plan.joins:
                return None  # its related records have to be read
            selected = self._selected_records
            if was and before is not None:
                return [selected.change(seen, same=selected.value(before) == selected.value(event))]
            return [as_step(Step.ENTER, selected.record(seen))]
        return [as_step(Step.LEAVE, event)] if was else []

    # -- what is known -----------------------------------------------------------------------------

    async def known(self) -> tuple[Counts, int]:
        """Return the keys, and their position; raises BUSY, and INVALID when there are too many."""
        for _ in range(WINDOW_LOADS_MAX):
            if self._counts is not None:
                return self._counts, self._position
            await self._load_once(self._load)
        raise Error(
            Code.BUSY,
            "the related records of this query change faster than they can be read; try again",
            retry_after_seconds=1,
        )

    async def _load(self) -> None:
        """Read the keys from the store, and take what has happened meanwhile."""
        await self.reader.caught_up()
        counts: Counts = [{} for _ in self._plan.branches]
        positions = [await self._read(branch, counts) for branch in self._plan.branches]
        first = self.reader.announced() if not positions else min(positions)
        last = max([first, *positions])
        events = await self._since(first, last)
        if not self._has_all:
            return
        events += [event for event in self._held or () if event.seq > last]
        if all(self._follows(event, counts, positions) for event in events):
            self._counts, self._where = counts, None
            self._applied = max([last, *(event.seq for event in events)])

    async def _read(self, branch: Branch, counts: Counts) -> int:
        """Count the records of another table that match; return their position."""
        node, has = branch.node, has_of(counts)
        where = None if branch.is_selected else node.readable(counts)
        if where is None:
            return self.reader.announced()
        most = min(self._limits.keys, self._keys_left())
        page = await self.reader.search(node.table, Query(where, limit=most + 1))
        if len(page.records) > most:
            raise self._too_many(branch, most)
        async for record in each(page.records):
            add(counts[branch.number], branch.led_to(record, has), 1)
        return page.position

    def _too_many(self, branch: Branch, most: int) -> Error:
        name, table = branch.relation.name, branch.node.table.name
        if most == self._limits.keys:
            why = f"{name} leads to more than {most} records of {table}; narrow the query"
            return Error(Code.INVALID, why)
        return Error(
            Code.BUSY,
            f"this server holds {LIVE_RELATED_KEYS_MAX} keys of related records for live queries, "
            f"and may hold no more; narrow the query of {table}, or ask later",
        )

    async def _since(self, since: int, position: int) -> list[Event]:
        """Return the events between the reads of two tables."""
        return await Past(self._plan, self.reader, since, position, self._limits).events()

    def _follows(self, event: Event, counts: Counts, positions: Sequence[int]) -> bool:
        """Take an event into counts that were read at some positions; return whether it fits."""
        moved = self._plan.count(event, counts, positions)
        return moved is not None and not moved - self._plan.outer

    # -- readers -----------------------------------------------------------------------------------

    async def replay(self, since: int | None) -> "RelatedReplay":
        """Begin a replay, None: only of its records as they are; raises Unknown, and BUSY."""
        if since is None:
            _, position = await self.known()
            return RelatedReplay(self, self._selected(), [], position)
        past = self._past(since)
        made = await self._made(past)
        steps = [step for part in made if part.position > since for step in part.steps]
        return self._replayed(past, steps)

    def _replayed(self, past: SharedPast, steps: list[Event]) -> "RelatedReplay":
        return RelatedReplay(self, past.where, steps, past.position)

    async def _made(self, past: SharedPast) -> list[Steps]:
        """Return the steps of a past, which is read once."""
        if past.task is None:
            past.task = asyncio.get_running_loop().create_task(self._read_past(past))
            past.task.add_done_callback(_retrieved)
        return await asyncio.shield(past.task)

    async def shown(self, records: Sequence[Record], position: int) -> Sequence[Record]:
        """Return records as they are told at a position; raises Unknown, and INVALID."""
        if self._plan.select is None or not records:
            return records
        past = Past(self._plan, self.reader, position, position, self._limits)
        try:
            return await past.shown(records)
        except Unknown as unknown:
            if unknown.reason != TOO_MANY:
                raise
            most = self._limits.records
            why = f"what is selected leads to more than {most} records; select less"
            raise Error(Code.INVALID, why) from unknown  # beginning anew would end here again

    def _past(self, since: int) -> SharedPast:
        """Return the past since a position, up to what is announced now: the last one, if it is."""
        known = self._shared
        if known is not None and known.since <= since and _is_good(known, self.reader.announced()):
            return known
        self._shared = made = SharedPast(since)
        return made

    async def _read_past(self, past: SharedPast) -> list[Steps]:
        counts, past.position = await self.known()
        past.where, then = self._selected(), [dict(counted) for counted in counts]
        reader = self.reader
        read = Past(self._plan, reader, past.since, past.position, self._limits)
        made = await read.steps(then)
        async for part in each(made):
            numbered(part.steps, part.position)
        return made

    def _selected(self) -> Where | None:
        """Return the conditions with the keys as they are now."""
        if self._where is None and self._counts is not None:
            self._where = self._plan.root.readable(self._counts)
        return self._where


class RelatedReplay:
    """What happened to a view since a position of one reader, and its records then."""

    def __init__(
        self, view: RelatedView, where: Where | None, steps: list[Event], position: int
    ) -> None:
        self.position = position
        self.done = not steps
        self.complete = where is None
        self.left_out: Sequence[str] = ()
        self._view = view
        self._where = where
        self._steps = steps
        self._at = 0
        """How many steps were read."""
        self._after: str | None = None

    async def read(self) -> list[Event]:
        """Return the next steps: as many as one turn of the loop delivers."""
        at, self._at = self._at, self._at + LOOP_TURN_ITEMS
        if at:
            await asyncio.sleep(0)
        self.done = self._at >= len(self._steps)
        return self._steps[at : self._at]

    async def current(self) -> Sequence[Record]:
        """Return the next records as of the position; those written since follow as events."""
        if self.complete:
            return ()
        reader, table = self._view.reader, self._view.query.plan.root.table
        most = page_records(reader, table)
        page = await reader.selected(table, Query(self._where, limit=most, after=self._after))
        self._after = page.after
        self.complete = not page.after
        records = [record for record in page.records if record.seq <= self.position]
        self.left_out = [it.topic for it in page.records if it.seq > self.position]
        return await self._view.shown(records, self.position)


class RelatedViews(SharedViews[RelatedView]):
    """The views that are read now, by their keys; ``keys_max`` bounds the keys that they hold."""

    def __init__(self, budget: RecordBudget, keys_max: int, limits: Limits | None = None) -> None:
        super().__init__(budget)
        self._keys_max = keys_max
        self.limits = limits or Limits()

    def left(self) -> int:
        """Return how many more keys may be held."""
        return max(0, self._keys_max - sum(view.keys for view in self))


def _is_good(past: SharedPast, announced: int) -> bool:
    """Whether a past reaches to the head, or will."""
    task = past.task
    if task is not None and task.done() and (task.cancelled() or task.exception() is not None):
        return False
    return not past.position or past.position >= announced


def _retrieved(task: asyncio.Task[list[Steps]]) -> None:
    """Take note of an error that nobody waits for any longer."""
    if not task.cancelled():
        task.exception()
