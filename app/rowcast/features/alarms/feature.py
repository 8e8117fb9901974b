"""The feature: alarms of records, their rows, topics and webhooks."""

from collections.abc import Mapping, Sequence
from functools import partial

from rowcast.core.alarms import ALARM_ROWS
from rowcast.core.tables import Table
from rowcast.features.alarms.alarm_rows import alarm_rows
from rowcast.features.alarms.alarm_states import AlarmStates
from rowcast.features.alarms.alarms import OWNER, Alarms
from rowcast.features.alarms.settings import AlarmSection, check_webhooks
from rowcast.features.alarms.webhook_rows import DELIVERIES, webhook_rows
from rowcast.features.alarms.webhooks import Webhook, Webhooks
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel
from rowcast.net.webhook_call import call, in_thread
from rowcast.seams.seams import Facts


class RecordAlarms(Feature):
    """The alarms of a server; raises INVALID for an alarm with an unknown webhook."""

    def __init__(self, tables: Sequence[Table], settings: AlarmSection) -> None:
        self._receivers: Mapping[str, Webhook] = settings.receivers
        check_webhooks(tables, self._receivers)
        self._states = AlarmStates(tables, settings.cleared_seconds)
        self._background = Background()

    def install(self, kernel: Kernel) -> None:
        """Add the rows, and have the stored states restored."""

        def changed(name: str, happened: str = "") -> None:
            notify(name, happened)

        self.webhooks = Webhooks(self._receivers, self._post, kernel.now, kernel.committer)
        self.alarms = Alarms(kernel, self._states, self.webhooks, changed)
        notify = kernel.rows(ALARM_ROWS, alarm_rows(self.alarms))
        self.webhooks.changed = kernel.rows(DELIVERIES, webhook_rows(self.webhooks))
        kernel.facts(OWNER, self._restore)
        kernel.figures["alarms/count"] = lambda: len(self._states)
        kernel.figures["alarms/overflow"] = lambda: self._states.overflow
        kernel.figures["alarms/webhooks/waiting"] = lambda: self.webhooks.waiting
        kernel.figures["alarms/webhooks/dead"] = lambda: self.webhooks.dead

    def _restore(self, facts: Facts) -> None:
        self.alarms.restore(facts)
        self.webhooks.restore(facts)

    async def start(self) -> None:
        """Compute the states, and send what waits."""
        await self.alarms.start()
        for name in self._receivers:
            self._background.run(self.webhooks.send(name))

    @staticmethod
    async def _post(url: str, headers: Mapping[str, str], body: bytes) -> None:
        await in_thread(partial(call, url, headers, body))

    async def stop(self) -> None:
        """Stop; what waits is sent after the next start."""
        self.alarms.stop()
        await self.alarms.behind.stop()
        await self._background.stop()
