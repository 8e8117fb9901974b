"""The feature: topics that no table declares have a history, in topic tables (F6 to F12, X3 to X7).

Without it, they are routed and keep their retained messages, as with ``topics.undeclared: route``.
"""

from rowcast.core.undeclared_topic_limits import SEEN_TOPICS_MAX
from rowcast.features.undeclared_topics import recent_topics, topic_table_rows
from rowcast.features.undeclared_topics.recent_topics import SeenTopics
from rowcast.features.undeclared_topics.topic_tables import OWNER, TopicSettings, TopicTables
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.seams.seams import Facts
from rowcast.store.store import Maintenance


class UndeclaredTopics(Feature):
    """The topic tables of a store, and the topics that were written to lately.

    ``logged``: every message at an undeclared topic goes into a topic table; otherwise those that
    an earlier run left can be read, and no table is made. ``seen_max`` is the number of topics that
    ``$SYS/topics`` lists.
    """

    def __init__(
        self,
        store: Maintenance,
        settings: TopicSettings,
        *,
        logged: bool,
        seen_max: int = SEEN_TOPICS_MAX,
    ) -> None:
        self._store = store
        self._settings = settings
        self._logged = logged
        self._seen_max = seen_max

    def install(self, kernel: Kernel) -> None:
        """Log what is written, count who subscribes, and show both."""
        self._kernel = kernel
        registry = kernel.registry
        tables = TopicTables(self._store, kernel.committer, registry, self._settings, kernel.now)
        self.tables = tables
        tables.show_in(kernel.views)
        changed = kernel.rows(topic_table_rows.PATH, topic_table_rows.topic_table_rows(tables))
        tables.on_begin.append(lambda table: changed(table.name, "created"))
        tables.on_end.append(lambda name: changed(name, "dropped"))
        seen = SeenTopics(registry, tables, kernel.topic_facts, self._seen_max)
        kernel.rows(recent_topics.PATH, recent_topics.topic_rows(seen))
        kernel.steps.add("recent", seen.step)
        if self._logged:
            registry.log_undeclared()
            kernel.steps.add("topic_table", tables.step)
        kernel.filter_listeners.append(tables)
        kernel.log_parts.append(tables)
        kernel.facts(OWNER, self._restore)

    def _restore(self, facts: Facts) -> None:
        """Take up the tables that are stored, but for the server's own."""
        own = [log.table for log in self._kernel.own_logs]
        stored = [table for table in self._store.topic_tables() if table not in own]
        self.tables.restore(stored, facts)

    async def start(self) -> None:
        """Drop the tables that are over from now on."""
        self.tables.start()

    async def stop(self) -> None:
        """Drop no more."""
        await self.tables.stop()
