"""The feature: live queries on every door (M3)."""

from rowcast.features.live_queries.live_queries import LiveQueries
from rowcast.features.live_queries.settings import LiveQuerySection
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class LiveQueriesOfTables(Feature):
    """Subscriptions to the records of a table that satisfy conditions."""

    def __init__(self, settings: LiveQuerySection | None = None) -> None:
        self._settings = settings or LiveQuerySection()

    def install(self, kernel: Kernel) -> None:
        """Take filters with conditions from now on."""
        self.queries = LiveQueries(kernel, self._settings.max_per_user)
        kernel.views.queries = self.queries
