"""Creation of records with generated ids (A3).

An id in the body is used; otherwise it is a UUID, or the next number for an integer key. It writes
through the kernel like any caller.
"""

from collections.abc import Awaitable, Callable
from uuid import uuid4

from rowcast.codecs import decode, is_structured
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, local_id
from rowcast.core.limits import NEW_ID_ATTEMPTS_MAX
from rowcast.core.queries import Query, Sort
from rowcast.core.tables import Table, Type
from rowcast.reads.store_reader import StoreReader
from rowcast.routes.registry import Registry
from rowcast.writes.write import Condition, Receipt

WriteNew = Callable[[Event, Caller, Condition], Awaitable[Receipt]]
"""Runs a conditional write and waits for it."""

NO_RECORD = Condition(exists=False)


class Creation:
    """Creates records with new ids."""

    def __init__(self, registry: Registry, reader: StoreReader, write: WriteNew) -> None:
        self._registry = registry
        self._reader = reader
        self._write = write
        self._last_ids: dict[str, int] = {}

    async def create(self, topic: str, event: Event, caller: Caller) -> Receipt:
        """Write ``event`` as a new record of the collection at ``topic``.

        Raises NOT_ALLOWED if there is no collection, CONFLICT when the body's id exists.
        """
        route = self._registry.route(topic)
        shape = route.shape
        if shape is None or route.record_id:
            raise Error(
                Code.NOT_ALLOWED,
                f"{topic!r} is not a collection; only a declared table makes new records",
                allow=["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"],
            )
        given = _given_id(shape.key, event)
        for _ in range(NEW_ID_ATTEMPTS_MAX):
            event.topic = shape.table.topic(given or await self._new_id(shape.table))
            try:
                return await self._write(event, caller, NO_RECORD)
            except Error as error:
                if error.code is not Code.PRECONDITION:
                    raise
                if given:
                    raise taken(event.topic, error) from None
                self._last_ids.pop(shape.table.name, None)  # numbers were used: retry
        raise Error(Code.BUSY, f"no free id was found in {topic!r}; try again")

    async def _new_id(self, table: Table) -> str:
        key = table.primary_key
        if key is None or key.type not in {Type.INT, Type.LONG}:
            return str(uuid4())
        if table.name not in self._last_ids:
            query = Query(sort=(Sort((key.name,), descending=True),), limit=1)
            page = await self._reader.search(table, query)
            last = local_id(table, page.records[0].topic) if page.records else "0"
            self._last_ids.setdefault(table.name, max(0, int(last)))
        self._last_ids[table.name] += 1
        return str(self._last_ids[table.name])


def taken(topic: str, error: Error) -> Error:
    """Return the CONFLICT of a record that is there, as an unmet NO_RECORD is told."""
    return Error(Code.CONFLICT, f"there is a record at {topic!r} already", **error.detail)


def _given_id(key: str | None, event: Event) -> str:
    """Return the id in the body; empty if it has none."""
    if key is None or not (event.content_type is None or is_structured(event.content_type)):
        return ""
    value = decode(event.payload, event.content_type)
    given = value.get(key) if isinstance(value, dict) else None
    return "" if given is None else str(given)
