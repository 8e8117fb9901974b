"""The feature: keeps copies of declared tables in PostgreSQL (K16)."""

from collections.abc import Sequence

from rowcast.bus.subscriber import Subscriber
from rowcast.core.events import Event
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.mirror.database import MirrorDatabase
from rowcast.features.mirror.mirror import Mirror, check_tables
from rowcast.features.mirror.settings import MirrorSection
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel
from rowcast.routes.figure_rows import listed_rows

PATH = "$SYS/mirror"


class MirrorOfTables(Feature):
    """The mirror of a server."""

    def __init__(self, tables: Sequence[Table], settings: MirrorSection) -> None:
        self._tables = [table for table in tables if table.path is not None]
        check_tables(self._tables)
        self._database = MirrorDatabase(settings.address, settings.db_schema, self._tables)
        self._background = Background()
        self._wakes: list[tuple[TopicFilter, _Wake]] = []

    def install(self, kernel: Kernel) -> None:
        """Tell how far it is."""
        self._kernel = kernel
        self.mirror = mirror = Mirror(kernel, self._tables, self._database)
        kernel.rows(PATH, listed_rows(PATH, lambda: {"postgresql": mirror.row()}))
        kernel.figures["mirror/behind"] = lambda: mirror.lag
        kernel.figures["mirror/events"] = lambda: mirror.events

    async def start(self) -> None:
        """Follow the log."""
        for table in self._tables:
            wake, topics = _Wake(self.mirror), TopicFilter.below(table.path or "")
            self._kernel.bus.add(topics, wake)
            self._wakes.append((topics, wake))
        self._background.run(self.mirror.run())

    async def stop(self) -> None:
        """Stop; the next start goes on where the database is."""
        await self._background.stop()
        for topics, wake in self._wakes:
            self._kernel.bus.remove(topics, wake)
        await self.mirror.stop()


class _Wake(Subscriber):
    """Tells the mirror what is written to a table."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def offer(self, event: Event) -> None:
        """Note that there is something in the log."""
        self._mirror.offer(event)

    def fall_behind(self, event: Event) -> None:
        """Note that there is a result in the log."""
        self._mirror.fall_behind(event)
