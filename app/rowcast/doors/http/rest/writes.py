"""PUT, PATCH, DELETE and POST: each becomes one event, or a batch, for the kernel."""

from collections.abc import Awaitable
from http import HTTPStatus
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event, Record, local_id
from rowcast.core.values import parse_id
from rowcast.doors.http.messages.asgi import path_of, whole_answer
from rowcast.doors.http.messages.bodies import content_type_of, is_batch, patch_type_of
from rowcast.doors.http.messages.replies import send_empty, send_headers
from rowcast.doors.http.rest import batch, query_writes
from rowcast.doors.http.rest import custom_resources as customs
from rowcast.doors.http.rest.allowed_methods import is_collection, not_offered, writes_by_query
from rowcast.doors.http.rest.conditions import CONDITIONS, write_condition
from rowcast.doors.http.rest.request import Request, outcome_headers, position_headers
from rowcast.doors.http.uvicorn_fastpath import write_whole
from rowcast.routes.registry import Route
from rowcast.writes.write import A_RECORD, Condition

_UPSERT: Final = (
    "upsert is for a POST of records to a collection; PUT and PATCH of a record do the same"
)


def put(request: Request) -> Awaitable[None]:
    """Set the record to the body; at a collection, each record of a batch."""
    route = request.route
    if not request.parameters.retain:
        return _send_message(request)
    if not route.record_id and is_collection(route):
        return batch.put(request)
    body = request.arrived_body()
    if body is None:
        return _put_later(request)
    if not body and not route.overrides("put"):
        raise Error(Code.INVALID, "the body is empty, which is no record; DELETE removes one")
    event = request.event(PUT, body, content_type_of(request.headers, body, route.shape))
    return _write(request, event)


async def _put_later(request: Request) -> None:
    await request.body()
    await put(request)


async def _write(request: Request, event: Event) -> None:
    """Run a write of a record, and respond with 201 if it is new."""
    condition = None if CONDITIONS.isdisjoint(request.headers) else await _condition(request)
    receipt = await request.kernel.write(event, request.caller, condition)
    extra = position_headers(request.kernel, receipt.event)
    if receipt.late or receipt.repeat or receipt.unfit:
        extra += outcome_headers(receipt)
    status = HTTPStatus.ACCEPTED if receipt.unfit else HTTPStatus.NO_CONTENT
    if receipt.event.seq and not receipt.existed:
        status = HTTPStatus.CREATED
        extra += ((b"location", path_of(request.topic).encode()), (b"content-length", b"0"))
    if not write_whole(request.send, whole_answer(status, extra)):
        await send_headers(request.send, status, extra)


async def patch(request: Request) -> None:
    """Merge the body into the record (RFC 7396), or into all that a query selects.

    A missing record is created.
    """
    if not request.parameters.retain:
        raise Error(Code.INVALID, "a message patches nothing; POST with retain=false sends one")
    body = await request.body()
    event = request.event(PATCH, body, patch_type_of(request.headers, body, request.route.shape))
    by_query = writes_by_query(request.route, "PATCH")
    await (query_writes.write(request, event) if by_query else _write(request, event))


async def delete(request: Request) -> None:
    """Remove the record, or all that a query selects; NOT_FOUND when the path has none."""
    if not request.parameters.retain:
        raise Error(Code.INVALID, "a message cannot be deleted; leave retain=false out")
    event = request.event(DELETE, b"", None)
    if writes_by_query(request.route, "DELETE"):
        await query_writes.write(request, event)
        return
    asked = None if CONDITIONS.isdisjoint(request.headers) else await _condition(request)
    condition = asked or A_RECORD
    if condition.exists is None:
        condition = Condition(True, condition.seqs, condition.not_seqs, strict=True)
    receipt = await request.kernel.write(event, request.caller, condition)
    extra = [*position_headers(request.kernel, receipt.event), *outcome_headers(receipt)]
    await send_empty(request.send, HTTPStatus.NO_CONTENT, extra)


async def post(request: Request) -> None:
    """Create a record of a collection, or several; with ``retain=false`` send a message."""
    route, parameters = request.route, request.parameters
    if parameters.upsert and not (parameters.retain and _creates(route)):
        raise Error(Code.INVALID, _UPSERT)
    if not parameters.retain:
        await _send_message(request)
    elif route.overrides("post"):
        await customs.post(request)
    elif _creates(route):
        await _create(request)
    else:
        hint = "POST to the collection, or with ?retain=false for a message"
        raise not_offered(route, "POST", hint)


def _creates(route: Route) -> bool:
    """Whether a POST creates records there."""
    return is_collection(route) and not route.record_id and not route.overrides("post")


async def _create(request: Request) -> None:
    shape = request.route.shape
    if shape is None:
        raise not_offered(request.route, "POST")
    if not CONDITIONS.isdisjoint(request.headers):
        raise Error(
            Code.INVALID, "a POST that creates a record takes no conditions; PUT it to its own path"
        )
    body = await request.body()
    content_type = content_type_of(request.headers, body, shape)
    if request.parameters.upsert:
        await batch.upsert(request, body, content_type)
        return
    if is_batch(body, content_type):
        await batch.create(request, body, content_type)
        return
    event = request.event(PUT, body, content_type)
    receipt = await request.kernel.create(request.topic, event, request.caller)
    if receipt.unfit:
        await send_empty(request.send, HTTPStatus.ACCEPTED, outcome_headers(receipt))
        return
    made = receipt.event
    extra = [*position_headers(request.kernel, made), *outcome_headers(receipt)]
    extra.append((b"location", path_of(made.topic).encode()))
    record_id = parse_id(shape.table, local_id(shape.table, made.topic))
    await request.answer({"id": record_id}, HTTPStatus.CREATED, extra)


async def _send_message(request: Request) -> None:
    """Send the body to the topic's subscribers; the record does not change (B10).

    204 with its position when it is logged; 202 when it is not, because there may be no subscriber.
    """
    if not CONDITIONS.isdisjoint(request.headers):
        raise Error(Code.INVALID, "a message takes no conditions; only a record has a version")
    body = await request.body()
    content_type = content_type_of(request.headers, body, request.route.shape)
    event = request.event(MESSAGE, body, content_type)
    receipt = await request.kernel.write(event, request.caller)
    extra = [*position_headers(request.kernel, receipt.event), *outcome_headers(receipt)]
    status = HTTPStatus.NO_CONTENT if receipt.event.seq else HTTPStatus.ACCEPTED
    await send_empty(request.send, status, extra)


async def _condition(request: Request) -> Condition | None:
    """Return the condition of a request that has one."""
    headers = request.headers
    current: Record | None = None
    if b"if-unmodified-since" in headers and b"if-match" not in headers:
        current = await request.kernel.reader.get(request.route.table, request.topic)
        if current is not None:
            current = request.kernel.rights.record(request.caller, current)
    return write_condition(request.kernel, headers, current)
