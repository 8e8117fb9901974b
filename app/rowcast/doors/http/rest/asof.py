"""Records at a past time: a GET with ``asof`` (B14).

A single record is answered like any other. A table is streamed in the order of ids, page by page;
each record is reconstructed, so conditions use no index. In another order, in parts or with related
records it is one page in memory, which is bounded (``features/history/past_queries.py``).
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from rowcast.codecs import negotiate
from rowcast.core.conditions import Group, Where
from rowcast.core.errors import Code, Error
from rowcast.core.events import Record
from rowcast.core.moments import Moment
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Table
from rowcast.doors.http.messages.replies import send_headers
from rowcast.doors.http.rest.listings import Listing, check_counted, send_groups
from rowcast.doors.http.rest.request import ROW_TYPES, Request
from rowcast.features.history.history import history_of
from rowcast.features.history.past_queries import PastQueries
from rowcast.reads.read_queue import current_read_caller
from rowcast.store.store import Page


def moment_asked(request: Request) -> Moment | None:
    """Return the requested time; None: now. Raises INVALID."""
    period = request.parameters.period
    if period is None or period.asof is None:
        return None
    return history_of(request.kernel).bygone(period.asof, "asof")


def past_asked(request: Request) -> PastQueries | None:
    """Return the queries as of the requested time; None: now. Raises INVALID."""
    moment = moment_asked(request)
    return None if moment is None else PastQueries(request.kernel, moment)


async def send_then(
    request: Request,
    past: PastQueries,
    table: Table | None,
    media_type: str | None = None,
    where: Where | None = None,
) -> None:
    """Respond with a table's records at a past time that match, also ``where``."""
    if table is None:
        raise Error(Code.NOT_FOUND, "only a table has records to be listed as they were")
    caller, related = request.caller, request.kernel.registry.related
    query = parse_query(request.parameters.query, table, groups=True, tables=related)
    if where is not None:
        query = replace(query, where=where if query.where is None else Group((where, query.where)))
    query = await past.related.resolved(query, caller)
    if query.group is not None:
        rows = await past.grouped(table, query, caller)
        await send_groups(request, query.group, rows, media_type)
    elif request.parameters.count:
        check_counted(query)
        await request.answer({"count": await past.count(table, query, caller)})
    else:
        media_type = media_type or negotiate(request.accept, ROW_TYPES)
        await _send_records(past, Listing(request, table, query, media_type))


async def _send_records(past: PastQueries, listing: Listing) -> None:
    """Respond with records: by id in pieces, in any other order as a whole."""
    request, table, query = listing.request, listing.table, listing.query
    related = query.select is not None and bool(query.select.related)
    whole = related or query != Query(query.where, query.select, limit=query.limit)
    pages = _limited(past.pages(table, query, request.caller), query.limit)
    if whole:
        page = await past.search(table, query, request.caller)
        select, spelling = query.select, listing.spelling
        found = await past.related.joined(table, select, page.records, request.caller, spelling)
        listing.joined.update(found if related else {})
    else:
        page = Page(await past.position(table), await anext(pages, []))
    if request.is_head:
        await send_headers(request.send, 200, listing.headers(page))
    elif whole:
        await listing.send_whole(page)
    else:
        await _stream(listing, page, pages)


async def _stream(listing: Listing, page: Page, pages: AsyncIterator[Sequence[Record]]) -> None:
    """Send the first page and all later ones."""
    current_read_caller().renew()  # the query timeout applies to each page
    second = await anext(pages, None)
    send, rows = listing.request.send, listing.encoder(page, None, more=second is not None)
    await send({"type": "http.response.start", "status": 200, "headers": listing.headers(page)})
    piece = b"".join((rows.begin(), *map(rows.row, page.records)))
    await send({"type": "http.response.body", "body": piece, "more_body": True})
    while second is not None:
        listing.request.check_rights()
        piece = b"".join(map(rows.row, second))
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        current_read_caller().renew()
        second = await anext(pages, None)
    await send({"type": "http.response.body", "body": rows.end()})


async def _limited(
    pages: AsyncIterator[list[Record]], left: int | None
) -> AsyncIterator[list[Record]]:
    """Yield the records of pages, up to the limit."""
    async for page in pages:
        found = page[:left]
        left = None if left is None else left - len(found)
        yield found
        if left == 0:
            return
