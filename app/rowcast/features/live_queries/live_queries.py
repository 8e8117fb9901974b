"""Live queries: reads what filters ask for, and keeps the queries of each table."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from rowcast.core.callers import SERVER, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.queries import related_tables
from rowcast.core.query_limits import (
    LIVE_LOOK_SECONDS,
    LIVE_QUERIES_MAX,
    WINDOW_SPARE_RECORDS_MIN,
    WINDOWS_RECORDS_MAX,
)
from rowcast.core.query_windows import Extent
from rowcast.core.relation_limits import LIVE_RELATED_KEYS_MAX
from rowcast.core.relations import related_conditions
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.live_queries.definitions import Definitions
from rowcast.features.live_queries.message_queries import MessageQueries
from rowcast.features.live_queries.query_stage import QueryStage
from rowcast.features.live_queries.query_target import parsed, rights_of, seer_of, target_of
from rowcast.features.live_queries.related_past import Limits
from rowcast.features.live_queries.related_plan import Plan
from rowcast.features.live_queries.related_view import RelatedQuery, RelatedView, RelatedViews
from rowcast.features.live_queries.related_window import RelatedWindow
from rowcast.features.live_queries.rights_changes import RightsChanges
from rowcast.features.live_queries.shared_view import RecordBudget, SharedViews, ViewHandle
from rowcast.features.live_queries.system_queries import SystemQueries
from rowcast.features.live_queries.table_queries import TableQueries
from rowcast.features.live_queries.table_values import TableValues
from rowcast.features.live_queries.window import Window, WindowQuery
from rowcast.features.live_queries.window_replay import replay
from rowcast.kernel.kernel import Kernel
from rowcast.routes.excluded_tables import PROTOCOLS, check_not_excluded
from rowcast.seams.query_points import QueryPoints, QueryReader
from rowcast.subscriptions.live_query import RIGHTS_CHANGE, LiveQuery
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

_ANONYMOUS: Final = "anonymous"


class LiveQueries(QueryPoints):
    """The live queries of one kernel; ``max_per_user`` bounds those of one user.

    ``window_records_max`` bounds the records of all windows, of which ``spare_records_min`` are
    behind each; ``related_keys_max`` the keys of related records, and ``related_limits`` what one
    reader of a query on related records may cost. Every ``look_seconds`` it is known what retention
    has removed of topic tables.
    """

    def __init__(
        self,
        kernel: Kernel,
        max_per_user: int = LIVE_QUERIES_MAX,
        named: Definitions | None = None,
        window_records_max: int = WINDOWS_RECORDS_MAX,
        spare_records_min: int = WINDOW_SPARE_RECORDS_MIN,
        related_keys_max: int = LIVE_RELATED_KEYS_MAX,
        related_limits: Limits | None = None,
        look_seconds: float = LIVE_LOOK_SECONDS,
    ) -> None:
        self._kernel = kernel
        self._named = named or Definitions(())
        self._max_per_user = max_per_user
        self._tables: dict[str, TableQueries] = {}
        budget = RecordBudget(window_records_max)
        self.windows = SharedViews[Window](budget)
        self.systems = SystemQueries(kernel, budget)
        self.messages = MessageQueries(kernel, budget, look_seconds)
        self.views = RelatedViews(budget, related_keys_max, related_limits)
        self._spare_records_min = spare_records_min
        self._counts: Counter[str] = Counter()
        self.rights = RightsChanges()
        """Since when users may read what they may read."""
        self._counted: dict[tuple[QueryReader, str], tuple[str, LiveQuery]] = {}

    def __len__(self) -> int:
        return len(self._counted)

    # -- reading what is asked for -----------------------------------------------------------------

    def plan(self, interest: SubscribedFilter, caller: Caller) -> None:
        """Set the query that an interest names; raises INVALID, NOT_FOUND, DENIED."""
        kernel, text = self._kernel, interest.topics.text
        interest.query = self.systems.plan(text, caller) or self.messages.plan(text, caller)
        if interest.query is not None:
            return
        asked = target_of(text, kernel.registry, self._named)
        table, related_ones = asked.table, kernel.registry.related
        query, extent = parsed(asked, text, related_ones, self._spare_records_min)
        visibility = kernel.visibility
        related = tuple(related_tables(table, query.where, query.select))
        self._check((table, *related), caller)
        asked.check(visibility, caller)
        made = LiveQuery(
            table,
            TopicFilter.below(table.path or ""),
            query,
            visibility.narrowed(caller, table, query),
            exact=not any(
                visibility.limits(caller, one) or visibility.sifts(caller, one)
                for one in (table, *related)
            ),
            sight=self._sight(caller),
            since=max(asked.since, self._named.since_of((table, *related))),
            rights_since=self.rights.since(caller.user),
            related=related,
        )
        if query.select is not None or any(related_conditions(query.where)):
            made = replace(made, window=self._related_handle(text, made, extent, caller))
        elif extent is not None:
            made = replace(made, window=self._window_handle(text, made, extent, caller))
        interest.query = made

    def _check(self, tables: tuple[Table, ...], caller: Caller) -> None:
        """Raise an Error unless the caller's door offers the tables, and it may read them."""
        for table in tables:
            if caller.door in PROTOCOLS:
                check_not_excluded(table, caller.door)
            self._kernel.rights.check_table(table, caller)

    def _key(self, name: str, query: LiveQuery, caller: Caller) -> str:
        """Return the key of a window: the same one for all who see the same."""
        sifted = any(self._kernel.visibility.sifts(caller, table) for table in query.tables)
        known = self._kernel.rights.sight(caller)
        sight = "" if query.exact else f"{id(known)}"  # it lives as long as the query
        who = seer_of(caller) if sifted else ""
        return f"{name}\n{sight}\n{who}"

    def _related_handle(
        self, name: str, query: LiveQuery, extent: Extent | None, caller: Caller
    ) -> ViewHandle[RelatedView]:
        """Return the reader's handle of a query with conditions on related records."""
        kernel, views = self._kernel, self.views
        plan = Plan(
            query.table,
            query.query.where,
            lambda table: TableValues(table, kernel.transcoder),
            kernel.visibility,
            _seeing(query, caller),
            query.query.select,
            query.query.sort,
        )
        asked = RelatedQuery(name, self._key(name, query, caller), plan)
        parts = asked, kernel.reader, views.left, views.limits
        make: Callable[[], RelatedView] = partial(RelatedView, *parts)
        if extent is not None:
            make = partial(RelatedWindow, *parts, extent, query.query.sort)
        return ViewHandle(asked.key, views, make, lambda view, since: view.replay(since))

    def _window_handle(
        self, name: str, query: LiveQuery, extent: Extent, caller: Caller
    ) -> ViewHandle[Window]:
        """Return the reader's handle of a window."""
        kernel, table = self._kernel, query.table
        asked = WindowQuery(
            name,
            self._key(name, query, caller),
            table,
            query.query.where,
            query.readable,
            _seeing(query, caller),
            extent,
        )
        values = TableValues(table, kernel.transcoder)
        make = partial(Window, asked, kernel.reader, kernel.visibility, values)
        return ViewHandle(asked.key, self.windows, make, replay)

    # -- readers -----------------------------------------------------------------------------------

    def enter(self, reader: QueryReader, interest: SubscribedFilter) -> None:
        """Offer the events that concern a query to its reader from now on; raises BUSY."""
        query, name = interest.query, interest.topics.text
        if query is None or (reader, name) in self._counted:
            return
        who = self._count(reader)
        of_tables = [self._tables.get(table.name) or self._begin(table) for table in query.tables]
        try:
            self._enter(of_tables, name, query, reader)
        except Error:
            self._uncount(who)
            self._end(of_tables)
            raise
        self._counted[reader, name] = who, query

    def _enter(
        self, of_tables: list[TableQueries], name: str, query: LiveQuery, reader: QueryReader
    ) -> None:
        handle = query.window
        if not isinstance(handle, ViewHandle):
            of_tables[0].enter(name, query.query.where, reader)
            return
        view = handle.enter(reader)
        for one in of_tables:
            if handle.key not in one.windows:
                one.add_window(view, view.concerned(one.table))

    def _count(self, reader: QueryReader) -> str:
        """Count one more query of a reader's user, whose name is returned; raises BUSY."""
        caller = reader.caller
        who = f"{caller.user} {caller.peer}" if caller.user == _ANONYMOUS else caller.user
        if self._counts[who] >= self._max_per_user:
            raise Error(
                Code.BUSY,
                f"{caller.user} has {self._max_per_user} live queries, and may have no more; end "
                "one that is no longer needed, or raise live_queries.max_per_user",
            )
        self._counts[who] += 1
        return who

    def _uncount(self, who: str) -> None:
        self._counts[who] -= 1
        if not self._counts[who]:
            del self._counts[who]

    def _begin(self, table: Table) -> TableQueries:
        """Begin with the first query of a table: its events need the record before."""
        kernel = self._kernel
        of_table = TableQueries(table, kernel.transcoder)
        self._tables[table.name] = of_table
        kernel.registry.shapes[table.name].need_before("live queries")
        kernel.reader.remember_before(table)
        kernel.bus.add(TopicFilter.below(table.path or ""), of_table)
        return of_table

    def leave(self, reader: QueryReader, interest: SubscribedFilter) -> None:
        """Offer them no longer."""
        name = interest.topics.text
        who, query = self._counted.pop((reader, name), ("", None))
        if query is None:
            return
        self._uncount(who)
        of_tables = [self._tables[table.name] for table in query.tables]
        handle = query.window
        if not isinstance(handle, ViewHandle):
            of_tables[0].leave(name, reader)
        elif handle.leave(reader):
            for of_table in of_tables:
                of_table.remove_window(handle.key)
        self._end(of_tables)

    def _end(self, of_tables: list[TableQueries]) -> None:
        """End with the last query of each table."""
        for of_table in of_tables:
            if not len(of_table):
                table = of_table.table
                del self._tables[table.name]
                self._kernel.bus.remove(TopicFilter.below(table.path or ""), of_table)
                self._kernel.registry.shapes[table.name].need_no_more("live queries")

    def stage(self, reader: QueryReader, caller: Caller, inner: Stage | None) -> Stage:
        """Return the stage of a reader; its queries begin anew when its rights have changed."""
        kernel = self._kernel
        sight = self._sight(caller)
        if isinstance(reader.stage, QueryStage) and reader.stage.sight != sight:
            queries = list(reader.interests.queries.values())
            changed = [item for item in queries if self._is_changed(reader, item, caller)]
            if changed:
                reader.begin_anew(changed, RIGHTS_CHANGE)
        return QueryStage(reader, caller, inner, kernel.visibility, self._tables, sight)

    def _sight(self, caller: Caller) -> object:
        """Return what decides about the records that a caller sees: equal for the same."""
        sight = self._kernel.rights.sight(caller)
        return (sight, rights_of(caller)) if self._kernel.read_filters else sight

    def _is_changed(self, reader: QueryReader, interest: SubscribedFilter, caller: Caller) -> bool:
        """Plan a query anew for other rights; return whether its records may be others now."""
        before = interest.query
        self.plan(interest, caller)
        if interest.is_window:
            self.leave(reader, interest)
            self.enter(reader, interest)
        return interest.query is None or not interest.query.continues(before)


def _seeing(query: LiveQuery, caller: Caller) -> Caller:
    """Return who sees what all readers of a view see that one begins.

    Readers who see everything share it, whatever becomes of the rights of the one.
    """
    return SERVER if query.exact else caller
