"""Rows of ``$SYS/slow_subscriptions``: who is given messages late, the latest first (O7).

GET    $SYS/slow_subscriptions/                      the list
GET    $SYS/slow_subscriptions/<client id>/<topic>   one of them; SSE, WebSocket: <door>/<user>
DELETE the same                                      forget one, or all
"""

from collections.abc import Sequence

from rowcast.core.errors import Code, Error
from rowcast.features.slow_subscribers.slow_subscribers import SlowSubscriptions
from rowcast.routes.system_rows import SystemRows, time_text

PATH = "$SYS/slow_subscriptions"


def slow_rows(slow: SlowSubscriptions) -> type[SystemRows]:
    """Return the resource class that reads the list, and forgets what is in it."""

    class SlowRows(SystemRows):
        """One row for each reader and topic."""

        path = PATH

        def names(self) -> Sequence[str]:
            return slow.names()

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
            entry = slow.entry(name)
            if entry is None:
                return None
            caller, settings = entry.caller, slow.settings
            return {
                "client_id": caller.client_id or None,
                "user": caller.user,
                "peer": caller.peer,
                "door": caller.door,
                "topic": entry.topic,
                "filter": entry.filter or None,
                "qos": entry.qos,
                "measure": settings.measure.value,
                "latency_ms": round(entry.seconds * 1000),
                "worst_ms": round(entry.worst * 1000),
                "threshold_ms": settings.threshold_ms,
                "count": entry.count,
                "first_at": time_text(entry.first),
                "last_at": time_text(entry.last),
                "expires_at": time_text(entry.last + settings.expire_seconds),
            }

        async def delete(self) -> None:
            """Forget a row, or all of them."""
            if not slow.forget(self.id) and self.id:
                raise Error(Code.NOT_FOUND, f"{self.id!r} is not in the list of slow subscriptions")

    return SlowRows
