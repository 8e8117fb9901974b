"""Rows of ``$SYS/replays``: the shared replays, which any door makes and changes (M6).

Who may write anything makes one, because it shows nobody more than they may read; it is changed by
the user who made it, and by administrators.

PUT    $SYS/replays/tour {"filter": "Sensor/#", "from": "2026-01-02T03:00:00Z", "speed": 10}
PATCH  $SYS/replays/tour {"state": "paused"}
PATCH  $SYS/replays/tour {"at": "2026-01-02T03:12:00Z", "speed": 1}
DELETE $SYS/replays/tour
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Final

from rowcast.core.clock import seconds_of
from rowcast.core.topics import REPLAYS
from rowcast.features.replay.shared import SharedReplay, SharedReplays
from rowcast.routes.system_rows import SystemRows, time_text

PATH: Final = REPLAYS


class ReplayRows(SystemRows):
    """One row for each shared replay; ``replay_rows`` binds it to those of one server."""

    path = PATH
    shared: SharedReplays
    cursor: Callable[[int], str]
    changed: Callable[[str], None]

    def names(self) -> Sequence[str]:
        """Return the ids."""
        return list(self.shared.rows)

    def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002 - short
        """Return one row."""
        found = self.shared.get(name)
        return None if found is None else _row(found, self.cursor)

    async def put(self, value: object) -> None:
        """Make a shared replay, or replace one."""
        self._check_owner()
        await self.shared.put(self.id, value, self.caller)
        self.changed(self.id)

    async def post(self, value: object) -> str:
        """Make a shared replay under a new id; return the id."""
        name = f"r{secrets.token_hex(6)}"
        await self.shared.put(name, value, self.caller)
        self.changed(name)
        return name

    async def patch(self, value: object) -> None:
        """Pause, go on, seek, or change the speed."""
        self._check_owner()
        await self.shared.patch(self.id, value)
        self.changed(self.id)

    async def delete(self) -> None:
        """Remove a shared replay; it ends for its subscribers."""
        self._check_owner()
        self.shared.remove(self.id)
        self.changed(self.id)

    def _check_owner(self) -> None:
        """Raise DENIED for another user's replay, unless the caller may administer."""
        found = self.shared.get(self.id)
        if found is not None and found.owner != self.caller.user:
            self.kernel.rights.check_administer(self.topic, self.caller)


def replay_rows(
    shared: SharedReplays, cursor: Callable[[int], str], changed: Callable[[str], None]
) -> type[SystemRows]:
    """Return the resource class that lists, makes and changes shared replays."""
    bound = {
        "shared": shared,
        "cursor": staticmethod(cursor),
        "changed": staticmethod(changed),
    }
    return type("ReplayRows", (ReplayRows,), bound)


def _row(shared: SharedReplay, cursor: Callable[[int], str]) -> dict[str, object]:
    """Return a row; ``at`` is the moment that is being played."""
    at, target = shared.playhead.at, shared.target
    known = None if at is None else time_text(seconds_of(at))
    return {
        "id": shared.name,
        "filter": shared.topics.text,
        "from": shared.start,
        "to": shared.end,
        "end": cursor(shared.until),
        "speed": shared.playhead.speed,
        "state": "playing" if shared.playhead.playing else "paused",
        "at": known or (str(target.cursor) if target.cursor else None),
        "subscribers": len(shared.feeds),
        "owner": shared.owner,
    }
