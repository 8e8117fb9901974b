"""The rows of the gateway (H2, H13-H17; M11).

``$SYS/brokers``: a row for each bridge. PUT creates or changes one within a second, with the
members of a broker's configuration; DELETE removes it. ``$SYS/dead_letters``: undeliverable events.
PUT sends one again, with a changed ``payload`` or other members; DELETE discards it; POST
``{"broker", "limit"}`` to the collection sends the oldest again. Only administrators may write.
"""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from rowcast.core.callers import ADMIN
from rowcast.core.conditions import holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import Row, answer, project
from rowcast.core.limits import SCAN_PAGE_RECORDS, SYSTEM_ROWS_MAX
from rowcast.core.queries import Query
from rowcast.core.topics import BROKERS
from rowcast.features.bridges.dead_letters import Facts, facts_of, letters_of
from rowcast.kernel.kernel import Kernel
from rowcast.routes.resource import Resource
from rowcast.routes.system_rows import SystemRows
from rowcast.subscriptions.reader import Reader

if TYPE_CHECKING:
    from rowcast.features.bridges.gateway import Gateway

LETTERS = "$SYS/dead_letters"


def broker_rows(gateway: "Gateway") -> type[SystemRows]:
    """Return the resource class that reads and changes the bridges."""

    class BrokerRows(SystemRows):
        """One row for each bridge."""

        path = BROKERS
        kernel: Kernel

        def names(self) -> Sequence[str]:
            return list(gateway.bridges)

        def row(self, name: str, *, whole: bool) -> Facts | None:  # noqa: ARG002 - it is short
            return gateway.status(name)

        async def put(self, value: object) -> None:
            """Create or change a bridge."""
            if not isinstance(value, dict) or not self.id:
                raise Error(
                    Code.INVALID,
                    'a broker is a map such as {"host": "h", "out": []}, at its name',
                )
            rules = self.kernel.rights.restricts
            if rules and ADMIN not in self.caller.roles and self.caller.door != "server":
                raise Error(
                    Code.DENIED,
                    "a bridge carries all that its filters select, whatever rules keep from "
                    f"{self.caller.user}: only the role admin makes one",
                )
            await gateway.change(self.id, value)
            await self.durable()

        async def delete(self) -> None:
            """Remove a bridge and its backlog."""
            await gateway.remove(self.id)
            await self.durable()

    return BrokerRows


def letter_rows(gateway: "Gateway") -> type[Resource]:
    """Return the resource class that reads, replays and discards dead letters."""

    class LetterRows(Resource):
        """One row for each dead letter; its id is the bridge's name and the event's number."""

        path = LETTERS

        async def get(self, query: Query | None = None) -> object:
            """Return one, or those that match a query, the oldest of a bridge first."""
            self.kernel.authorise_read(self.topic, self.caller)
            query = query or Query()
            if self.id:
                facts = await gateway.letter(*_parts(self.id))
                return None if facts is None else project(query.select, facts, self.id)
            return await self._listed(query)

        async def _listed(self, query: Query) -> list[object]:
            limit = SYSTEM_ROWS_MAX if query.limit is None else min(query.limit, SYSTEM_ROWS_MAX)
            wanted = query.offset + limit
            found: list[Row] = []
            async for name, facts in dead_letters(self.kernel.reader):
                if holds(query.where, facts, name):
                    found.append((name, facts))
                if len(found) >= wanted and not query.sort:
                    break
                if len(found) > SYSTEM_ROWS_MAX + query.offset:
                    raise Error(Code.TOO_LARGE, "too many to be sorted; add conditions")
            page = answer(query, found).rows if query.sort else found[query.offset : wanted]
            return [project(query.select, facts, name) for name, facts in page]

        async def put(self, value: object) -> None:
            """Send one again, with these members replaced."""
            changes = value if isinstance(value, dict) else {}
            await gateway.replay(*_parts(self.id), changes)

        async def post(self, value: object) -> object:
            """Send the oldest dead letters of a bridge again."""
            self.kernel.rights.check_administer(self.topic, self.caller)
            given = value if isinstance(value, dict) else {}
            broker, limit = given.get("broker"), given.get("limit", SCAN_PAGE_RECORDS)
            if not isinstance(broker, str) or not isinstance(limit, int) or limit < 1:
                raise Error(Code.INVALID, 'say {"broker": "<name>", "limit": 100}')
            return {"replayed": await gateway.replay_oldest(broker, limit)}

        async def delete(self) -> None:
            """Discard one."""
            await gateway.discard(*_parts(self.id))

    return LetterRows


async def dead_letters(reader: Reader, bridge: str = "+") -> AsyncIterator[tuple[str, Facts]]:
    """Yield the dead letters of one bridge or of all, each with its id."""
    after, more = "", True
    while more:
        page = await reader.scan(None, letters_of(bridge), after, SCAN_PAGE_RECORDS)
        for record in page.records:
            facts = facts_of(record)
            yield f"{facts['broker']}/{facts['id']}", facts
            after = record.topic
        more = page.more


def _parts(record_id: str) -> tuple[str, int]:
    broker, _, number = record_id.rpartition("/")
    if not broker or not (number.isascii() and number.isdigit()):
        raise Error(Code.NOT_FOUND, f"a dead letter is {LETTERS}/<broker>/<number>")
    return broker, int(number)
