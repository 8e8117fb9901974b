"""The feature: several writes at any topics in one transaction, at ``$tx`` on every door (B22).

POST /$tx answers with the outcome of each write; a PUBLISH to ``$tx``, and a message of WebSocket,
are acknowledged when all is written, or refused. Each write is checked as if it came alone, with
the rights of its writer. Subscribers get the events at consecutive positions, or none of them.
"""

from typing import ClassVar, Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.events import PATCH, PUT
from rowcast.core.limits import HTTP_BATCH_RECORDS_MAX
from rowcast.core.topics import TRANSACTIONS
from rowcast.features.transactions.commands import PlannedWrite, at_index, planned
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.routes.excluded_tables import check_not_excluded
from rowcast.routes.resource import Resource
from rowcast.writes.write import Receipt

_EXCLUDED: Final = {"http": "rest", "ws": "ws"}
"""The names of doors in a schema's exclusions."""


class Transaction(Resource):
    """Runs what it is sent, all or nothing."""

    path = TRANSACTIONS
    silent = "it takes transactions, and answers each; subscribe to the topics that these write"
    most: ClassVar[int] = HTTP_BATCH_RECORDS_MAX
    """Writes of one transaction."""
    kernel: Kernel

    async def post(self, value: object) -> object:
        """Return the outcome of each write."""
        kernel = self.kernel
        return [
            {
                "topic": receipt.event.topic,
                "position": kernel.cursor(receipt.event.seq) if receipt.event.seq else None,
                "created": receipt.event.kind in {PUT, PATCH} and not receipt.existed,
            }
            for receipt in await self._run(value)
        ]

    async def publish(self, value: object) -> None:
        """Write all or nothing; the receipt is that of the last write."""
        self.receipt = (await self._run(value))[-1]

    async def _run(self, value: object) -> list[Receipt]:
        kernel, caller = self.kernel, self.caller
        epoch, client = kernel.reader.epoch, caller.client_id or caller.user
        writes = planned(value, epoch, client, self.most)
        _check_offered(kernel, caller, writes)
        events = [item.event for item in writes]
        conditions = [item.condition for item in writes]
        try:
            outcomes = await kernel.write_all(
                events, caller, atomic=True, conditions=conditions, changes=self.beside
            )
        except Error as error:
            index = error.detail.get("index")
            raise at_index(error, index) if isinstance(index, int) else error from None
        self.beside = ()
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, Error) and not outcome.message.startswith("nothing was"):
                raise at_index(outcome, index)
        return [item for item in outcomes if isinstance(item, Receipt)]


class Transactions(Feature):
    """Transactions from outside; ``most``: writes of one."""

    def __init__(self, most: int = HTTP_BATCH_RECORDS_MAX) -> None:
        self._most = most

    def install(self, kernel: Kernel) -> None:
        """Register ``$tx``."""
        limited = type("Transaction", (Transaction,), {"most": self._most})
        kernel.rows(TRANSACTIONS, limited)


def _check_offered(kernel: Kernel, caller: Caller, writes: list[PlannedWrite]) -> None:
    """Raise NOT_FOUND for a table that is excluded from the caller's door."""
    door = _EXCLUDED.get(caller.door)
    for index, item in enumerate(writes if door is not None else ()):
        topic = kernel.registry.named(item.event.topic)
        try:
            check_not_excluded(kernel.registry.route(topic).table, str(door))
        except Error as error:
            raise at_index(error, index) from None
