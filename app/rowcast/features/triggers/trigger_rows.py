"""Rows of triggers, and of events for which all calls failed.

GET    $SYS/triggers/                                       what each does, and how far it is
PATCH  $SYS/trigger_failures/<id> {"state": "waiting"}      calls again for a failed event
DELETE $SYS/trigger_failures/<id>                           discards one
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.features.triggers.dead_events import DeadEvents
from rowcast.routes.system_rows import SystemRows

TRIGGERS: Final = "$SYS/triggers"
FAILURES: Final = "$SYS/trigger_failures"


def failure_rows(
    dead: DeadEvents, again: Callable[[str], Awaitable[None]], cursor: Callable[[int], str]
) -> type[SystemRows]:
    """Return the resource class of failed events; ``again`` has one called again."""

    class FailureRows(SystemRows):
        """One row for each event for which all calls failed."""

        path = FAILURES
        followed = None
        members = ("id", "trigger", "topic", "seq", "attempts", "problem", "at")

        def names(self) -> Sequence[str]:
            return dead.names()

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
            return None if (found := dead.get(name)) is None else found.row(cursor)

        async def patch(self, value: object) -> None:
            """Have a trigger called again."""
            if value != {"state": "waiting"}:
                raise Error(Code.UNPROCESSABLE, 'call again with {"state": "waiting"}')
            await again(self.id)
            await self.durable()

        async def delete(self) -> None:
            """Discard a failed event."""
            dead.discard(self.id)
            await self.durable()

    return FailureRows
