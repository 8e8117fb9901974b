"""What hooks are still to be told of: the rows of staged results, once everybody sees them.

The rows of a small result are told in the turn in which it is answered. Those of a staged one are
read from the log, a page at a time, as fast as the slowest listener takes them. How far they are
told is a fact, so a restart goes on there: a listener hears of each row, those of one page maybe
twice, unless retention has removed them before.
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
from rowcast.core.result_limits import RESULT_TOLD_ROWS, RESULTS_UNTOLD_MAX
from rowcast.store.store import Change

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.results")

OWNER: Final = "results-untold"
RETRY_SECONDS: Final = 1.0
"""Until rows are read again that the store could not read."""
_NAMED: Final = ("user", "door", "client_id", "peer", "issuer")


@dataclass(slots=True)
class Untold:
    """The rows of one result of which hooks are still to be told: those after a number."""

    tables: tuple[str, ...]
    after: int
    last: int
    caller: Caller

    @property
    def name(self) -> str:
        """The name of its fact: no two results have the same last number."""
        return str(self.last)

    def fact(self) -> Change:
        """Return what is kept of it; nothing once all is told."""
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
    def of(cls, name: str, value: bytes) -> "Untold":
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


class Tellings:
    """Tells the hooks of one kernel, one result after another."""

    def __init__(self, kernel: "Kernel", retry_seconds: float = RETRY_SECONDS) -> None:
        self._kernel = kernel
        self._retry_seconds = retry_seconds
        self._untold: list[Untold] = []
        self._woken = asyncio.Event()

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Restore what an earlier run of the server has not told."""
        found = [Untold.of(name, value) for _, name, value in facts]
        self._untold = sorted(found, key=lambda item: item.last)

    def check(self) -> None:
        """Raise BUSY while listeners are far behind."""
        if len(self._untold) >= RESULTS_UNTOLD_MAX:
            raise Error(
                Code.BUSY,
                f"hooks are still to be told of {RESULTS_UNTOLD_MAX} large results; try again when "
                "they are done",
                retry_after_seconds=10,
            )

    def add(self, untold: Untold) -> None:
        """Tell of a result that all see, whose fact is stored."""
        self._untold.append(untold)
        self._woken.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            self._woken.clear()
            while self._untold:
                try:
                    await self._notify(self._untold[0])
                except Error as error:
                    log.warning("hooks are told of a large result later: %s", error.full)
                    await asyncio.sleep(self._retry_seconds)
                else:
                    del self._untold[0]
            await self._woken.wait()

    async def _notify(self, untold: Untold) -> None:
        kernel = self._kernel
        shapes = kernel.registry.shapes
        sources = [shapes[name].table for name in untold.tables if name in shapes]
        while untold.after < untold.last:
            events: list[Event] = []
            if sources:
                read = await kernel.reader.read(untold.after, RESULT_TOLD_ROWS, sources)
                events = [event for event in read if event.seq <= untold.last]
            await kernel.gate.tell(untold.caller, events)
            untold.after = events[-1].seq if events else untold.last
            kernel.committer.keep([untold.fact()])
