"""GET and HEAD: a record, one of its properties, a collection, or a table's description."""

from collections.abc import Coroutine
from functools import reduce
from typing import Final

from rowcast.codecs import CSV, JSON, NDJSON, content_type_header, encode_answer, negotiate
from rowcast.core.conditions import ID_PATH, Condition, Operator
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import project
from rowcast.core.events import Record, local_id
from rowcast.core.meta import with_meta
from rowcast.core.queries import Query, Select
from rowcast.core.query_text import parse_query
from rowcast.core.relations import relation_of
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.values import parse_id
from rowcast.doors.http.messages.asgi import path_of
from rowcast.doors.http.messages.periods import NO_BUCKETS, OPENING, Period
from rowcast.doors.http.messages.replies import EMPTY, SELECTED, send_bytes, unless_gone
from rowcast.doors.http.rest import custom_resources as customs
from rowcast.doors.http.rest import descriptions, history, listings, long_poll
from rowcast.doors.http.rest.allowed_methods import is_collection, is_description, not_offered
from rowcast.doors.http.rest.asof import past_asked, send_then
from rowcast.doors.http.rest.conditions import check_read_condition, not_modified
from rowcast.doors.http.rest.descriptions import SYSTEM
from rowcast.doors.http.rest.path_forms import Reading, readings
from rowcast.doors.http.rest.representations import (
    prepare,
    representation,
    send_representation,
    validators_of,
)
from rowcast.doors.http.rest.request import RECORD_TYPES, Request

_ELSEWHERE: Final = frozenset({Code.NOT_FOUND, Code.INVALID, Code.UNPROCESSABLE})
"""Codes of a wrong interpretation of a path."""


async def get(request: Request) -> None:
    """Answer GET and HEAD; its reads are queued fairly, and have a timeout (P1)."""
    with request.kernel.reader.queue.attributed_to(request.caller):
        await _get(request)


async def _get(request: Request) -> None:
    route, period = request.route, request.parameters.period
    if route.overrides("get"):
        rows = route.topic.startswith(SYSTEM) and not route.record_id
        await (_while_there(request, customs.get(request)) if rows else customs.get(request))
    elif period is not None and period.asof is None:
        await _while_there(request, _send_past(request, period))
    elif route.topic == SYSTEM:
        await descriptions.send_system_index(request)
    elif is_collection(route):
        await _while_there(request, _send_collection(request, route.record_id))
    elif is_description(route):
        _check_description(request)
        await descriptions.send_description(request)
    elif route.entry is not None and route.shape is None:
        raise not_offered(route, request.method)
    elif not route.topic:
        await descriptions.send_index(request)
    elif period is not None:
        await _while_there(request, _get_record(request))
    else:
        await _get_record(request)


async def _send_past(request: Request, period: Period) -> None:
    """Respond with history, or with what comes after it."""
    if period.live and not request.is_head:
        await long_poll.send_next(request, await history.answer_to(request, period))
    else:
        await history.send_history(request, period)


def _check_description(request: Request) -> None:
    """Raise for a query at a table's path without the slash: its records are below it."""
    counted = "count" if request.parameters.count else ""
    if text := request.parameters.query or counted:
        where = path_of(request.topic)
        raise Error(
            Code.INVALID,
            f"{where!r} is the table's description, which takes no query; its records are at "
            f"'{where}/?{text[:100]}'",
        )


async def _while_there(request: Request, work: Coroutine[object, object, None]) -> None:
    """Run long work, and cancel it with all its reads when the client disconnects."""
    await unless_gone(request.receive, work)


async def _get_record(request: Request) -> None:
    """Respond with the first interpretation of the path that exists.

    An id with a dot is found under its full name, even if it ends like a format.
    """
    missing: Error | None = None
    for reading in readings(request.topic, request.route.table):
        if request.route.table is not None and reading.topic.endswith("/"):
            prefix = local_id(request.route.table, reading.topic)
            await _while_there(request, _send_collection(request, prefix, reading.media_type))
            return
        try:
            record = await _record(request, reading.topic)
        except Error as error:
            if error.code not in _ELSEWHERE:
                raise
            missing = missing or error
            continue
        await _send_record(request, record, reading)
        return
    if await _send_related(request):
        return
    if request.topic.startswith(SYSTEM):
        raise _no_system_row(request)
    _check_followed(request)
    raise missing or Error(Code.NOT_FOUND, f"there is no record at {path_of(request.topic)!r}")


async def _send_related(request: Request) -> bool:
    """Respond with what a record's relationship leads to, such as ``Dog/1/owner`` (B8)."""
    kernel, table = request.kernel, request.route.table
    topic, _, name = request.topic.rpartition("/")
    relation = None if table is None else relation_of(table, name, kernel.registry.related)
    if table is None or relation is None or not local_id(table, topic):
        return False
    past = past_asked(request)
    record = await _record(request, topic)
    kernel.transcoder.structured(record)
    keys = tuple(relation.keys(record.decoded, parse_id(table, local_id(table, topic))))
    where = Condition(relation.other, Operator.IN, keys)
    if relation.many and past is not None:
        await send_then(request, past, relation.table, where=where)
        return True
    if relation.many:
        await _while_there(request, listings.send_related(request, relation.table, where))
        return True
    reads = kernel if past is None else past
    page = await reads.search(relation.table, Query(where, limit=1), request.caller)
    if not page.records:
        raise Error(Code.NOT_FOUND, f"{path_of(topic)!r} has no {name}")
    await _send_record(request, page.records[0], Reading(page.records[0].topic))
    return True


def _check_followed(request: Request) -> None:
    """Raise for a path that goes on after a relationship, such as ``Owner/ann/dogs/1``."""
    table, related = request.route.table, request.kernel.registry.related
    if table is None:
        return
    levels = local_id(table, request.topic).split("/")
    for at, name in enumerate(levels[1:-1], 2):
        relation = relation_of(table, name, related)
        if relation is not None:
            where, rest = path_of(request.topic), "/" + "/".join(levels[at:])
            raise Error(
                Code.NOT_FOUND,
                f"there is no record at {where!r}; a path ends with its first relationship, at "
                f"{where.removesuffix(rest)!r}, and each related record is at a path of its own, "
                f"below {path_of(relation.table.topic(''))!r}",
            )


def _no_system_row(request: Request) -> Error:
    """Return the Error for an unknown path of system rows."""
    path = "/".join(request.topic.split("/", 2)[:2])
    known = descriptions.system_paths(request.kernel)
    hint = did_you_mean(path, known) if path not in known else ""
    where = path_of(request.topic)
    return Error(
        Code.NOT_FOUND, f"there is no record at {where!r}{hint or '; /$SYS/ lists what there is'}"
    )


async def _send_collection(request: Request, prefix: str, media_type: str | None = None) -> None:
    """Respond with a table's records, current or past."""
    past = past_asked(request)
    if past is None:
        await listings.send_collection(request, prefix, media_type)
    else:
        where = Condition(ID_PATH, Operator.STARTS_WITH, prefix) if prefix else None
        await send_then(request, past, request.route.table, media_type, where)


async def _record(request: Request, topic: str) -> Record:
    """Return the record at a topic, current or past."""
    past = past_asked(request)
    if past is None:
        return await request.kernel.read(topic, request.caller)
    return await past.record(topic, request.kernel.registry.route(topic).table, request.caller)


async def _send_record(request: Request, record: Record, reading: Reading) -> None:
    parameters = request.parameters
    if parameters.count:
        raise Error(
            Code.INVALID,
            f"{path_of(request.topic)!r} is no collection, whose records are counted; leave count "
            "out, or ask a collection, such as '/Dog/?count'",
        )
    if reading.path or parameters.meta or parameters.query:
        await _send_parts(request, record, reading)
        return
    accept = request.headers.get(b"accept")
    await prepare(request.kernel, record, accept, reading.media_type)
    kept = representation(request.kernel, record, accept, reading.media_type)
    await send_representation(kept, request.headers, request.send, head=request.is_head)


async def _send_parts(request: Request, record: Record, reading: Reading) -> None:
    """Respond with the selected parts of a record."""
    headers, send = request.headers, request.send
    media_type = reading.media_type or negotiate(request.accept, RECORD_TYPES)
    other = None if media_type == JSON else media_type
    validators = validators_of(request.kernel, record, other)
    etag = validators[0][1]
    check_read_condition(headers, etag, record.version)
    conditional = b"if-none-match" in headers or b"if-modified-since" in headers
    select = _select_of(request, record) if request.parameters.query else None
    # _stale changes by time, and related records change without this one
    ages = record.table is not None and record.table.deadline_seconds > 0
    ages = ages or (select is not None and bool(select.related))
    if conditional and not ages and not_modified(headers, etag, record.version):
        await send(
            {"type": "http.response.start", "status": 304, "headers": [*validators, *SELECTED]}
        )
        await send(EMPTY)
        return
    value = await _parts(request, record, reading.path, media_type, select)
    await _check_selected(request, record, select)
    body = encode_answer([value] if media_type == NDJSON else value, media_type)
    content_type = content_type_header(media_type)
    await send_bytes(send, 200, content_type, body, validators, head=request.is_head)


async def _check_selected(request: Request, record: Record, select: Select | None) -> None:
    """Raise for a misspelt name in ``select``, which no record of the table has."""
    table = record.table
    if select is not None and table is not None:
        query = Query(select=select)
        await request.kernel.readable.check_names(table, query, (record,), request.caller)


async def _parts(
    request: Request,
    record: Record,
    path: tuple[str, ...],
    media_type: str,
    select: Select | None,
) -> object:
    """Return a property, or the selected parts with their metadata."""
    spelling = JSON if media_type in {CSV, NDJSON} else media_type
    value = request.kernel.transcoder.spelled(record, spelling)
    if path:
        return reduce(_member, path, value)
    table = record.table or Table(record.topic, None)
    if select is not None and select.related and isinstance(value, dict):
        kernel, caller = request.kernel, request.caller
        past = past_asked(request)
        related = kernel.related if past is None else past.related
        joined = await related.joined(table, select, [record], caller, spelling)
        value = value | joined[record.topic]
    value = project(select, value, parse_id(table, local_id(record.table, record.topic)))
    if request.parameters.meta:
        kernel = request.kernel
        return with_meta(value, record, kernel.reader.epoch, kernel.now())
    return value


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _select_of(request: Request, record: Record) -> Select | None:
    table, text = record.table or Table(record.topic, None), request.parameters.query
    query = parse_query(text, table, tables=request.kernel.registry.related)
    if query != Query(select=query.select):
        if table.attribute("fn") is None and any(term[:3] == "fn=" for term in text.split("&")):
            raise Error(Code.INVALID, NO_BUCKETS)
        hint = did_you_mean(text.partition("=")[0], (*OPENING, "select", "meta"))
        raise Error(
            Code.INVALID,
            "one record has no conditions, order or limit; only select(...) means something here, "
            f"or a query at the collection, such as {path_of(table.topic(''))!r}{hint}",
        )
    return query.select
