"""The two summaries for operators: backlogs, and dead letters (H16).

``$SYS/outbox_summary`` and ``$SYS/dead_letter_summary`` have a row for each bridge, under the names
of the extension's views. The first is part of the bridge's own row; the second is counted on
request, because dead letters are records, which expire.
"""

from typing import TYPE_CHECKING, Final

from rowcast.core.conditions import holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import answer, project
from rowcast.core.queries import Query
from rowcast.features.bridges.dead_letters import Facts
from rowcast.features.bridges.rows import dead_letters
from rowcast.routes.resource import Resource

if TYPE_CHECKING:
    from rowcast.features.bridges.gateway import Gateway

OUTBOX: Final = "$SYS/outbox_summary"
DEAD_LETTERS: Final = "$SYS/dead_letter_summary"


def summaries(gateway: "Gateway") -> tuple[type[Resource], ...]:
    """Return the resource classes of both."""

    class Summary(Resource):
        """A row for each bridge, built on request."""

        async def get(self, query: Query | None = None) -> object:
            """Return one bridge's row, or those that match a query."""
            self.kernel.authorise_read(self.topic, self.caller)
            query = query or Query()
            if self.id:
                row = await self.row(self.id)
                return None if row is None else project(query.select, row, self.id)
            if query.after is not None:
                raise Error(Code.INVALID, "these rows have no page tokens; use limit(from,to)")
            rows = [(name, await self.row(name) or {}) for name in gateway.bridges]
            found = [(name, row) for name, row in rows if holds(query.where, row, name)]
            return [project(query.select, row, name) for name, row in answer(query, found).rows]

        async def row(self, name: str) -> Facts | None:
            """Return the row of a bridge; None if it does not exist."""
            raise NotImplementedError

    class OutboxSummary(Summary):
        """The backlog of each bridge."""

        path = OUTBOX

        async def row(self, name: str) -> Facts | None:
            """Return the backlog of one bridge."""
            status = gateway.status(name)
            outbox = status["outbox"] if status is not None else None
            return {"broker_name": name, **outbox} if isinstance(outbox, dict) else None

    class DeadLetterSummary(Summary):
        """The dead letters of each bridge."""

        path = DEAD_LETTERS

        async def row(self, name: str) -> Facts | None:
            """Return the count, times and last reason of one bridge's dead letters."""
            if name not in gateway.bridges:
                return None
            tally = _Tally()
            async for _, facts in dead_letters(self.kernel.reader, name):
                tally.add(facts)
            return {"broker_name": name, **tally.facts()}

    return OutboxSummary, DeadLetterSummary


class _Tally:
    """Aggregates of dead letters."""

    def __init__(self) -> None:
        self._count = self._attempts = 0
        self._topics: set[object] = set()
        self._oldest: int | None = None
        self._newest: int | None = None
        self._error: object = None

    def add(self, facts: Facts) -> None:
        """Count one."""
        at = _number(facts.get("dead_lettered_at"))
        self._count += 1
        self._topics.add(facts.get("topic"))
        self._attempts = max(self._attempts, _number(facts.get("attempts")))
        self._oldest = at if self._oldest is None else min(at, self._oldest)
        if self._newest is None or at >= self._newest:
            self._newest, self._error = at, facts.get("last_error")

    def facts(self) -> Facts:
        """Return it; the times are in milliseconds since 1970, as in a dead letter."""
        return {
            "dead_letters": self._count,
            "topics": len(self._topics),
            "max_attempts_seen": self._attempts,
            "oldest": self._oldest,
            "newest": self._newest,
            "last_error": self._error,
        }


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
