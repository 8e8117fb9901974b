"""Collections: the result of a query, streamed page by page, in the memory of one page.

A single page is sent with its length. Larger results are streamed: the first page is read before
anything is sent, so an error still has its status, and ``Rowcast-Position`` is that of the first
page: continuing from it misses nothing (M1).
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from rowcast.codecs import (
    CBOR,
    CBOR_SEQ,
    CSV,
    JSON,
    MSGPACK,
    NDJSON,
    RowsEncoder,
    content_type_header,
    negotiate,
    rows_encoder,
)
from rowcast.codecs.csv_text import EXTRA_COLUMN
from rowcast.core.conditions import ID_PATH, Condition, Group, Operator, Where
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import project
from rowcast.core.events import Record, local_id
from rowcast.core.grouping import Grouping, GroupRow
from rowcast.core.limits import (
    HTTP_LIMIT_LINKED_RECORDS_MAX,
    HTTP_PAGE_RECORDS,
    HTTP_PAGE_SORTED_RECORDS,
)
from rowcast.core.meta import with_meta
from rowcast.core.queries import Projection, Query
from rowcast.core.query_text import parse_query
from rowcast.core.scalars import PLAIN, Mismatch, to_decimal
from rowcast.core.tables import Table, Type
from rowcast.core.values import parse_id
from rowcast.doors.http.messages.asgi import HeaderList, path_of
from rowcast.doors.http.messages.replies import SELECTED, send_bytes
from rowcast.doors.http.rest.request import ROW_TYPES, Request
from rowcast.kernel.related_reads import Joined
from rowcast.reads.loop_turns import in_turns
from rowcast.reads.read_queue import current_read_caller
from rowcast.store.store import Page

_AFTER: Final = re.compile(r"(?:^|&)after(?:\(|%28).*?(?:\)|%29)")
_LIMIT: Final = re.compile(r"(^|&)limit(?:\(|%28).*?(?:\)|%29)")
_SPELLED: Final = ((datetime, Type.DATE), (Decimal, Type.DECIMAL), (bytes, Type.BYTES))
_FRAMES: Final = {
    JSON: (b"[", b",", b"]"),
    CBOR: (b"\x9f", b"", b"\xff"),  # RFC 8949, 3.2.2: an array of no stated length
    CBOR_SEQ: (b"", b"", b""),
}
"""The bytes before, between and after already encoded records."""


async def send_collection(request: Request, prefix: str, media_type: str | None = None) -> None:
    """Respond with the records of a table that match the query and have ids with ``prefix``."""
    table = request.route.table
    if table is None:
        raise Error(Code.NOT_FOUND, f"there is no collection at {path_of(request.topic)!r}")
    query = within(prefix, await _query(request, table))
    await _send(request, table, query, media_type)


async def send_related(request: Request, table: Table, where: Where) -> None:
    """Respond with the records of another table that match, and the query of the request."""
    query = await _query(request, table)
    both = where if query.where is None else Group((where, query.where))
    await _send(request, table, replace(query, where=both), None)


async def _query(request: Request, table: Table) -> Query:
    """Return the query of a request, with conditions on this table only."""
    kernel = request.kernel
    tables = kernel.registry.related
    query = parse_query(request.parameters.query, table, groups=True, tables=tables)
    return await kernel.related.resolved(query, request.caller)


async def _send(request: Request, table: Table, query: Query, media_type: str | None) -> None:
    if query.group is not None:
        rows = await request.kernel.grouped(table, query, request.caller)
        await send_groups(request, query.group, rows, media_type)
        return
    if request.parameters.count:
        check_counted(query)
        count = await request.kernel.count(table, query, request.caller)
        await request.answer({"count": count})
        return
    media_type = media_type or negotiate(request.accept, ROW_TYPES)
    listing = Listing(request, table, query, media_type)
    page = await listing.first()
    if request.is_head:
        await listing.send_head(page)
    elif page.after and not listing.linked:
        await listing.stream(page)
    else:
        await listing.send_whole(page)


def check_counted(query: Query) -> None:
    """Raise INVALID for a count of a page: who asks may mean the page, or all records."""
    named = "after" if query.after is not None else "limit"
    if query.limit is not None or query.after is not None:
        raise Error(
            Code.INVALID,
            f"count is the number of all records that satisfy the conditions, and has no {named}; "
            "leave it out",
        )


async def send_groups(
    request: Request, grouping: Grouping, rows: Sequence[GroupRow], media_type: str | None
) -> None:
    """Respond with the groups of a table's records."""
    if request.parameters.count or request.parameters.meta:
        raise Error(Code.INVALID, "group(...) has no count and no meta; write group(count())")
    media_type = media_type or negotiate(request.accept, ROW_TYPES)
    encoder = rows_encoder(media_type, grouping.names, len(rows))
    plain = media_type in {JSON, CSV, NDJSON}
    pieces = [encoder.begin()]
    async for some in in_turns(rows):
        pieces += [encoder.row(_spelled(row) if plain else _fitting(row)) for row in some]
    body = b"".join([*pieces, encoder.end()])
    head = request.is_head
    await send_bytes(request.send, 200, content_type_header(media_type), body, head=head)


def _spelled(row: GroupRow) -> GroupRow:
    """Return a row as JSON spells its values: times, decimals and bytes are text."""
    return {name: _spell(value) for name, value in row.items()}


def _fitting(row: GroupRow) -> GroupRow:
    """Return a row with sums as text that have more digits than a decimal of CBOR may have."""
    return {name: value if _fits(value) else _spell(value) for name, value in row.items()}


def _fits(value: object) -> bool:
    try:
        return not isinstance(value, Decimal) or to_decimal(value) is value
    except Mismatch:
        return False


def _spell(value: object) -> object:
    kind = next((type_ for python, type_ in _SPELLED if isinstance(value, python)), None)
    return PLAIN[kind](value) if kind is not None else value


def within(prefix: str, query: Query) -> Query:
    """Return the query, restricted to ids with ``prefix``."""
    if not prefix:
        return query
    condition = Condition(ID_PATH, Operator.STARTS_WITH, prefix)
    where = condition if query.where is None else Group((condition, query.where))
    return replace(query, where=where)


@dataclass(frozen=True, slots=True)
class Listing:
    """The response with one collection."""

    request: Request
    table: Table
    query: Query
    media_type: str
    joined: dict[str, Joined] = field(default_factory=dict)
    """The related values of the records of the page that is sent, by topic."""

    @property
    def linked(self) -> bool:
        """Whether the response is one page with a link to the next."""
        limit = self.query.limit
        return limit is not None and limit <= HTTP_LIMIT_LINKED_RECORDS_MAX

    async def first(self) -> Page:
        """Read the first page; the only one if it has a link to the next."""
        if self.linked:
            return await self._search(self.query)
        most = min(self.query.limit or HTTP_PAGE_RECORDS, HTTP_PAGE_RECORDS)
        return await self._search(replace(self.query, limit=most))

    async def _search(self, query: Query) -> Page:
        kernel, caller = self.request.kernel, self.request.caller
        page = await kernel.search(self.table, query, caller)
        select = self.query.select
        if select is not None and select.related:
            found = await kernel.related.joined(
                self.table, select, page.records, caller, self.spelling
            )
            self.joined.clear()
            self.joined.update(found)
        return page

    @property
    def spelling(self) -> str:
        """The media type that values are spelled for."""
        spelling = JSON if self.media_type in {CSV, NDJSON} else self.media_type
        return CBOR if spelling == CBOR_SEQ else spelling

    async def send_head(self, page: Page) -> None:
        """Answer HEAD, without a length, because the body is not built."""
        request = self.request
        count = await request.kernel.count(self.table, self.query, request.caller)
        headers = [*self.headers(page), (b"rowcast-count", str(count).encode())]
        await request.send({"type": "http.response.start", "status": 200, "headers": headers})
        await request.send({"type": "http.response.body", "body": b""})

    async def send_whole(self, page: Page) -> None:
        """Respond with one page."""
        rows = self.encoder(page, len(page.records))
        body = b"".join((rows.begin(), *map(rows.row, page.records), rows.end()))
        content_type, *extra = self.headers(page)
        await send_bytes(self.request.send, 200, content_type[1].decode(), body, extra, cached=())

    async def stream(self, page: Page) -> None:
        """Respond with this page and all later ones."""
        send = self.request.send
        rows = self.encoder(page, await self._count(), more=True)
        start = b"".join((rows.begin(), *map(rows.row, page.records)))
        await send({"type": "http.response.start", "status": 200, "headers": self.headers(page)})
        await send({"type": "http.response.body", "body": start, "more_body": True})
        async for records in self._pages(page):
            body = b"".join(map(rows.row, records))
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": rows.end()})

    async def _pages(self, page: Page) -> AsyncIterator[Sequence[Record]]:
        """Yield the records of the pages after this one, up to the limit."""
        left = None if self.query.limit is None else self.query.limit - len(page.records)
        most = HTTP_PAGE_SORTED_RECORDS if self.query.sort else HTTP_PAGE_RECORDS
        while page.after and left != 0:
            limit = most if left is None else min(left, most)
            current_read_caller().renew()  # the query timeout applies to each page
            self.request.check_rights()
            page = await self._search(replace(self.query, limit=limit, offset=0, after=page.after))
            left = None if left is None else left - len(page.records)
            for start in range(0, len(page.records), HTTP_PAGE_RECORDS):
                yield page.records[start : start + HTTP_PAGE_RECORDS]

    async def _count(self) -> int | None:
        """Return the number of rows, for the format that begins with it."""
        kernel = self.request.kernel
        if (
            self.media_type != MSGPACK
            or self.query.after is not None
            or kernel.visibility.sifts(self.request.caller, self.table)
        ):
            return None  # a hook may withhold some, so they cannot be counted
        count = await kernel.count(self.table, self.query, self.request.caller)
        left = max(0, count - self.query.offset)
        return left if self.query.limit is None else min(left, self.query.limit)

    def headers(self, page: Page) -> HeaderList:
        """Return the headers of the first page."""
        headers: HeaderList = [
            (b"content-type", content_type_header(self.media_type).encode()),
            *SELECTED,
            (b"rowcast-position", self.request.kernel.cursor(page.position).encode()),
        ]
        if self.linked and page.after:
            headers.append((b"rowcast-after", page.after.encode()))
            period = self.request.parameters.period
            asof = self.request.kernel.cursor(page.position) if period is not None else ""
            headers.append((b"link", f'<{self._next(page.after, asof)}>; rel="next"'.encode()))
        return headers

    def _next(self, after: str, asof: str) -> str:
        """Return the path of the next page: the same query, from the end of this one."""
        text = _AFTER.sub("", self.request.parameters.query)
        text = _LIMIT.sub(rf"\1limit({self.query.limit})", text)  # without the offset of this one
        meta = "&meta=true" if self.request.parameters.meta else ""
        meta += f"&asof={asof}" if asof else ""
        path = self.request.scope.get("raw_path", b"").decode("ascii", "replace")
        return f"{path}?{text.strip('&')}&after({after}){meta}"

    # -- rows ------------------------------------------------------------------------------------

    def encoder(self, page: Page, count: int | None, *, more: bool = False) -> "Rows":
        """Return the encoder of records; CSV's columns are those of the first page.

        ``more``: there are other pages, whose records may have other attributes.
        """
        transcoder, table = self.request.kernel.transcoder, self.table
        plain = self.query.select is None and not self.request.parameters.meta
        if plain and not table.open and table.primary_key and self.media_type in _FRAMES:
            media_type = self.media_type
            frame = _FRAMES[media_type]
            return Rows(*frame, lambda record: transcoder.payload(record, media_type))
        encoder = rows_encoder(self.media_type, self._columns(page, more=more), count)
        return Rows(b"", b"", b"", lambda record: encoder.row(self._value(record)), encoder)

    def _value(self, record: Record) -> object:
        """Return a record as a row: with its id, its selected parts, its metadata."""
        table = self.table
        value = self.request.kernel.transcoder.spelled(record, self.spelling)
        record_id = parse_id(table, local_id(table, record.topic))
        key = table.primary_key.name if table.primary_key else "id"
        if isinstance(value, dict):
            value = value if key in value else {key: record_id} | value
        else:
            value = {key: record_id, "value": value}
        if self.joined:
            value = value | self.joined[record.topic]
        value = project(self.query.select, value, record_id)
        if self.request.parameters.meta:
            kernel = self.request.kernel
            return with_meta(value, record, kernel.reader.epoch, kernel.now())
        return value

    def _columns(self, page: Page, *, more: bool) -> list[str]:
        """Return CSV's columns: the selected or declared ones, then others of the first page."""
        if self.media_type != CSV:
            return []
        select, known = self.query.select, list[str]()
        if select is None:
            valued = (item for item in self.table.attributes if item.has_value)
            known = [item.name for item in valued if not item.hidden]
            known = known if self.table.primary_key else ["id", *known]
        elif select.shape is not Projection.OBJECT:
            return ["value"]
        else:
            known = [path[0] for path in select.paths]
        rows = [self._value(record) for record in page.records]
        found = [name for row in rows if isinstance(row, dict) for name in row]
        rest = [EXTRA_COLUMN] if more and select is None and not self.table.sealed else []
        return [*dict.fromkeys([*known, *found]), *rest]


class Rows:
    """The encoder of a collection."""

    def __init__(
        self,
        before: bytes,
        between: bytes,
        after: bytes,
        encode: Callable[[Record], bytes],
        encoder: RowsEncoder | None = None,
    ) -> None:
        self._before, self._between, self._after = before, between, after
        self._encode = encode
        self._encoder = encoder
        self._separator = b""

    def begin(self) -> bytes:
        """Return the bytes before the rows."""
        return self._encoder.begin() if self._encoder else self._before

    def row(self, record: Record) -> bytes:
        """Return one row, with the separator before it."""
        piece = self._separator + self._encode(record)
        self._separator = self._between
        return piece

    def end(self) -> bytes:
        """Return the bytes after the rows."""
        return self._encoder.end() if self._encoder else self._after
