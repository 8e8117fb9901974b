"""Topics that were written to, the longest unheard of first: rows of ``$SYS/topics`` (F7).

A topic is noted with the first write after its route is made; those after that cost nothing. The
registry forgets its routes all together when they are too many (``Registry.route``); topics in use
are then noted again, and so it is the others that make room here. It is in memory only.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rowcast.core.bounded import BoundedCache
from rowcast.core.limits import TOPIC_CACHED_BYTES_MAX
from rowcast.core.queries import Query
from rowcast.core.topic_tables import branch_of
from rowcast.core.undeclared_topic_limits import SEEN_TOPICS_MAX
from rowcast.features.undeclared_topics.topic_tables import TopicTables
from rowcast.routes.registry import Registry, Route
from rowcast.routes.system_rows import SystemRows
from rowcast.seams.seams import TopicFacts
from rowcast.writes.write import Step, Write

PATH: Final = "$SYS/topics"


class SeenTopics:
    """The topics that were written to lately."""

    def __init__(
        self,
        registry: Registry,
        tables: TopicTables,
        facts: Sequence[TopicFacts] = (),
        topics_max: int = SEEN_TOPICS_MAX,
    ) -> None:
        self._registry = registry
        self._tables = tables
        self._first_step: Step = self._first  # one for all routes
        self._topics: BoundedCache[str, None] = BoundedCache(topics_max)
        self.facts = facts
        """What features know of some of them, such as how much is written there."""

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, topic: object) -> bool:
        return topic in self._topics

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def step(self, _route: Route) -> Step:
        """Return the step that notes the first write since a route was made, and no other."""
        return self._first_step

    def _first(self, write: Write) -> None:
        self._note(write.event.topic)
        route = self._registry.known.get(write.event.topic)
        if route is not None and route.steps and route.steps[-1] is self._first_step:
            route.steps, route.message_steps = route.steps[:-1], route.message_steps[:-1]

    def _note(self, topic: str) -> None:
        if topic[0] != "$" and len(topic) <= TOPIC_CACHED_BYTES_MAX:
            self._topics.put(topic, None)

    def table(self, topic: str) -> str | None:
        """Return the name of the table that has a topic's messages, if any."""
        declared = self._registry.route(topic).table
        if declared is not None:
            return declared.name
        entry = self._tables.of(branch_of(topic))
        return entry.table.name if entry is not None else None


def topic_rows(seen: SeenTopics) -> type[SystemRows]:
    """Return the resource class that lists the topics."""

    class TopicRows(SystemRows):
        """One row for each topic."""

        path = PATH
        _busiest = False

        def names(self) -> Sequence[str]:
            if self._busiest and seen.facts:
                return list(dict.fromkeys(topic for of in seen.facts for topic in of.topics()))
            return list(seen)

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
            known: dict[str, object] = {}
            for facts in seen.facts:
                known |= facts.row(name)
            if name not in seen and not known:
                return None
            return {"topic": name, "table": seen.table(name), **known}

        async def _listed(self, query: Query) -> list[object]:
            """Return a page; what is to be sorted are the busiest, those that are counted."""
            self._busiest = bool(query.sort)
            return await super()._listed(query)

    return TopicRows
