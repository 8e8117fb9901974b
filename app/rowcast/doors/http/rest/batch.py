"""Batches: several records of one table in one request (B11).

The records are independent, and the response is a list of outcomes in their order; with
``atomic=true`` all are written or none. They are written in the order of the list, so their
positions increase.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from itertools import zip_longest
from typing import Final
from uuid import uuid4

from rowcast.codecs import CBOR, CBOR_SEQ, JSON, NDJSON, codec_for, decode_items, encode
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event, local_id
from rowcast.core.limits import HTTP_BATCH_RECORDS_MAX
from rowcast.core.tables import Table, Type
from rowcast.core.values import id_text, parse_id
from rowcast.doors.http.messages.asgi import HeaderList, path_of
from rowcast.doors.http.messages.bodies import content_type_of
from rowcast.doors.http.messages.problems import as_error, problem, status_of
from rowcast.doors.http.rest.allowed_methods import not_offered
from rowcast.doors.http.rest.request import Request, new_event
from rowcast.kernel.creation import NO_RECORD, taken
from rowcast.reads.loop_turns import in_turns
from rowcast.rows.compiled_table import give_value
from rowcast.writes.write import Condition, Outcome, Receipt

_TOGETHER: Final = "nothing was written, because: "
_SINGLE: Final = {NDJSON: JSON, CBOR_SEQ: CBOR}
"""The format of one record of a sequence."""
_NUMBERED: Final = frozenset({Type.INT, Type.LONG})


async def put(request: Request) -> None:
    """Write records with ids: each replaces the current one."""
    table = _table(request)
    body = await request.body()
    content_type = content_type_of(request.headers, body, request.route.shape)
    media_type = _single(content_type)
    values, payloads = _values(request, body, content_type)
    await _put_all(request, table, values, media_type, payloads)


async def upsert(request: Request, body: bytes, content_type: str | None) -> None:
    """Write records with and without ids: each replaces the current one, or is new.

    Where the table numbers its records, those without an id are written after the others, so that
    no record takes a number that was just given.
    """
    table = _table(request)
    media_type = _single(content_type)
    values, _ = _values(request, body, content_type)
    named = [_named(table, value) for value in values]
    await _put_all(request, table, named, media_type)


async def _put_all(
    request: Request,
    table: Table,
    values: Sequence[object],
    media_type: str,
    payloads: Sequence[bytes] = (),
) -> None:
    """Write records with ids, and for an upsert create those that have none; and respond.

    ``payloads`` are the bytes of the values, in their order, where these need not be encoded.
    """
    marked = len(values) - 1 if request.marks_last else 0
    prepared = await _prepare_all(request, table, values, media_type, payloads, marked)
    if request.parameters.atomic:
        await _write_together(request, table, _all_of(prepared))
        return
    events = [item for item in prepared if isinstance(item, Event)]
    written = iter(await request.kernel.write_all(events, request.caller, atomic=False))
    outcomes = [next(written) if isinstance(item, Event) else item for item in prepared]
    if request.parameters.upsert:
        new = [(index, value) for index, value in enumerate(values) if _is_nameless(table, value)]
        created = await _create_each(request, table, new, media_type)
        for (index, _), outcome in zip(new, created, strict=True):
            outcomes[index] = outcome
    await _answer(request, table, outcomes, values)


async def create(request: Request, body: bytes, content_type: str | None) -> None:
    """Create records: those without an id get a new one, an existing id is a CONFLICT."""
    table = _table(request)
    media_type = _single(content_type)
    values, _ = _values(request, body, content_type)
    if request.parameters.atomic:
        await _create_together(request, table, values, media_type)
        return
    outcomes = await _create_each(request, table, list(enumerate(values)), media_type)
    await _answer(request, table, outcomes, values)


def _table(request: Request) -> Table:
    if b"rowcast-version" in request.headers:
        raise Error(Code.INVALID, "a batch brings no version; write its records one by one")
    table = request.route.table
    if table is None:
        raise not_offered(request.route, request.method)
    return table


def _single(content_type: str | None) -> str:
    media_type = codec_for(content_type).media_type
    return _SINGLE.get(media_type, media_type)


def _values(
    request: Request, body: bytes, content_type: str | None
) -> tuple[list[object], Sequence[bytes]]:
    """Return the records of a batch, as values, and the bytes of each where they are in it."""
    values: list[object] = []
    rows, payloads = decode_items(body, content_type)
    for value in rows:
        values.append(value)
        if len(values) > HTTP_BATCH_RECORDS_MAX:
            raise Error(
                Code.TOO_LARGE, f"a batch has at most {HTTP_BATCH_RECORDS_MAX} records; divide it"
            )
    shape = request.route.shape
    return values if shape is None else shape.all_exactly(values, body, content_type), payloads


def _id_name(table: Table) -> str:
    return table.primary_key.name if table.primary_key else "id"


# -- put -------------------------------------------------------------------------------------------


async def _prepare_all(
    request: Request,
    table: Table,
    values: Sequence[object],
    media_type: str,
    payloads: Sequence[bytes] = (),
    marked: int = 0,
) -> list[Event | Error]:
    """Return the event of each record, or its Error; each has its own number (M8).

    Those before the record ``marked`` get no mark.
    """
    prepared: list[Event | Error] = []
    async for some in in_turns(list(zip_longest(values, payloads))):
        for value, payload in some:
            item = _prepare(request, table, value, payload, media_type)
            if isinstance(item, Event) and len(prepared) >= marked:
                request.mark(item, len(prepared))
            prepared.append(item)
    return prepared


def _prepare(
    request: Request, table: Table, value: object, payload: bytes | None, media_type: str
) -> Event | Error:
    """Return the event of one record, or its Error; without a payload the value is encoded."""
    name = _id_name(table)
    if not isinstance(value, dict) or value.get(name) is None:
        return Error(
            Code.UNPROCESSABLE, f"each record of a batch is an object with its id under {name!r}"
        )
    try:
        topic = table.topic(id_text(value[name]))
        if table.primary_key is None:  # the id is only an address, added by a listing
            value, payload = {key: item for key, item in value.items() if key != name}, None
        content = encode(value, media_type) if payload is None else payload
        event = new_event(topic, PUT, content, media_type, request.caller)
    except Error as error:
        return error
    give_value(event, value)
    return event


def _all_of(prepared: Sequence[Event | Error]) -> list[Event]:
    for index, item in enumerate(prepared):
        if isinstance(item, Error):
            raise _indexed(item, index)
    return [item for item in prepared if isinstance(item, Event)]


def _indexed(error: Error, index: int) -> Error:
    """Return the Error of a batch caused by one record."""
    detail = error.detail | {"index": index}
    return Error(error.code, f"{_TOGETHER}record {index}: {error.message}", **detail)


async def _write_together(
    request: Request, table: Table, events: list[Event], condition: Condition | None = None
) -> None:
    """Write all or none, and respond; ``condition`` is that of each."""
    if request.route.overrides("put"):
        raise Error(
            Code.NOT_ALLOWED,
            f"the resource at {path_of(table.topic(''))!r} has a put of its own, which "
            "takes records one by one; leave atomic out",
        )
    wants_existed = not request.prefers_minimal  # else nobody is told which are new
    conditions = [] if condition is None else [condition] * len(events)
    try:
        outcomes = await request.kernel.write_all(
            events,
            request.caller,
            atomic=True,
            conditions=conditions,
            wants_existed=wants_existed,
        )
    except Error as error:
        index = error.detail.get("index")
        raise _indexed(error, index) if isinstance(index, int) else error from None
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, Error) and not outcome.message.startswith(_TOGETHER):
            is_taken = condition is NO_RECORD and outcome.code is Code.PRECONDITION
            raise _indexed(taken(events[index].topic, outcome) if is_taken else outcome, index)
    await _answer(request, table, outcomes)


# -- create ----------------------------------------------------------------------------------------


async def _create_each(
    request: Request, table: Table, rest: list[tuple[int, object]], media_type: str
) -> list[Outcome]:
    """Create each record independently, in order; each has its index in the batch."""

    async def one(index: int, value: object) -> Outcome:
        try:
            payload = encode(value, media_type)
            event = new_event(request.topic, PUT, payload, media_type, request.caller)
            request.mark(event, index)
            return await request.kernel.create(request.topic, event, request.caller)
        except Exception as failure:  # noqa: BLE001 - as_error logs it
            return as_error(failure, f"a batch at {request.topic!r}")

    outcomes: list[Outcome] = []
    key = table.primary_key
    if rest and key is not None and key.type in _NUMBERED:
        outcomes = [await one(*rest[0])]  # finds the last number; later ones need no wait
    tasks: list[asyncio.Task[Outcome]] = []
    async for some in in_turns(rest[len(outcomes) :]):
        tasks += [asyncio.create_task(one(*each)) for each in some]
    return outcomes + await asyncio.gather(*tasks)


async def _create_together(
    request: Request, table: Table, values: Sequence[object], media_type: str
) -> None:
    """Create all or none."""
    named = [_named(table, value) for value in values]
    events = _all_of(await _prepare_all(request, table, named, media_type))
    await _write_together(request, table, events, NO_RECORD)


def _is_nameless(table: Table, value: object) -> bool:
    return isinstance(value, dict) and value.get(_id_name(table)) is None


def _named(table: Table, value: object) -> object:
    """Return a record with an id: a new one if it has none and the table's key is no counter."""
    name, key = _id_name(table), table.primary_key
    if not _is_nameless(table, value) or not isinstance(value, dict):
        return value
    if key is not None and key.type in _NUMBERED:
        return value
    return {**value, name: str(uuid4())}


# -- response --------------------------------------------------------------------------------------


async def _answer(
    request: Request, table: Table, outcomes: Sequence[Outcome], values: Sequence[object] = ()
) -> None:
    """Respond with one outcome per record; 207 when they differ (RFC 4918, 13).

    Without content where the client prefers that (RFC 7240, 4.2), and all are written.
    """
    if request.prefers_minimal and all(map(_is_plain, outcomes)):
        await request.answer_nothing(_minimal(request, outcomes))
        return
    rows: list[dict[str, object]] = []
    async for some in in_turns(outcomes):
        rows += [_row(request, table, outcome) for outcome in some]
    for row, value in zip(rows, values, strict=False):
        if row["id"] is None and isinstance(value, dict):
            row["id"] = value.get(_id_name(table))
    failed = any("error" in row for row in rows)
    await request.answer(rows, HTTPStatus.MULTI_STATUS if failed else HTTPStatus.OK)


def _is_plain(outcome: Outcome) -> bool:
    """Whether a record was written as it was sent, so that nothing has to be said of it."""
    return isinstance(outcome, Receipt) and not (outcome.unfit or outcome.late)


def _minimal(request: Request, outcomes: Sequence[Outcome]) -> HeaderList:
    """Return the headers of an answer without content: the position of the last record."""
    seqs = [one.event.seq for one in outcomes if isinstance(one, Receipt)]
    applied = (b"preference-applied", b"return=minimal")
    if not any(seqs):
        return [applied]
    return [applied, (b"rowcast-position", request.kernel.cursor(max(seqs)).encode())]


def _row(request: Request, table: Table, outcome: Outcome) -> dict[str, object]:
    kernel = request.kernel
    if isinstance(outcome, Receipt):
        event = outcome.event
        status = HTTPStatus.NO_CONTENT if outcome.existed else HTTPStatus.CREATED
        if outcome.unfit:
            status = HTTPStatus.ACCEPTED
        return {
            "id": parse_id(table, local_id(table, event.topic)),
            "status": int(status),
            "position": kernel.cursor(event.seq) if event.seq else None,
        }
    details = problem(outcome, path_of(request.topic), kernel.cursor)
    return {"id": None, "status": int(status_of(outcome)), "error": details}
