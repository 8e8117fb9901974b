"""PATCH and DELETE of the records that a query selects, at a collection (B12).

    DELETE /Dog/?age=gt=10            {"count": 3, "position": "0badcafe:17"}
    DELETE /Dog/?age=gt=10&dry_run    {"count": 3, "sample": ["1", "7", "8"], "dry_run": true}
    PATCH /Dog/?confirm=12            all of them, if they are twelve

``kernel/query_writes.py`` selects and writes them.
"""

from rowcast.codecs import JSON, decode
from rowcast.core.errors import Code, Error
from rowcast.core.events import PATCH, Event
from rowcast.core.query_text import parse_query
from rowcast.doors.http.rest.allowed_methods import not_offered
from rowcast.doors.http.rest.conditions import CONDITIONS
from rowcast.doors.http.rest.request import Request
from rowcast.kernel.query_writes import QueryWrite
from rowcast.writes.write import Receipt


async def write(request: Request, event: Event) -> None:
    """Write each record that the query selects as this event says."""
    _check_headers(request)
    table, parameters = request.route.table, request.parameters
    if table is None:
        raise not_offered(request.route, request.method)
    kernel = request.kernel
    asked_for = parse_query(parameters.query, table, tables=kernel.registry.related)
    query = await kernel.related.resolved(asked_for, request.caller)
    if query.select is not None or query.after is not None:
        raise Error(Code.INVALID, "a write by query has no select(...) and no after(...)")
    if event.kind == PATCH:  # told also where no record is selected, and by a dry run
        decode(event.payload, event.content_type or JSON)
    most = request.edge.settings.query_writes_max
    asked = QueryWrite(event, table, query, most, parameters.confirm)
    writes = request.kernel.query_writes
    with request.kernel.reader.queue.attributed_to(request.caller):
        if parameters.dry_run:
            preview = await writes.preview(asked, request.caller)
            body = {"count": preview.count, "sample": list(preview.sample), "dry_run": True}
            await request.answer(body)
            return
        outcomes = await writes.write(asked, request.caller)
    seqs = [item.event.seq for item in outcomes if isinstance(item, Receipt)]
    position = request.kernel.cursor(seqs[-1]) if seqs and seqs[-1] else None
    extra = [] if position is None else [(b"rowcast-position", position.encode())]
    await request.answer({"count": len(outcomes), "position": position}, extra=extra)


def _check_headers(request: Request) -> None:
    """Raise for headers that belong to a write of one record."""
    headers = request.headers
    if not CONDITIONS.isdisjoint(headers):
        raise Error(
            Code.INVALID,
            "a write by query takes no If-Match; its conditions are in the query",
        )
    if request.claim is not None or b"rowcast-producer" in headers:
        raise Error(
            Code.INVALID,
            "a write by query has no number or key, because a repeat selects other records; leave "
            "Idempotency-Key and Rowcast-Producer out, and write confirm=<count> for safety",
        )
    if b"rowcast-version" in headers:
        raise Error(Code.INVALID, "a write by query brings no version; leave Rowcast-Version out")
