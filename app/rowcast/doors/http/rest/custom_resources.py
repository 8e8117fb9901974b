"""Resource classes: GET and POST implemented by code in ``resources/``.

Put, patch, delete and publish call the class through the kernel, from every door; get and post have
no event, so they are called here.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, cast

from rowcast.codecs import RAW, decode, encode_answer, is_structured, negotiate
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Table
from rowcast.doors.http.messages.asgi import HeaderList, path_of
from rowcast.doors.http.messages.bodies import content_type_of
from rowcast.doors.http.messages.problems import as_error
from rowcast.doors.http.messages.replies import send_bytes, send_empty
from rowcast.doors.http.rest.downloads import send_download
from rowcast.doors.http.rest.request import VALUE_TYPES, Request, new_event, position_headers
from rowcast.routes.exact_decimals import decoded_exactly
from rowcast.routes.resource import Resource
from rowcast.rows.download import Download
from rowcast.seams.user_code import is_mistake

_NOT_TAKEN: Final = (
    "If-Match",
    "If-None-Match",
    "If-Unmodified-Since",
    "Rowcast-Producer",
    "Rowcast-Version",
)
"""Headers of a write that are of no effect on a class's own ``post``."""


async def get(request: Request) -> None:
    """Answer GET with the result of the class's ``get``; None is NOT_FOUND."""
    request.kernel.authorise_read(request.topic, request.caller)
    if request.parameters.count:  # a class's result may be truncated, so its length is no count
        raise Error(
            Code.INVALID,
            f"there is no count at {path_of(request.topic)!r}, which is not a plain table; leave "
            "it out and count what comes",
        )
    resource = _resource(request)
    query = _query(request)
    value = await _call(request, lambda: resource.get(query))
    if value is None:
        raise Error(Code.NOT_FOUND, f"there is nothing at {path_of(request.topic)!r}")
    if isinstance(value, Download):
        await send_download(request, value)
        return
    await _send_value(request, value, HTTPStatus.OK, [])


async def post(request: Request) -> None:
    """Answer POST with the result of the class's ``post``."""
    _check_headers(request)
    resource = _resource(request)
    request.kernel.rights.check_resource(request.topic, request.caller)
    body = await request.body()
    resource.caller = request.caller
    content_type = content_type_of(request.headers, body, request.route.shape)
    event = new_event(request.topic, MESSAGE, body, content_type, request.caller)
    await request.kernel.hooks.authorise(request.caller, event)
    value: object = body or None
    if body and (content_type is None or is_structured(content_type)):
        value = decode(body, content_type)
        registry = request.kernel.registry
        value = decoded_exactly(registry, request.topic, value, body, content_type)
    result = await _posted(request, resource, value)
    extra: HeaderList = []
    status = HTTPStatus.OK
    if resource.began:
        status = HTTPStatus.ACCEPTED
        extra = [(b"location", path_of(resource.began).encode())]
    elif resource.receipt is not None:
        extra = position_headers(request.kernel, resource.receipt.event)
        if not resource.receipt.existed and resource.receipt.event.kind != MESSAGE:
            status = HTTPStatus.CREATED
            extra.append((b"location", path_of(resource.receipt.event.topic).encode()))
    if result is None:
        await send_empty(request.send, HTTPStatus.NO_CONTENT, extra)
    else:
        await _send_value(request, result, status, extra)


def _check_headers(request: Request) -> None:
    """Raise INVALID for a header whose promise the server cannot keep for a class."""
    for name in _NOT_TAKEN:
        if name.lower().encode() in request.headers:
            raise Error(
                Code.INVALID,
                f"the resource at {path_of(request.topic)!r} has a post of its own, which takes no "
                f"{name}; leave it out",
            )


async def _posted(request: Request, resource: Resource, value: object) -> object:
    """Call ``post``, and audit it if it is administrative."""
    refused: Error | None = None
    try:
        return await _call(request, lambda: resource.post(value))
    except Error as error:
        refused = error
        raise
    finally:
        request.kernel.listeners.administered(request.caller, "post", request.topic, value, refused)


def _resource(request: Request) -> Resource:
    return cast("Resource", request.kernel.resource(request.topic, request.caller))


def _query(request: Request) -> Query | None:
    """Return the request's query, None when there is none."""
    text = request.parameters.query
    table = request.route.table or Table(request.topic, None)
    return parse_query(text, table) if text else None


async def _call(request: Request, verb: Callable[[], Awaitable[object]]) -> object:
    """Call user code; exceptions other than Error are logged, and answered with an incident id.

    So is what is no Exception, such as SystemExit, by which asyncio would end the server.
    """
    try:
        return await verb()
    except BaseException as failure:
        if not is_mistake(failure):
            raise
        raise as_error(
            failure, f"{request.method} of the resource at {request.topic!r}"
        ) from failure


async def _send_value(request: Request, value: object, status: int, extra: HeaderList) -> None:
    if isinstance(value, bytes):
        await send_bytes(request.send, status, RAW, value, extra, head=request.is_head)
        return
    media_type = negotiate(request.accept, VALUE_TYPES)
    try:
        body = encode_answer(value, media_type)
    except Error as error:
        mistake = TypeError(error.message)
        raise as_error(mistake, f"encoding what {request.topic!r} returned") from error
    await send_bytes(request.send, status, media_type, body, extra, head=request.is_head)
