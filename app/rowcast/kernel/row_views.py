"""Views: which topic tables there are to be read, and who watches their rows.

A filter whose first level names a topic table, ``mqtt_home/#``, selects that table's rows; the bus
then offers what they are about. Tables come and go while subscriptions last: a filter that names
a table that is not there selects topics of that name, as it always would, and rows from the moment
when the table is there. So nobody has to wait for the first message to subscribe to its row.

All of it happens on the loop. It knows no store: what was said before is in ``row_reads.py``.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from rowcast.bus.bus import Bus, Subscriber
from rowcast.core.topic_tables import METRICS, PREFIX, TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.kernel.registry import Registry, Route
from rowcast.kernel.write import Step
from rowcast.rows.topic_rows import LogView, MetricsView, RowFilter, View
from rowcast.store.store import Keep
from rowcast.subscriptions.subscribed_filters import SubscribedFilter, SubscribedFilters

_PREFIX_CHARS: Final = len(PREFIX)


class Watcher(Subscriber, Protocol):
    """A subscription, as far as it is concerned here."""

    interests: SubscribedFilters

    def changed(self, interest: SubscribedFilter, rows: RowFilter | None) -> None:
        """Hear that a filter begins to select rows, or does no more."""


class TopicTables(Protocol):
    """Who makes tables for undeclared topics and ends them, as far as the kernel needs it."""

    def show_in(self, views: "Views", /) -> None:
        """Define a view for each table, now and later, and drop it when the table is gone."""

    def step(self, route: Route, /) -> Step | None:
        """Return the step that makes the tables of undeclared topics and logs what is written."""

    def keeps(self) -> Iterable[tuple[TopicRoot, Keep]]:
        """Return how much history each table keeps."""

    def subscribed(self, owner: object, topics: TopicFilter, text: str = "") -> None:
        """Note that a client has a filter, for which it may have asked by another text."""

    def unsubscribed(self, owner: object, text: str) -> None:
        """Note that a client has a filter no more."""

    def gone(self, owner: object) -> None:
        """Note that a client is gone for good, and with it all its filters."""

    async def clean(self) -> int:
        """Drop the tables that are over; return how many."""

    async def stop(self) -> None:
        """Drop no more."""


class Views:
    """The topic tables that can be read, by name, and the filters that name one."""

    def __init__(self, bus: Bus, registry: Registry, tables: TopicTables | None = None) -> None:
        self.bus = bus
        self._registry = registry
        self._views: dict[str, View] = {}
        self._watchers: dict[str, dict[Watcher, set[str]]] = {}
        """By the name in their filters: whether there is such a table or not."""
        if not registry.has(METRICS):
            view = self._views[METRICS] = MetricsView()
            registry.show(view)
        if tables is not None:
            tables.show_in(self)

    def get(self, name: str) -> View | None:
        """Return the view of a table's name; None if that is no topic table."""
        return self._views.get(name)

    def rows(self, topics: TopicFilter) -> RowFilter | None:
        """Return what a filter selects of a topic table's rows; None if it names no such table."""
        name = _named(topics)
        view = self._views.get(name) if name else None
        return RowFilter(view, topics) if view is not None else None

    # -- tables come and go ------------------------------------------------------------------------

    def define(self, table: TopicTable) -> None:
        """Begin a view, before anything is announced that it shows; not where one is declared."""
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
        """End a view: its table is gone."""
        if name == METRICS or self._views.pop(name, None) is None:
            return
        self._registry.hide(name)
        for watcher, texts in self._watchers.get(name, {}).items():
            for text in texts:
                interest = watcher.interests[text]
                self._end(watcher, interest)
                watcher.changed(interest, None)

    # -- who watches -------------------------------------------------------------------------------

    def enter(self, watcher: Watcher, interest: SubscribedFilter) -> None:
        """Put an interest on the bus, under what it selects."""
        self.bus.add(interest.topics, watcher)
        name = _named(interest.topics)
        if name:
            texts = self._watchers.setdefault(name, {}).setdefault(watcher, set())
            texts.add(interest.topics.text)
            self._begin(watcher, interest)

    def leave(self, watcher: Watcher, topics: TopicFilter) -> None:
        """Take an interest off the bus; what other interests have there stays."""
        if topics.text not in watcher.interests:
            return
        interest = watcher.interests[topics.text]
        name = _named(topics)
        if name:
            self._forget(name, watcher, topics.text)
            self._end(watcher, interest)
        if not watcher.interests.rows or not self._needed(watcher, topics, interest):
            self.bus.remove(topics, watcher)

    def leave_all(self, watcher: Watcher) -> list[SubscribedFilter]:
        """Take all interests of a subscription that ends off the bus; return those that were on."""
        left = [item for item in watcher.interests if self.bus.remove(item.topics, watcher)]
        for interest in watcher.interests:
            name = _named(interest.topics)
            if name:
                self._forget(name, watcher, interest.topics.text)
            if interest.rows is not None and interest.rows.source is not None:
                self.bus.remove(interest.rows.source, watcher)
        return left

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
        """Take off the bus what the rows were about, unless another filter wants that."""
        rows = interest.rows
        if rows is None or rows.source is None:
            return
        known = watcher.interests
        if rows.source.text not in known and not self._needed(watcher, rows.source, interest):
            self.bus.remove(rows.source, watcher)

    @staticmethod
    def _needed(watcher: Watcher, source: TopicFilter, without: SubscribedFilter) -> bool:
        """Tell whether another interest in rows has the bus offer this filter."""
        known = watcher.interests
        others = (known[text] for text in known.rows if text != without.topics.text)
        return any(item.rows is not None and item.rows.source == source for item in others)


def _named(topics: TopicFilter) -> str:
    """Return the table that a filter may name; empty if it names none."""
    text = topics.text
    if text[:_PREFIX_CHARS] != PREFIX or len(topics.levels) < 2:
        return ""
    return topics.levels[0]
