"""The feature: topics that are kept equal at several sites, with the writes that lost (K3).

Bridges carry the writes (``features/bridges/``), and ``late_writes`` decides which wins. This
feature notes on each write of a synced topic which writes of other sites it had seen, and makes a
row of each one that loses against a write that had not seen it.
"""

from collections.abc import Sequence

from rowcast.core.events import RETAINED
from rowcast.core.topics import TopicFilter
from rowcast.features.sites.conflict_rows import PATH, conflict_rows
from rowcast.features.sites.conflicts import CONFLICTS_MAX, OWNER, Conflicts
from rowcast.features.sites.meeting import Meeting, note_seen
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.routes.registry import Route
from rowcast.writes.known_versions import SEEN
from rowcast.writes.write import Step, Write


class Sites(Feature):
    """The synced topics of one server; installed after ``late_writes`` and ``idempotency``.

    ``topics`` are those of the configuration, which each node of a cluster must know.
    ``conflicts_max`` are the rows that are kept.
    """

    def __init__(
        self, topics: Sequence[TopicFilter] = (), conflicts_max: int = CONFLICTS_MAX
    ) -> None:
        self._topics = topics
        self._conflicts_max = conflicts_max

    def install(self, kernel: Kernel) -> None:
        """Add the steps of writes at synced topics, and the rows of conflicts."""
        keep = kernel.committer.keep
        found = Conflicts(kernel.transcoder, kernel.now, keep, self._conflicts_max)
        self.conflicts, self._synced = found, kernel.synced
        for topics in self._topics:
            kernel.synced.add(topics)
        kernel.synced.on_change.append(kernel.steps.changed)
        kernel.steps.on_property(SEEN, self._meet)
        kernel.steps.add("backlog", self._step, messages=False)
        kernel.facts(OWNER, found.restore)
        kernel.figures["conflicts/count"] = lambda: len(found.names)
        kernel.figures["conflicts/seen"] = lambda: found.seen
        found.on_change = kernel.rows(PATH, conflict_rows(found, kernel.registry))

    def _meet(self, write: Write) -> None:
        """Compare a write from another site with the last one here."""
        event = write.event
        if write.versioned and event.kind in RETAINED and self._synced.has(event.topic):
            Meeting(write, self.conflicts.pack, self.conflicts.add)

    def _step(self, _route: Route) -> Step | None:
        return self._note if self._synced else None

    def _note(self, write: Write) -> None:
        """Note what a write of this site has seen."""
        event = write.event
        if event.kind not in RETAINED or not self._synced.has(event.topic):
            return
        if event.properties is None or SEEN not in event.properties:
            write.decide(note_seen)
            write.follows = True
