"""REST: one record or collection at a time, at the path of its topic.

``serve`` is the entry point. A GET of a cached record is answered first; every other request
becomes a ``Request`` and is dispatched by its method.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.topics import DELAYED_PREFIX
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import Headers, Receive, Scope, Send, TrackedSend, topic_of
from rowcast.doors.http.messages.cors import preflight
from rowcast.doors.http.messages.parameters import (
    NO_PARAMETERS,
    Parameters,
    query_write_parameters,
    read_parameters,
    write_parameters,
)
from rowcast.doors.http.messages.replies import send_empty
from rowcast.doors.http.rest import reads, writes
from rowcast.doors.http.rest.allowed_methods import (
    not_offered,
    offered,
    takes,
    writes_by_query,
)
from rowcast.doors.http.rest.idempotency import HEADER, carry_out_once
from rowcast.doors.http.rest.representations import (
    Representation,
    kept_representation,
    send_representation,
)
from rowcast.doors.http.rest.request import Request
from rowcast.routes.excluded_tables import check_not_excluded
from rowcast.routes.registry import Registry, Route

DOOR: Final = "rest"
"""The name under which a schema hides a table from this door."""

Verb = Callable[[Request], Awaitable[None]]

VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "GET": reads.get,
        "HEAD": reads.get,
        "PUT": writes.put,
        "PATCH": writes.patch,
        "DELETE": writes.delete,
        "POST": writes.post,
    }
)


def serve(
    edge: HttpDoor, headers: Headers, scope: Scope, receive: Receive, send: TrackedSend
) -> Awaitable[None]:
    """Return the awaitable that responds to one request; each raises the Error that refuses it.

    It is no coroutine itself, which costs a resumption.
    """
    topic = topic_of(scope)
    if topic.startswith(("/", DELAYED_PREFIX)):
        topic = edge.kernel.registry.named(topic)
    if scope["method"] == "GET" and not scope["query_string"]:
        kept = _in_memory(edge, scope, headers, topic)
        if kept is not None:
            send.path, send.named = edge.kernel.registry.route(topic).label
            return send_representation(kept, headers, send)
    return _serve(edge, topic, headers, scope, receive, send)


def _in_memory(edge: HttpDoor, scope: Scope, headers: Headers, topic: str) -> Representation | None:
    """Return the cached answer to a plain GET if the record has not changed."""
    record = edge.kernel.peek(topic, edge.caller(scope, "http"))
    if not isinstance(record, Event) or record.expires_at:
        return None
    return kept_representation(record, headers.get(b"accept"))


def _serve(
    edge: HttpDoor, topic: str, headers: Headers, scope: Scope, receive: Receive, send: TrackedSend
) -> Awaitable[None]:
    """Return what responds to a request that memory alone does not answer."""
    method = scope["method"]
    route = route_of(edge.kernel.registry, topic)
    send.path, send.named = route.label
    if method == "OPTIONS":
        return send_options(offered(route), headers, send)
    verb = VERBS.get(method)
    if verb is None or not takes(route, method):
        raise not_offered(route, method)
    query_string = scope["query_string"]
    caller = edge.caller(scope, "http")
    if method in {"GET", "HEAD"}:
        own = route.overrides("get")  # a resource parses its own parameters
        parameters = read_parameters(query_string, route.table, past=not own)
    else:
        edge.kernel.rights.check_writer(topic, caller)  # before reading an untrusted body
        parameters = _of_write(route, method, query_string) if query_string else NO_PARAMETERS
    request = Request(edge.kernel, edge, scope, headers, route, caller, parameters, receive, send)
    if HEADER in headers and method not in {"GET", "HEAD"}:
        return carry_out_once(request, verb)
    return verb(request)


def _of_write(route: Route, method: str, query_string: bytes) -> Parameters:
    if route.table is not None and writes_by_query(route, method):
        return query_write_parameters(query_string, route.table)
    try:
        parameters = write_parameters(query_string)
    except Error as error:
        if method in {"PATCH", "DELETE"} and route.overrides(verb := method.lower()):
            why = f"no query selects records here, because the resource has its own {verb}"
            raise Error(error.code, f"{error.message}; {why}") from None
        raise
    if parameters.upsert and method != "POST":
        raise Error(Code.INVALID, f"{method} has no parameter 'upsert'; POST records with it")
    return parameters


def route_of(registry: Registry, topic: str) -> Route:
    """Return the route of a topic for this door; raises NOT_FOUND if it is hidden from it."""
    if not topic:
        root = next((entry for entry in registry.entries if not entry.path), None)
        return Route("", root, "")
    route = registry.known.get(topic) or registry.route(topic)
    if route.table is not None and route.table.hidden_from:
        check_not_excluded(route.table, DOOR)
    return route


async def send_options(allowed: Iterable[str], headers: Headers, send: Send) -> None:
    """Answer OPTIONS, and the preflight of a page, with the methods of a path."""
    extra = [(b"allow", ", ".join(allowed).encode())]
    if b"access-control-request-method" in headers:
        extra += preflight(headers)
    await send_empty(send, HTTPStatus.NO_CONTENT, extra)
