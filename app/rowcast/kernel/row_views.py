"""Views: the readable topic tables, and the subscribers to their rows.

A filter whose first level names a topic table, ``mqtt_home/#``, selects that table's rows; the bus
then offers the underlying topics. Tables are created and dropped while subscriptions last: a filter
with the name of a missing table selects topics of that name, and rows once the table exists. So
clients can subscribe to rows before the first message.

All of it runs on the loop. It knows no store: ``row_reads.py`` reads stored rows.
"""

from typing import Final, Protocol

from rowcast.bus.bus import Bus
from rowcast.core.callers import Caller
from rowcast.core.query_topics import QUERY_PREFIX
from rowcast.core.replays import is_replay
from rowcast.core.topic_tables import METRICS, PREFIX, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.reads.loop_turns import LoopTurns
from rowcast.routes.registry import Registry
from rowcast.rows.topic_rows import LogView, MetricsView, RowFilter, View
from rowcast.seams.query_points import QueryPoints
from rowcast.seams.replay_points import ReplayPoints, ReplayReader
from rowcast.subscriptions.bus_removals import BusRemovals
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filter import SubscribedFilter

_PREFIX_CHARS: Final = len(PREFIX)


class Watcher(ReplayReader, Protocol):
    """The part of a subscription used here."""

    def changed(self, interest: SubscribedFilter, rows: RowFilter | None) -> None:
        """Called when a filter starts or stops selecting rows."""


class Views:
    """The readable topic tables by name, and the filters that name one."""

    def __init__(self, bus: Bus, registry: Registry, turns: LoopTurns | None = None) -> None:
        self.bus = bus
        self.removals = BusRemovals(bus, turns or LoopTurns())
        self._registry = registry
        self.queries = QueryPoints()
        """Live queries; a feature replaces it."""
        self.replays = ReplayPoints()
        """Replays of the past; a feature replaces it."""
        self._views: dict[str, View] = {}
        self._watchers: dict[str, dict[Watcher, set[str]]] = {}
        """By the name in their filters, existing or not."""
        if not registry.has(METRICS):
            view = self._views[METRICS] = MetricsView()
            registry.show(view)

    def get(self, name: str) -> View | None:
        """Return the view of a table's name; None if that is no topic table."""
        return self._views.get(name)

    def rows(self, topics: TopicFilter) -> RowFilter | None:
        """Return a filter's row filter for a topic table; None if it names no such table."""
        name = _named(topics)
        view = self._views.get(name) if name else None
        return RowFilter(view, topics) if view is not None else None

    # -- filters that are names ----------------------------------------------------------------

    def is_plain(self, topics: TopicFilter) -> bool:
        """Whether a filter can name neither a topic table nor a live query nor a replay."""
        return topics.text[:1] != "$" and not _named(topics)

    def plan(self, interest: SubscribedFilter, caller: Caller) -> None:
        """Set the live query or the replay that an interest names; raises its Error."""
        interest.query = interest.replay = None
        if interest.topics.text.startswith(QUERY_PREFIX):
            self.queries.plan(interest, caller)
        elif is_replay(interest.topics.text):
            self.replays.plan(interest, caller)

    def stage(self, watcher: Watcher, caller: Caller, plain: Stage | None) -> Stage | None:
        """Return the stage of a subscription, around that for plain filters."""
        stage = plain
        if watcher.interests.queries:
            stage = self.queries.stage(watcher, caller, stage)
        return self.replays.stage(plain, stage) if watcher.interests.replays else stage

    # -- created and dropped tables ----------------------------------------------------------------

    def define(self, table: TopicTable) -> None:
        """Add a view, before its first event is announced; not if the name is declared."""
        if self._registry.has(table.name):
            return
        view = self._views[table.name] = LogView(table)
        self._registry.show(view)
        for watcher, texts in self._watchers.get(table.name, {}).items():
            for text in texts:
                interest = watcher.interests[text]
                self._begin(watcher, interest)
                watcher.changed(interest, interest.rows)

    def drop(self, name: str) -> None:
        """Remove a view, with its table."""
        if name == METRICS or self._views.pop(name, None) is None:
            return
        self._registry.hide(name)
        for watcher, texts in self._watchers.get(name, {}).items():
            for text in texts:
                interest = watcher.interests[text]
                self._end(watcher, interest)
                watcher.changed(interest, None)

    # -- subscribers -------------------------------------------------------------------------------

    def enter(self, watcher: Watcher, interest: SubscribedFilter) -> None:
        """Add an interest to the bus, under the filter of its source; raises BUSY."""
        if interest.query is not None:
            self.queries.enter(watcher, interest)
            return
        if interest.replay is not None:
            self.replays.enter(watcher, interest)
            return
        self.bus.add(interest.topics, watcher)
        name = _named(interest.topics)
        if name:
            texts = self._watchers.setdefault(name, {}).setdefault(watcher, set())
            texts.add(interest.topics.text)
            self._begin(watcher, interest)

    def leave(self, watcher: Watcher, topics: TopicFilter) -> None:
        """Remove an interest from the bus; filters of other interests stay."""
        if topics.text not in watcher.interests:
            return
        interest = watcher.interests[topics.text]
        if interest.query is not None:
            self.queries.leave(watcher, interest)
            return
        if interest.replay is not None:
            self.replays.leave(watcher, interest)
            return
        name = _named(topics)
        if name:
            self._forget(name, watcher, topics.text)
            self._end(watcher, interest)
        if not watcher.interests.rows or not self._needed(watcher, topics, interest):
            self.bus.remove(topics, watcher)

    def leave_all(self, watcher: Watcher) -> list[SubscribedFilter]:
        """Remove all interests of a subscription from the bus, which ends; return them."""
        queried = list(watcher.interests.queries.values())
        for interest in queried:
            self.queries.leave(watcher, interest)
        replayed = list(watcher.interests.replays.values())
        for interest in replayed:
            self.replays.leave(watcher, interest)
        plain = (item for item in watcher.interests if item.query is None)
        others = [item for item in plain if item.replay is None]
        left = self.removals.add(watcher, others)
        for interest in watcher.interests:
            name = _named(interest.topics)
            if name:
                self._forget(name, watcher, interest.topics.text)
            if interest.rows is not None and interest.rows.source is not None:
                self.bus.remove(interest.rows.source, watcher)
        return [*left, *queried, *replayed]

    def _forget(self, name: str, watcher: Watcher, text: str) -> None:
        watchers = self._watchers.get(name, {})
        texts = watchers.get(watcher, set())
        texts.discard(text)
        if not texts:
            watchers.pop(watcher, None)
        if not watchers:
            self._watchers.pop(name, None)

    def _begin(self, watcher: Watcher, interest: SubscribedFilter) -> None:
        rows = interest.rows = self.rows(interest.topics)
        if rows is not None and rows.source is not None:
            self.bus.add(rows.source, watcher)

    def _end(self, watcher: Watcher, interest: SubscribedFilter) -> None:
        """Remove the source filter of rows from the bus, unless another interest needs it."""
        rows = interest.rows
        if rows is None or rows.source is None:
            return
        known = watcher.interests
        if rows.source.text not in known and not self._needed(watcher, rows.source, interest):
            self.bus.remove(rows.source, watcher)

    @staticmethod
    def _needed(watcher: Watcher, source: TopicFilter, without: SubscribedFilter) -> bool:
        """Whether another interest in rows needs this filter on the bus."""
        known = watcher.interests
        others = (known[text] for text in known.rows if text != without.topics.text)
        return any(item.rows is not None and item.rows.source == source for item in others)


def _named(topics: TopicFilter) -> str:
    """Return the table's name in a filter; empty if there is none."""
    text = topics.text
    if text[:_PREFIX_CHARS] != PREFIX or len(topics.levels) < 2:
        return ""
    return topics.levels[0]
