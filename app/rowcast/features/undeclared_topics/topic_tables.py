"""The registry of topic tables: which there are, who wants them, and when one is over.

A table is made when a client subscribes to an exact topic of its branch, or when something is
written there, whichever comes first (F11, F12); wildcards make none and receive everything
(X7). It is dropped when nobody subscribes, no retained value is there and no history is kept any
more (F14, X6), after a grace period that a new subscriber ends (F25).

The loop keeps the registry, so that it is known without a query what there is (F6); the disk is
changed by the writer thread alone. What a write needs is made just before the commit that needs it.
When that fails, the write goes to the general part of the log, where nothing is lost, and the next
one tries again (F23). How many subscribers there are is the number of pairs of a client and a
filter (X5), whether there is a table or not. It knows no protocol.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

from rowcast.core.bounded import ClearedCache
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event
from rowcast.core.topic_tables import TopicRoot, TopicTable, branch_of, name_of_branch
from rowcast.core.topics import TopicFilter
from rowcast.core.undeclared_topic_limits import (
    TOPIC_ROOTS_CACHED_MAX,
    TOPIC_TABLE_GRACE_SECONDS,
    TOPIC_TABLE_RETRY_SECONDS,
    TOPIC_TABLES_MAX,
)
from rowcast.kernel.row_views import Views
from rowcast.routes.registry import Registry, Route
from rowcast.store.store import Change, Figures, Keep, Maintenance
from rowcast.writes.commit import Committer
from rowcast.writes.write import Step, Write

log = logging.getLogger("rowcast.topics")

OWNER: Final = "topic table/"
"""What the owners of these facts begin with: ``topic table/<name>``."""
CREATED: Final = "created"
NOTHING: Final = Figures()


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What an operator decides of topic tables."""

    grace_seconds: float = TOPIC_TABLE_GRACE_SECONDS
    """From the last subscriber to the end of a table that holds nothing."""
    tables_max: int = TOPIC_TABLES_MAX
    keep: Keep = field(default_factory=Keep)
    """How much history each of them keeps."""
    keeps: Mapping[str, Keep] = field(default_factory=dict)
    """The same by name, where it is another."""


class Entry:
    """What is known of one topic table."""

    __slots__ = ("asked", "created_at", "defined", "leaving", "left_at", "table", "wanted")

    def __init__(self, table: TopicTable, created_at: float, left_at: float) -> None:
        self.table = table
        self.created_at = created_at
        """In seconds since 1970."""
        self.left_at = left_at
        """When the last subscriber went, by the loop's clock: from then on it may be over."""
        self.defined = False
        """Whether it is on disk: set by the writer thread."""
        self.asked = False
        """Whether the writer thread was asked to make it, and has not answered."""
        self.leaving = False
        """Whether it is being dropped."""
        self.wanted = False
        """Whether something was written to it meanwhile."""


class TopicTables:
    """The topic tables of one kernel."""

    def __init__(
        self,
        store: Maintenance,
        committer: Committer,
        registry: Registry,
        settings: TopicSettings,
        now: WallClock,
    ) -> None:
        self._store = store
        self._committer = committer
        self._registry = registry
        self.settings = settings
        self._now = now
        self.loop = asyncio.get_running_loop()
        self._entries: dict[str | None, Entry] = {}
        """By first level, as branches have it."""
        self._by_name: dict[str, Entry] = {}
        self._steps: ClearedCache[str | None, Step] = ClearedCache(TOPIC_ROOTS_CACHED_MAX)
        """The steps of routes, one for all topics of a branch."""
        self._missing: set[str | None] = set()
        """Branches whose table is not on disk: what the writer thread looks for."""
        self._counts: dict[str | None, int] = {}
        """How many (client, filter) pairs there are, by branch."""
        self._filters: dict[object, dict[str, str | None]] = {}
        """The filters of each client, and the branches that they are of."""
        self._timer: asyncio.TimerHandle | None = None
        self._cleaning: asyncio.Task[int] | None = None
        self._stopped = True
        """Whether nothing is dropped now: before ``start``, and after ``stop``."""
        self._full = False
        """Whether it was told that there are as many tables as may be."""
        self.failures = 0
        """Tables that could not be made or dropped."""
        self.on_begin: list[Callable[[TopicTable], object]] = []
        """Called with each new table, before anything is written to it."""
        self.on_end: list[Callable[[str], object]] = []
        """Called with the name of each table that is gone."""
        committer.before_append.append((self._missing, self._prepare))

    def show_in(self, views: Views) -> None:
        """Have the rows of each table be read, of those that are made later, too."""
        for entry in self:
            views.define(entry.table)
        self.on_begin.append(views.define)
        self.on_end.append(views.drop)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def named(self, name: str) -> Entry | None:
        """Return the table of a name."""
        return self._by_name.get(name)

    def of(self, branch: TopicRoot) -> Entry | None:
        """Return the table of a branch."""
        return self._entries.get(branch.level)

    def subscribers(self, branch: TopicRoot) -> int:
        """Return how many pairs of a client and an exact filter there are in a branch."""
        return self._counts.get(branch.level, 0)

    def figures(self, entry: Entry) -> Figures:
        """Return how much a table holds now."""
        return self._store.figures(entry.table.branch) if entry.defined else NOTHING

    def keeps(self) -> list[tuple[TopicRoot, Keep]]:
        """Return how much history each table keeps (F26)."""
        settings = self.settings
        return [
            (entry.table.branch, settings.keeps.get(entry.table.name, settings.keep))
            for entry in self
            if entry.defined
        ]

    # -- at start ----------------------------------------------------------------------------------

    def restore(
        self, tables: Iterable[TopicTable], facts: Iterable[tuple[str, str, bytes]]
    ) -> None:
        """Know again what an earlier run left on disk (F6)."""
        created = {
            owner.removeprefix(OWNER): float(value)
            for owner, name, value in facts
            if name == CREATED
        }
        declared = self._declared
        for table in tables:
            if table.name in declared:
                log.warning("the rows of %s cannot be read: a table is declared there", table.name)
            entry = self._put(table, created.pop(table.name, self._now()))
            entry.defined = True
            self._missing.discard(table.branch.level)
        if created:
            self._committer.keep([Change(OWNER + name, "", None) for name in created])

    def start(self) -> None:
        """Drop what is over from now on."""
        self._stopped = False
        self._watch()

    # -- who subscribes ----------------------------------------------------------------------------

    def subscribed(self, owner: object, topics: TopicFilter, text: str = "") -> None:
        """Note that a client has a filter; ``text`` is what it asked for, if that is another.

        An exact one makes the table of its branch; beyond the cap there is none, and it receives
        all the same (F8, F32).
        """
        filters = self._filters.get(owner, {})
        text = text or topics.text
        if text in filters or not self._makes_table(topics):
            return
        level = branch_of(topics.text).level
        self._filters.setdefault(owner, filters)[text] = level
        self._counts[level] = self._counts.get(level, 0) + 1
        entry = self._entries.get(level)
        if entry is None and self._registry.logged:
            if len(self._entries) >= self.settings.tables_max:
                self._warn_full(topics.text)
            else:
                entry = self._add(level)
        if entry is not None:
            self._ask(entry)

    def _makes_table(self, topics: TopicFilter) -> bool:
        """Whether a filter is of one undeclared topic, and not of a table's row."""
        text = topics.text
        if not topics.exact or text[0] == "$" or topics.levels[0] in self._by_name:
            return False
        return self._registry.route(text).entry is None

    def unsubscribed(self, owner: object, text: str) -> None:
        """Note that a client has a filter no more; one that it never had is ignored."""
        filters = self._filters.get(owner)
        if filters is None or text not in filters:
            return
        self._uncount(filters.pop(text))
        if not filters:
            del self._filters[owner]

    def gone(self, owner: object) -> None:
        """Note that a client is gone for good: that ends all its filters (X5)."""
        for level in self._filters.pop(owner, {}).values():
            self._uncount(level)

    def _uncount(self, level: str | None) -> None:
        left = self._counts[level] - 1
        if left:
            self._counts[level] = left
            return
        del self._counts[level]
        entry = self._entries.get(level)
        if entry is not None:
            entry.left_at = self.loop.time()
            self._watch()

    # -- what is written ---------------------------------------------------------------------------

    def step(self, route: Route) -> Step | None:
        """Return the step that logs what is written, all that is not the server's own."""
        if route.shape is not None or route.topic[0] == "$":
            return None
        level = branch_of(route.topic).level
        return self._steps.get(level) or self._steps.put(level, partial(self._keep, level))

    def _keep(self, level: str | None, write: Write) -> None:
        """Log a write, and see to it that there is a table for it.

        Raises TOO_LARGE when there are as many tables as may be: that is for good, so it costs no
        client its connection (E18). A deletion asks for none.
        """
        write.logged = True
        entry = self._entries.get(level)
        if entry is not None:
            if entry.leaving:
                entry.wanted = True
        elif write.event.kind != DELETE:
            topic = write.event.topic
            if len(self._entries) >= self.settings.tables_max:
                self._warn_full(topic)
                raise self._no_more(topic)
            self._add(level)
            self._watch()

    def _no_more(self, topic: str) -> Error:
        return Error(
            Code.TOO_LARGE,
            f"{topic[:200]!r} would need a new topic table, and there are {len(self._entries)}, as "
            "many as topics.max_tables allows; write below a first level that has one, declare a "
            "table in schema.graphql, or have the operator raise topics.max_tables",
        )

    def _warn_full(self, topic: str) -> None:
        if not self._full:
            self._full = True
            log.warning(
                "there are %d topic tables, as many as topics.max_tables allows: %r gets none",
                len(self._entries), topic[:200],
            )  # fmt: skip

    def _add(self, level: str | None) -> Entry:
        """Note a new table; it is made on disk by whoever needs it first."""
        levels = {level for level in self._entries if level}  # rows would hide what is said there
        taken = self._declared | self._by_name.keys() | levels
        branch = TopicRoot(level)
        entry = self._put(TopicTable(name_of_branch(branch, taken), branch), self._now())
        fact = Change(OWNER + entry.table.name, CREATED, repr(entry.created_at).encode())
        self._committer.keep((fact,))
        return entry

    @cached_property
    def _declared(self) -> set[str]:
        """The names and first levels of what is declared: no topic table is called so.

        Asked first when the registry is complete, and before any topic table is in it.
        """
        tables = [shape.table for shape in self._registry.shapes.values()]
        paths = {entry.path.partition("/")[0] for entry in self._registry.entries}
        return {table.name for table in tables} | paths

    def _put(self, table: TopicTable, created_at: float) -> Entry:
        entry = Entry(table, created_at, self.loop.time())
        self._missing.add(table.branch.level)
        self._entries[table.branch.level] = self._by_name[table.name] = entry
        if table.name not in self._declared:
            for call in self.on_begin:
                call(table)
        return entry

    def _ask(self, entry: Entry) -> None:
        """Have the writer thread make a table; once, however many ask (F11)."""
        if not (entry.defined or entry.asked):
            entry.asked = True
            self._committer.on_writer(lambda: self._define(entry))

    # -- the writer thread -------------------------------------------------------------------------

    def _prepare(self, events: Sequence[Event]) -> None:
        """Make the tables that these events need, before they are appended."""
        levels = {
            branch_of(event.topic).level: None
            for event in events
            if event.table is None and event.kind != DELETE
        }
        entries = [self._entries.get(level) for level in levels if level in self._missing]
        needed = [entry for entry in entries if entry is not None]
        if len(needed) > 1:  # in one transaction; if that fails, each is tried by itself
            with suppress(Exception):
                self._store.define(*(entry.table for entry in needed))
        for entry in needed:
            self._define(entry)

    def _define(self, entry: Entry) -> None:
        """Make a table; when that fails, the next one who needs it tries again (F23)."""
        entry.asked = False
        if entry.defined:
            return
        try:
            self._store.define(entry.table)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the server goes on
            self._failed(entry, "made", problem)
        else:
            entry.defined = True
            self._missing.discard(entry.table.branch.level)
            log.info("topic table %s created", entry.table.name)

    def _failed(self, entry: Entry, what: str, problem: Exception) -> None:
        self.failures += 1
        log.error(
            "the topic table %s could not be %s, which is tried again: %s",
            entry.table.name, what, problem,
            exc_info=None if isinstance(problem, Error) else problem,
        )  # fmt: skip

    def _remove(self, entry: Entry) -> bool:
        """Drop a table unless it holds something; return whether it is gone."""
        self._store.caught_up()
        if not _empty(self._store.figures(entry.table.branch)):
            self._define(entry)  # a making that failed for who waited is in the log, and came
            return False
        self._missing.add(entry.table.branch.level)
        entry.defined = False  # also if it fails: to make what is there does nothing
        self._store.drop(entry.table)
        return True

    # -- the end of a table ------------------------------------------------------------------------

    def _watch(self) -> None:
        """Look for tables that are over when the first grace period is."""
        if self._timer is None and not self._stopped:
            self._timer = self.loop.call_later(self.settings.grace_seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._cleaning is None:
            self._cleaning = self.loop.create_task(self.clean())

    def _used(self, entry: Entry) -> bool:
        """Whether somebody subscribes to a table, or something is in it."""
        return bool(self.subscribers(entry.table.branch)) or not _empty(self.figures(entry))

    def _over(self, entry: Entry) -> bool:
        """Whether nothing and nobody needs a table, and nobody has for the grace period."""
        grace = self.loop.time() - entry.left_at >= self.settings.grace_seconds
        return grace and not self._used(entry)

    async def clean(self) -> int:
        """Drop the tables that are over; return how many. What fails is tried again next time."""
        dropped = 0
        try:
            for entry in self:
                if self.subscribers(entry.table.branch):
                    self._ask(entry)  # if it could not be made when they came
                elif self._over(entry) and not entry.leaving:
                    dropped += await self._end(entry)
        finally:
            if asyncio.current_task() is self._cleaning:
                self._cleaning = None
        self._look_again()
        return dropped

    def _look_again(self) -> None:
        """Come back when the next grace period is over, or for what failed."""
        left = [entry.left_at for entry in self if not self._used(entry)]
        if left and self._timer is None and not self._stopped:
            seconds = min(left) + self.settings.grace_seconds - self.loop.time()
            self._timer = self.loop.call_later(max(seconds, TOPIC_TABLE_RETRY_SECONDS), self._look)

    async def _end(self, entry: Entry) -> bool:
        """Drop one table, unless it is wanted again; return whether it is gone.

        First all that was written before is stored; what comes after is noted on the entry.
        """
        entry.leaving, entry.wanted = True, False
        try:
            await self._committer.durable()
            if entry.wanted or not self._over(entry):
                return False
            work = self._committer.on_writer(lambda: self._remove(entry))
            if not await asyncio.wrap_future(work):
                return False
        except Exception as problem:  # noqa: BLE001 - whatever it is, the server goes on
            self._failed(entry, "dropped", problem)
            return False
        finally:
            entry.leaving = False
        return self._forget(entry)

    def _forget(self, entry: Entry) -> bool:
        """Forget a table that is no more on disk, unless somebody came while it was dropped."""
        table = entry.table
        if self._counts.get(table.branch.level):
            self._ask(entry)
            return False
        if entry.wanted:  # the write that wants it makes it
            return False
        del self._entries[table.branch.level], self._by_name[table.name]
        self._missing.discard(table.branch.level)
        self._full = False
        for call in self.on_end:
            call(table.name)
        self._committer.keep([Change(OWNER + table.name, "", None)])
        log.info("topic table %s dropped: not in use", table.name)
        return True

    async def stop(self) -> None:
        """Drop no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._cleaning is not None:
            self._cleaning.cancel()
            await asyncio.wait((self._cleaning,))


def _empty(figures: Figures) -> bool:
    return not (figures.records or figures.events or figures.archived)
