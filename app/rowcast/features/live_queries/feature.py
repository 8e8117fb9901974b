"""The feature: live queries on every door (M3)."""

import asyncio
from collections.abc import Iterable, Sequence

from rowcast.core.facts import Change
from rowcast.core.fingerprint import fingerprint
from rowcast.core.named_queries import NamedQuery
from rowcast.core.query_limits import LIVE_LOOK_SECONDS, WINDOW_SPARE_RECORDS_MIN
from rowcast.features.live_queries.definitions import OWNER, Definitions
from rowcast.features.live_queries.live_queries import LiveQueries
from rowcast.features.live_queries.related_past import Limits
from rowcast.features.live_queries.rights_changes import FINGERPRINT
from rowcast.features.live_queries.rights_changes import OWNER as RIGHTS
from rowcast.features.live_queries.settings import LiveQuerySection
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class LiveQueriesOfTables(Feature):
    """Subscriptions to the records of a table that satisfy conditions.

    At least ``spare_records_min`` records are known behind a window; ``related_limits`` bound what
    conditions on related records cost. Each ``look_seconds`` rows leave that retention removed.
    """

    def __init__(
        self,
        settings: LiveQuerySection | None = None,
        named: Sequence[NamedQuery] = (),
        spare_records_min: int = WINDOW_SPARE_RECORDS_MIN,
        related_limits: Limits | None = None,
        look_seconds: float = LIVE_LOOK_SECONDS,
    ) -> None:
        self._settings = settings or LiveQuerySection()
        self._named = Definitions(named)
        self._spare_records_min = spare_records_min
        self._related_limits = related_limits
        self._look_seconds = look_seconds
        self._rights_changes: list[Change] = []
        """Of this turn of the loop, to be stored at its end: a file may change many users."""

    def install(self, kernel: Kernel) -> None:
        """Take filters with conditions from now on."""
        self._kernel = kernel
        self.queries = LiveQueries(
            kernel,
            self._settings.max_per_user,
            self._named,
            spare_records_min=self._spare_records_min,
            related_limits=self._related_limits,
            look_seconds=self._look_seconds,
        )
        kernel.views.queries = self.queries
        kernel.facts(OWNER, self._restore)
        kernel.facts(RIGHTS, self.queries.rights.restore)
        kernel.facts(FINGERPRINT, self.queries.rights.restore_fingerprint)

    def _restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        kernel = self._kernel
        tables = [shape.table for shape in kernel.registry.shapes.values()]
        self._named.restore(facts, kernel.committer.announced, tables)

    async def start(self) -> None:
        """Store definitions that are new, and changes of rights: since the last run, and later."""
        committer, rights = self._kernel.committer, self.queries.rights
        changes = self._named.changes + rights.compare(self._fingerprint(), committer.announced)
        if changes:
            committer.keep(changes)
        self._kernel.reauthorization.alterations.append(self._note)  # not those of the start itself

    async def stop(self) -> None:
        """Store what is not stored yet."""
        self._store()

    def _fingerprint(self) -> str:
        return fingerprint([known() for known in self._kernel.reauthorization.rights_in_force])

    def _note(self, user: str) -> None:
        if not self._rights_changes:
            asyncio.get_running_loop().call_soon(self._store)
        announced = self._kernel.committer.announced
        self._rights_changes += self.queries.rights.note(user, announced)

    def _store(self) -> None:
        if self._rights_changes:
            changes = self._rights_changes + self.queries.rights.renew(self._fingerprint())
            self._rights_changes = []
            self._kernel.committer.keep(changes)
