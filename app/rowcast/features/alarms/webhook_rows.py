"""Rows of ``$SYS/alarm_deliveries``: notifications of webhooks that wait, and dead letters.

PATCH  $SYS/alarm_deliveries/<id> {"state": "waiting"}      sends a dead letter again
DELETE $SYS/alarm_deliveries/<id>                           discards one
"""

from collections.abc import Sequence
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.features.alarms.webhooks import Webhooks
from rowcast.routes.system_rows import SystemRows

DELIVERIES: Final = "$SYS/alarm_deliveries"


def webhook_rows(webhooks: Webhooks) -> type[SystemRows]:
    """Return the resource class of notifications."""

    class DeliveryRows(SystemRows):
        """One row for each notification that was not accepted."""

        path = DELIVERIES
        followed = None
        members = ("id", "webhook", "state", "attempts", "problem", "created", "body")

        def names(self) -> Sequence[str]:
            return webhooks.names()

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
            call = webhooks.get(name)
            return None if call is None else call.row()

        async def patch(self, value: object) -> None:
            """Send a dead letter again."""
            if value != {"state": "waiting"}:
                raise Error(Code.UNPROCESSABLE, 'a dead letter is sent with {"state": "waiting"}')
            webhooks.again(self.id)
            await self.durable()

        async def delete(self) -> None:
            """Discard a notification."""
            webhooks.discard(self.id)
            await self.durable()

    return DeliveryRows
