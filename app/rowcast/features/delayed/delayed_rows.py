"""Rows of ``$SYS/delayed``: waiting writes, which can be cancelled or rescheduled (D52)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, cast

from rowcast.core.errors import Code, Error
from rowcast.core.scalars import Mismatch, to_date
from rowcast.features.delayed.delayed import Delayed, Facts, Waiting
from rowcast.routes.system_rows import SystemRows, time_text

PATH: Final = "$SYS/delayed"
_TOLD: Final = ("topic", "kind", "qos", "retain", "user", "client")
"""What a row tells of a waiting write as it was sent."""


def delayed_rows(delayed: Delayed) -> type[SystemRows]:
    """Return the resource class that lists, cancels and reschedules waiting writes."""

    class DelayedRows(SystemRows):
        """One row for each delayed write."""

        path = PATH
        followed = None
        members = ("id", "due", *_TOLD, "content_type", "payload_bytes")

        def names(self) -> Sequence[str]:
            return delayed.names()

        def row(self, name: str, *, whole: bool) -> Facts | None:  # noqa: ARG002 - it is short
            waiting = delayed.get(name)
            return None if waiting is None else _row(waiting)

        async def patch(self, value: object) -> None:
            """Reschedule a write."""
            if not delayed.move(self.id, _due_of(value)):
                raise Error(Code.NOT_FOUND, f"nothing delayed waits as {self.id!r}")
            await self.durable()

        async def delete(self) -> None:
            """Cancel a write."""
            if not delayed.cancel(self.id):
                raise Error(Code.NOT_FOUND, f"nothing delayed waits as {self.id!r}")
            await self.durable()

    return DelayedRows


def _due_of(value: object) -> float:
    """Return the due time in a patch, in seconds since 1970."""
    if not isinstance(value, dict) or set(value) != {"due"}:
        raise Error(
            Code.UNPROCESSABLE,
            'only the time of a delayed write can be changed: {"due": "2026-01-31T12:00:00Z"}',
        )
    try:
        return cast("datetime", to_date(value["due"])).timestamp()
    except Mismatch as mismatch:
        hint = str(mismatch) or 'write it as "2026-01-31T12:00:00Z"'
        raise Error(Code.UNPROCESSABLE, f"due is no time; {hint}") from None


def _row(waiting: Waiting) -> Facts:
    facts = waiting.facts
    payload = cast("bytes", facts["payload"])
    return {
        "id": waiting.id,
        "due": time_text(waiting.due),
        **{name: facts[name] for name in _TOLD},
        "content_type": facts["type"],
        "payload_bytes": len(payload),
    }
