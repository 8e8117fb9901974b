"""Rows of ``$SYS/retained``: administration of retained messages (E30).

    GET    $SYS/retained/?filter=a/+/c&limit(20)    a page of them; any other condition searches
    GET    $SYS/retained/?...&after(<cursor>)       the next one: the last row has its ``cursor``
    GET    $SYS/retained/<topic>                    one, with its complete payload
    DELETE $SYS/retained/<topic>                    deletes one
    POST   $SYS/retained/ {"clear": "a/#", "dry_run": true}     how many that filter would clear

A caller sees what it may read, also in lists and counts (L12); only administrators may clear.
Nothing is stored here: a row is a current message.
"""

from collections.abc import AsyncIterator
from typing import Final, cast

from rowcast.core.clock import WallClock, seconds_of
from rowcast.core.conditions import Condition, Group, Operator, Where, holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import project
from rowcast.core.events import Record
from rowcast.core.limits import (
    RETAINED_ROWS_LOOKED_MAX,
    SYSTEM_ROW_ITEMS_LISTED_MAX,
    SYSTEM_ROW_TEXT_CHARS_MAX,
    SYSTEM_ROWS_MAX,
)
from rowcast.core.queries import Query
from rowcast.core.writers import BY
from rowcast.features.retained.retainer import EVERYTHING, Retained, Retainer, cursor_after
from rowcast.kernel.kernel import Kernel
from rowcast.routes.resource import Resource
from rowcast.routes.system_rows import time_text

PATH: Final = "$SYS/retained"

Facts = dict[str, object]


def retained_rows(now: WallClock, looked_max: int = RETAINED_ROWS_LOOKED_MAX) -> type[Resource]:
    """Return the resource class that lists and clears retained messages.

    ``looked_max``: messages that one search examines.
    """

    class RetainedRows(Resource):
        """One row for each retained message at an undeclared topic."""

        path = PATH
        kernel: Kernel

        @property
        def messages(self) -> Retained:
            """The retained messages visible to the caller."""
            return Retained(self.kernel, now, self.caller)

        async def get(self, query: Query | None = None) -> object:
            """Return one row, or a page of those that match the query."""
            self.kernel.authorise_read(self.topic, self.caller)
            if not self.id:
                return await _listed(self.messages, query or Query(), looked_max)
            found = await self._found()
            row = _row(found[0], whole=True) if found else None
            return row and project(query.select if query else None, row, self.id)

        async def delete(self) -> None:
            """Delete one message."""
            self.kernel.rights.check_administer(self.topic, self.caller)
            if not await self._found():
                raise Error(Code.NOT_FOUND, f"no message is retained at {self.id!r}")
            await self.messages.delete_message(self.id)

        async def _found(self) -> list[Record]:
            """Return the message; raises for a record of a table."""
            return [item for item in await self.messages.read_message(self.id) if not item.table]

        async def post(self, value: object) -> object:
            """Delete all messages that match a filter, or only count them."""
            self.kernel.rights.check_administer(self.topic, self.caller)
            text, dry = _asked(value)
            first: list[str] = []
            count = 0
            async for messages in self.messages.pages(text):
                count += len(messages)
                room = SYSTEM_ROW_ITEMS_LISTED_MAX - len(first)
                first += [record.topic for record in messages[:room]]
            if not dry:
                count = await self.messages.clean(text)
            return {"filter": text, "dry_run": dry, "count": count, "topics": first}

    return RetainedRows


def _asked(value: object) -> tuple[str, bool]:
    """Return the filter to clear, and whether it is a dry run; raises INVALID."""
    facts = cast("Facts", value) if isinstance(value, dict) else {}
    text, dry = facts.get("clear"), facts.get("dry_run", False)
    if not isinstance(text, str) or not isinstance(dry, bool) or not set(facts) <= _CLEAR:
        raise Error(
            Code.INVALID,
            'send {"clear": "a/+/c", "dry_run": true} to be told what the filter selects, and '
            "without dry_run to clear it",
        )
    return text, dry


_CLEAR: Final = {"clear", "dry_run"}


async def _listed(retained: Retainer, query: Query, looked_max: int) -> list[object]:
    """Return a page of rows, sorted by topic."""
    if query.sort:
        raise Error(Code.INVALID, "these rows come in the order of their topics; leave sort out")
    text, where = _divided(query.where)
    limit = SYSTEM_ROWS_MAX if query.limit is None else min(query.limit, SYSTEM_ROWS_MAX)
    found: list[object] = []
    skipped = looked = 0
    async for record in _each(retained, text, query.after or ""):
        if len(found) == limit:
            break
        looked += 1
        if looked > looked_max:
            raise Error(
                Code.TOO_LARGE,
                f"{looked_max} messages were looked at and fewer than {limit} found; "
                "narrow the search with filter=..., or take a smaller page",
            )
        row = _row(record, whole=True)
        if where is not None and not holds(where, row, record.topic):
            continue
        if skipped < query.offset:
            skipped += 1
        else:
            found.append(project(query.select, _row(record, whole=False), record.topic))
    return found


async def _each(retained: Retainer, text: str, cursor: str) -> AsyncIterator[Record]:
    while True:
        matched = await retained.match_messages(text, cursor)
        for record in matched.messages:
            yield record
        cursor = matched.cursor
        if not cursor:
            return


def _divided(where: Where | None) -> tuple[str, Where | None]:
    """Split ``filter=...`` from the conditions: it selects the scan."""
    items = where.items if isinstance(where, Group) and where.all_of else (where,)
    asked = [item for item in items if _is_filter(item)]
    if len(asked) > 1:
        raise Error(Code.INVALID, "there is more than one filter=...; ask for one at a time")
    text = str(cast("Condition", asked[0]).value) if asked else EVERYTHING
    rest = tuple(item for item in items if item is not None and not _is_filter(item))
    return text, Group(rest) if rest else None


def _is_filter(item: Where | None) -> bool:
    return isinstance(item, Condition) and item.path == ("filter",) and item.operator is Operator.EQ


def _row(record: Record, *, whole: bool) -> Facts:
    """Return a message as a row; long payloads are truncated in lists."""
    payload: str | bytes = record.payload
    try:
        payload = record.payload.decode()
    except UnicodeDecodeError:
        payload = record.payload
    return {
        "topic": record.topic,
        "payload": payload if whole else payload[:SYSTEM_ROW_TEXT_CHARS_MAX],
        "size": len(record.payload),
        "content_type": record.content_type,
        "qos": record.qos,
        "client": record.client,
        "timestamp": time_text(seconds_of(record.version) if record.version else None),
        "expires_at": time_text(record.expires_at or None),
        "properties": sorted(name for name in record.properties or () if name != BY),
        "cursor": cursor_after(record.topic),
    }
