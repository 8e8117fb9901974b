"""The change feed: changes with old and new values, for a broker (H28).

A route with ``feed: row`` carries a message for each change of a record; with ``feed: statement``
one for each write or atomic batch of a table, when the last of it comes by. The old value is read
from the log: the last change at the topic before this one. So a feed costs a read for each change,
on a reader's thread, and nothing for writers.
"""

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rowcast.codecs import JSON, decode, encode
from rowcast.core.clock import seconds_of
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, RETAINED, Event
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, branch_of, table_name_for_topic
from rowcast.features.bridges.outbox import Item, Outbox
from rowcast.features.bridges.plan import Route
from rowcast.kernel.atomic_batch import place_of
from rowcast.rows.topic_rows import Row

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

ROW: Final = "row"
STATEMENT: Final = "statement"

Change = dict[str, object]


class Feed:
    """Builds change messages for the routes of one bridge."""

    def __init__(self, kernel: "Kernel", routes: Sequence[Route]) -> None:
        self._kernel = kernel
        self._routes = routes if any(route.feed for route in routes) else ()

    def route(self, topic: str) -> Route | None:
        """Return the route of a topic, if it is a change feed."""
        first = next((item for item in self._routes if item.topics.matches(topic)), None)
        return first if first is not None and first.feed else None

    def lane(self, topic: str) -> str:
        """Return the ordering key: for statements, their table."""
        route = self.route(topic) if self._routes else None
        if route is None or route.feed != STATEMENT:
            return ""
        table = self._table(topic)
        return table.path or "" if table is not None else ""

    def _table(self, topic: str) -> Table | None:
        try:
            return self._kernel.registry.route(topic).table
        except Error:  # a waiting event of an older schema
            return None

    async def prepare(self, outbox: Outbox) -> None:
        """Build the messages of items to send soon; raises BUSY when a read fails."""
        while self._routes:
            items = [item for item in outbox.near() if self._wants(item)]
            if not items:
                return
            for item in items:
                event, route = item.event, self.route(item.topic)
                if event is not None and route is not None:
                    item.document = await self._document(event, route.feed)
                if not item.document:  # not a change, or not the last of its batch
                    outbox.delivered(item.seq)

    def _wants(self, item: Item) -> bool:
        is_new = item.event is not None and item.document is None
        return is_new and self.route(item.topic) is not None

    async def _document(self, event: Event, feed: str) -> bytes:
        """Return a message; empty for no change, or not the last of its batch."""
        if isinstance(event, Row) or event.kind not in RETAINED:
            return b""
        if event.table is None:  # unknown for a dead letter
            event = event.changed(table=self._table(event.topic))
        name, number, count, span = place_of(event)
        txid = name or self._kernel.cursor(event.seq)
        if feed == ROW:
            return encode(await self._change(event) | self._meta(event, txid, 1), JSON)
        if number < count:
            return b""
        events = [event]
        if count > 1:
            found = await self._kernel.reader.read(event.seq - span, span, [self._source(event)])
            events = [each for each in found if place_of(each)[0] == name]
        rows = [await self._change(each) for each in events]
        kinds = {row.pop("_operation") for row in rows}
        operation = kinds.pop() if len(kinds) == 1 else "MIXED"
        document = {"rows": rows, "_operation": operation} | self._meta(event, txid, len(rows))
        return encode(document, JSON)

    @staticmethod
    def _source(event: Event) -> LogSource:
        return event.table if event.table is not None else branch_of(event.topic)

    def _meta(self, event: Event, txid: str, count: int) -> Change:
        table = event.table
        return {
            "_table": table.name if table is not None else table_name_for_topic(event.topic),
            "_timestamp": datetime.fromtimestamp(seconds_of(event.version), UTC).isoformat(),
            "_txid": txid,
            "_count": count,
        }

    async def _change(self, event: Event) -> Change:
        """Return the old and new value; UPSERT if the log was trimmed."""
        source = self._source(event)
        before = await self._kernel.reader.change(source, event.topic, event.seq - 1)
        old = None if before is None or before.kind == DELETE else self._value(before)
        new = None if event.kind == DELETE else self._value(event)
        forgotten = before is None and self._kernel.reader.trimmed([source]) > 0
        operation = (
            "DELETE" if event.kind == DELETE
            else "UPSERT" if forgotten
            else "INSERT" if old is None
            else "UPDATE"
        )  # fmt: skip
        return {"topic": event.topic, "old": old, "new": new, "_operation": operation}

    def _value(self, event: Event) -> object:
        """Return a value without hidden attributes."""
        try:
            return decode(self._kernel.transcoder.payload(event, JSON), JSON)
        except Error:  # plain bytes
            pass
        try:
            return event.payload.decode()
        except UnicodeDecodeError:
            return b64encode(event.payload).decode()
