"""Records at a past time: a GET with ``asof`` (B14).

A single record is answered like any other. A table is streamed in the order of ids, page by page;
each record is reconstructed, so conditions use no index, and no other order is possible.
"""

from collections.abc import AsyncIterator, Sequence

from rowcast.codecs import negotiate
from rowcast.core.conditions import holds
from rowcast.core.errors import Code, Error
from rowcast.core.events import Record, local_id
from rowcast.core.moments import Moment
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.core.values import parse_id
from rowcast.doors.http.messages.replies import send_headers
from rowcast.doors.http.rest.listings import Listing, within
from rowcast.doors.http.rest.request import ROW_TYPES, Request
from rowcast.features.history.history import history_of
from rowcast.reads.read_queue import asker_now
from rowcast.store.store import Page


def moment_asked(request: Request) -> Moment | None:
    """Return the requested time; None: now. Raises INVALID."""
    period = request.parameters.period
    if period is None or period.asof is None:
        return None
    return history_of(request.kernel).bygone(period.asof, "asof")


async def send_then(
    request: Request, prefix: str, moment: Moment, media_type: str | None = None
) -> None:
    """Respond with a table's records at a past time."""
    table = request.route.table
    if table is None:
        raise Error(Code.NOT_FOUND, "only a table has records to be listed as they were")
    query = within(prefix, parse_query(request.parameters.query, table))
    if request.parameters.count or query != Query(query.where, query.select, limit=query.limit):
        raise Error(
            Code.INVALID,
            "records as they were come by id, with conditions, select and limit; not with sort, "
            "count, a page token or a range",
        )
    media_type = media_type or negotiate(request.accept, ROW_TYPES)
    past = history_of(request.kernel)
    position = await past.position(table, moment)
    listing = Listing(request, table, query, media_type)
    pages = _selected(listing, past.records(table, position, request.caller))
    first = await anext(pages, None)
    page = Page(position, first or [])
    if request.is_head:
        await send_headers(request.send, 200, listing.headers(page))
        return
    await _stream(listing, page, pages)


async def _stream(listing: Listing, page: Page, pages: AsyncIterator[Sequence[Record]]) -> None:
    """Send the first page and all later ones."""
    send, rows = listing.request.send, listing.encoder(page, None)
    await send({"type": "http.response.start", "status": 200, "headers": listing.headers(page)})
    piece = b"".join((rows.begin(), *map(rows.row, page.records)))
    await send({"type": "http.response.body", "body": piece, "more_body": True})
    asker_now().renew()
    async for records in pages:
        asker_now().renew()  # the query timeout applies to each page
        piece = b"".join(map(rows.row, records))
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": rows.end()})


async def _selected(
    listing: Listing, pages: AsyncIterator[list[Record]]
) -> AsyncIterator[list[Record]]:
    """Yield the records that match the conditions, up to the limit."""
    query, table, transcoder = listing.query, listing.table, listing.request.kernel.transcoder
    left = query.limit
    async for page in pages:
        found = []
        for record in page:
            transcoder.structured(record)  # from the log, not decoded yet
            record_id = parse_id(table, local_id(table, record.topic))
            if holds(query.where, record.decoded, record_id):
                found.append(record)
        found = found[:left]
        left = None if left is None else left - len(found)
        yield found
        if left == 0:
            return
