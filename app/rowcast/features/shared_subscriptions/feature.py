"""The feature: clients share a subscription, each event of which goes to one of them (D55, X11).

Without it, MQTT refuses ``$share/<name>/<filter>`` and ``$queue/<filter>`` and says so in CONNACK.
"""

from rowcast.features.shared_subscriptions.group_rows import PATH, group_rows
from rowcast.features.shared_subscriptions.group_table import OWNER, Groups
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class SharedSubscriptions(Feature):
    """The shared subscriptions of one server, which doors find as the service ``Groups``."""

    def install(self, kernel: Kernel) -> None:
        """Restore groups before the sessions that are their members, and list them."""
        committer = kernel.committer
        groups = self.groups = Groups(kernel.reader, kernel.views, committer.keep, kernel.durable)
        kernel.provide(groups)
        kernel.facts(OWNER, groups.restore)
        kernel.rows(PATH, group_rows(kernel, groups))

    async def start(self) -> None:
        """Remove the groups whose members were not restored."""
        self.groups.clean()

    async def stop(self) -> None:
        """Assign no more events, and save what changed."""
        self.groups.stop()
