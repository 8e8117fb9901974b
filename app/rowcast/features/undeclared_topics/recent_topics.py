"""Topics that were written to, the longest unheard of first: rows of ``$SYS/topics`` (F7).

A topic is noted where its route is made, so that the writes after it cost one look at a flag. The
registry forgets its routes all together when they are too many (``Registry.route``); topics in use
are then noted again, and so it is the others that make room here. It is in memory only.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from rowcast.core.limits import TOPIC_CACHED_BYTES_MAX
from rowcast.core.queries import Query
from rowcast.core.topic_limits import SEEN_TOPICS_MAX
from rowcast.core.topic_tables import branch_of
from rowcast.features.undeclared_topics.topic_tables import TopicTables
from rowcast.kernel.registry import Registry, Route
from rowcast.kernel.rows.system_rows import SystemRows

PATH: Final = "$SYS/topics"


class Stats(Protocol):
    """Who counts what is written to topics."""

    def topics(self) -> Sequence[str]:
        """Return the busiest, few enough to be sorted."""

    def row(self, topic: str) -> dict[str, object]:
        """Return what is counted of a topic; nothing if it is not among them."""


class SeenTopics:
    """The topics that were written to lately."""

    def __init__(self, registry: Registry, tables: TopicTables | None) -> None:
        self._registry = registry
        self._tables = tables
        self._topics: dict[str, None] = {}
        self.stats: Stats | None = None
        """What is counted of the busiest of them."""
        registry.add(PATH, _rows(self))
        registry.on_first_write = self.note

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, topic: object) -> bool:
        return topic in self._topics

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def note(self, route: Route) -> None:
        """Note the first write at a topic since its route was made."""
        topic = route.topic
        if topic[0] == "$" or len(topic) > TOPIC_CACHED_BYTES_MAX:
            return
        self._topics.pop(topic, None)
        self._topics[topic] = None
        if len(self._topics) > SEEN_TOPICS_MAX:
            del self._topics[next(iter(self._topics))]

    def table(self, topic: str) -> str | None:
        """Return the name of the table that has a topic's messages, if any."""
        declared = self._registry.route(topic).table
        if declared is not None:
            return declared.name
        entry = self._tables.of(branch_of(topic)) if self._tables is not None else None
        return entry.table.name if entry is not None else None


def _rows(seen: SeenTopics) -> type[SystemRows]:
    class TopicRows(SystemRows):
        """One row for each topic."""

        path = PATH
        _busiest = False

        def names(self) -> Sequence[str]:
            return seen.stats.topics() if self._busiest and seen.stats is not None else list(seen)

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
            counted = seen.stats.row(name) if seen.stats is not None else {}
            if name not in seen and not counted:
                return None
            return {"topic": name, "table": seen.table(name), **counted}

        async def _listed(self, query: Query) -> list[object]:
            """Return a page; what is to be sorted are the busiest, those that are counted."""
            self._busiest = bool(query.sort)
            return await super()._listed(query)

    return TopicRows
