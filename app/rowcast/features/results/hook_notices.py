"""Notices to hooks about the rows of staged results, sent once the result is visible.

Listeners are notified of a small result in the turn in which it is answered. The rows of a staged
one are read from the log, a page at a time, as fast as the slowest listener takes them. The
position is stored as a fact, and a restart continues there: a listener is notified of each row, of
those of one page maybe twice, unless retention has removed them before.
"""

import asyncio
import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from rowcast.core.callers import Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.result_limits import RESULT_NOTICE_ROWS, RESULTS_PENDING_NOTICES_MAX
from rowcast.store.store import Change

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.results")

OWNER: Final = "results-untold"
RETRY_SECONDS: Final = 1.0
"""Until rows are read again that the store could not read."""
_NAMED: Final = ("user", "door", "client_id", "peer", "issuer")


@dataclass(slots=True)
class PendingNotice:
    """The rows of one result that hooks have not been notified of: those after a number."""

    tables: tuple[str, ...]
    after: int
    last: int
    caller: Caller

    @property
    def name(self) -> str:
        """The name of its fact: no two results have the same last number."""
        return str(self.last)

    def fact(self) -> Change:
        """Return what is stored of it; nothing once hooks were notified of all."""
        if self.after >= self.last:
            return Change(OWNER, self.name, None)
        caller = {name: getattr(self.caller, name) for name in _NAMED}
        kept = {
            "tables": self.tables,
            "after": self.after,
            "caller": caller,
            "grants": asdict(self.caller.grants),
            "roles": sorted(self.caller.roles),
            "claims": dict(self.caller.claims),
        }
        return Change(OWNER, self.name, json.dumps(kept, default=str).encode())

    @classmethod
    def of(cls, name: str, value: bytes) -> "PendingNotice":
        """Return what a fact says."""
        kept = json.loads(value)
        caller = Caller(
            grants=Grants(**kept["grants"]),
            roles=frozenset(kept["roles"]),
            claims=kept["claims"],
            **kept["caller"],
        )
        tables = kept.get("tables") or (kept["table"],)  # earlier versions knew one
        return cls(tuple(tables), kept["after"], int(name), caller)


class HookNotices:
    """Notifies the hooks of one kernel, one result after another."""

    def __init__(self, kernel: "Kernel", retry_seconds: float = RETRY_SECONDS) -> None:
        self._kernel = kernel
        self._retry_seconds = retry_seconds
        self._pending: list[PendingNotice] = []
        self._woken = asyncio.Event()

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Restore the pending notices of an earlier run of the server."""
        found = [PendingNotice.of(name, value) for _, name, value in facts]
        self._pending = sorted(found, key=lambda item: item.last)

    def check(self) -> None:
        """Raise BUSY while listeners are far behind."""
        if len(self._pending) >= RESULTS_PENDING_NOTICES_MAX:
            raise Error(
                Code.BUSY,
                f"hooks have yet to hear of {RESULTS_PENDING_NOTICES_MAX} large results; try again "
                "when they are done",
                retry_after_seconds=10,
            )

    def add(self, pending: PendingNotice) -> None:
        """Notify of a visible result, whose fact is stored."""
        self._pending.append(pending)
        self._woken.set()

    async def run(self) -> None:
        """Notify until cancelled."""
        while True:
            self._woken.clear()
            while self._pending:
                try:
                    await self._notify(self._pending[0])
                except Error as error:
                    log.warning("hooks are notified of a large result later: %s", error.full)
                    await asyncio.sleep(self._retry_seconds)
                else:
                    del self._pending[0]
            await self._woken.wait()

    async def _notify(self, pending: PendingNotice) -> None:
        kernel = self._kernel
        shapes = kernel.registry.shapes
        sources = [shapes[name].table for name in pending.tables if name in shapes]
        while pending.after < pending.last:
            events: list[Event] = []
            if sources:
                read = await kernel.reader.read(pending.after, RESULT_NOTICE_ROWS, sources)
                events = [event for event in read if event.seq <= pending.last]
            await kernel.gate.notify(pending.caller, events)
            pending.after = events[-1].seq if events else pending.last
            kernel.committer.keep([pending.fact()])
