"""Live queries of topic tables: what filters name, and whom a message concerns.

The conditions of all queries of a table are in one index. While there are some, the table's part of
the log is looked at every ``look_seconds``: what retention removed since is no event, wherever in a
cluster it ran, and is reported to all of them.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from rowcast.bus.subscriber import Subscriber
from rowcast.core.callers import SERVER, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.query_limits import LIVE_LOOK_TURN_VIEWS
from rowcast.core.query_topics import QUERY_PREFIX
from rowcast.core.topic_tables import PREFIX
from rowcast.core.topics import TopicFilter
from rowcast.features.live_queries.message_view import MessageView, message_report, trim_report
from rowcast.features.live_queries.query_index import QueryIndex
from rowcast.features.live_queries.query_target import parsed_rows, viewed_key
from rowcast.features.live_queries.row_view import HeldView, RowQuery
from rowcast.features.live_queries.shared_view import RecordBudget, SharedViews, ViewHandle
from rowcast.kernel.kernel import Kernel
from rowcast.rows.topic_rows import LogView, View
from rowcast.seams.query_points import QueryReader
from rowcast.subscriptions.live_query import LiveQuery


class TableMessages(Subscriber):
    """The views of one topic table."""

    def __init__(
        self,
        view: LogView,
        kernel: Kernel,
        look_seconds: float,
        turn_views: int = LIVE_LOOK_TURN_VIEWS,
    ) -> None:
        self._view = view
        self._kernel = kernel
        self._reader = kernel.reader
        self._seconds = look_seconds
        self._turn_views = turn_views
        self._index = QueryIndex()
        self._views: dict[str, MessageView] = {}
        self._trimmed = self._reader.trimmed([view.branch])
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._views)

    def enter(self, view: MessageView) -> None:
        """Offer it reports from now on."""
        self._views[view.query.key] = view
        self._index.add(view.query.key, view.query.query.where)
        if self._timer is None:
            self._kernel.bus.add(self._view.branch.topics, self)
            self._wait()

    def leave(self, view: HeldView) -> None:
        """Offer it none any longer."""
        del self._views[view.query.key]
        self._index.remove(view.query.key)
        if self._timer is not None and not self._views:
            self._timer.cancel()
            self._timer = None
            self._kernel.bus.remove(self._view.branch.topics, self)

    def offer(self, event: Event) -> None:
        """Offer a message to the readers that it concerns, each once."""
        view = self._view
        if event.table is not None or not event.seq or not view.branch.has(event.topic):
            return
        value = view.value(event)
        found = dict.fromkeys(self._index.find(value["id"], value))  # no other has a row of it
        self._report(message_report(view, event), [self._views[key] for key in found])

    def fall_behind(self, event: Event) -> None:
        """Do nothing: results are records of declared tables."""

    def _report(self, report: Event, views: list[MessageView]) -> None:
        readers: dict[QueryReader, None] = {}
        for view in views:
            readers.update(dict.fromkeys(view.take(report)))
        for reader in readers:
            reader.offer(report)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._look)

    def _look(self) -> None:
        """Report what is trimmed since the last time."""
        self._wait()
        there = self._kernel.views.get(self._view.table.name)
        if isinstance(there, LogView) and there.branch != self._view.branch:
            self._turn_to(there)
            return
        trimmed, before = self._reader.trimmed([self._view.branch]), self._trimmed
        if trimmed == before:
            return
        self._trimmed = trimmed
        if trimmed < before:  # a removal has failed, and some that have left are there again
            for view in self._views.values():
                view.forget()
        self._report_trimmed(trimmed, list(self._views))

    def _turn_to(self, view: LogView) -> None:
        """Follow another branch, which has got the name of the table; all readers begin anew."""
        self._kernel.bus.remove(self._view.branch.topics, self)
        self._view, self._trimmed = view, self._reader.trimmed([view.branch])
        self._kernel.bus.add(view.branch.topics, self)
        for one in self._views.values():
            one.turn_to(view)
        self._report_trimmed(self._trimmed, list(self._views))

    def _report_trimmed(self, trimmed: int, keys: Sequence[str]) -> None:
        """Report to some views that messages are gone, and to the others in later turns."""
        now, later = keys[: self._turn_views], keys[self._turn_views :]
        views = [self._views[key] for key in now if key in self._views]
        self._report(trim_report(self._view, trimmed), views)
        lost = [view for view in views if not view.is_known]
        if lost:  # what was in them has left; their readers are told to begin anew
            self._report(trim_report(self._view, trimmed), lost)
        if later:
            asyncio.get_running_loop().call_soon(self._report_trimmed, trimmed, later)


class MessageQueries:
    """All of them, of one kernel; ``budget`` bounds the rows that they hold."""

    def __init__(self, kernel: Kernel, budget: RecordBudget, look_seconds: float) -> None:
        self._kernel = kernel
        self._budget = budget
        self._look_seconds = look_seconds
        self.tables: dict[str, TableMessages] = {}
        """Those of each topic table that somebody reads."""
        self.views = SharedViews[MessageView](budget)

    def plan(self, text: str, caller: Caller) -> LiveQuery | None:
        """Return the query that a filter names; None for one that is of no topic table.

        Raises INVALID, DENIED, and NOT_FOUND for a topic table that there is not.
        """
        name, _, rest = text.removeprefix(QUERY_PREFIX).partition("/")
        kernel, entry = self._kernel, self._kernel.registry.entry(name)
        if not name.startswith(PREFIX) or (entry is not None and entry.view is None):
            return None
        view = kernel.views.get(name)
        if not isinstance(view, LogView):
            raise _not_found(text, name, view)
        kernel.rights.check_table(view.table, caller)
        try:
            query, extent = parsed_rows(rest, view.table, "topic")
        except Error as error:
            error.detail["filter"] = text
            raise
        who = caller if kernel.visibility.filtered else SERVER
        sight = kernel.rights.sight(caller)
        key = viewed_key(text, who, sight)
        asked = RowQuery(text, key, name, query, extent, who)
        return LiveQuery(
            view.table,
            TopicFilter.below(name),
            query,
            query,
            exact=who is SERVER,
            sight=sight,
            window=ViewHandle(
                key,
                self.views,
                partial(self._make, asked, view),
                lambda of, since: of.replay(since),
            ),
            logged=False,
        )

    def _make(self, asked: RowQuery, view: LogView) -> MessageView:
        """Return a view that is offered the messages of its table."""
        kernel, name = self._kernel, asked.path
        at = self.tables.get(name)
        if at is None:
            at = self.tables[name] = TableMessages(view, kernel, self._look_seconds)
        made = MessageView(asked, kernel, view, self._budget, self._leave)
        at.enter(made)
        made.begin()
        return made

    def _leave(self, of: HeldView) -> None:
        at = self.tables[of.query.path]
        at.leave(of)
        if not len(at):
            del self.tables[of.query.path]


def _not_found(text: str, name: str, view: View | None) -> Error:
    if view is not None:
        return Error(
            Code.UNSUPPORTED,
            f"no live query follows rows of {name}; subscribe to {name}/# and select there, or "
            f"GET /{name}/ with the same conditions",
            filter=text,
        )
    return Error(
        Code.NOT_FOUND,
        f"there is no topic table {name[:80]!r} now; it begins with the first message below its "
        "level, and GET /$SYS/topic_tables/ lists those that there are",
        filter=text,
    )
