"""The HTTP edge: one raw ASGI application that dispatches each request.

FastAPI has the fixed routes (login, documentation, health); every other path is a topic, which is
data-driven and hot, and bypasses the framework.
"""

import logging
import re
from asyncio import CancelledError
from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.doors.http import stream_requests
from rowcast.doors.http.documents import pages
from rowcast.doors.http.door import HttpDoor, HttpSettings
from rowcast.doors.http.login.signing_in import (
    ME,
    PATHS,
    SHOWN,
    TICKET,
    is_nobody,
    is_own_page,
    sign_in,
)
from rowcast.doors.http.login.visitors import admit
from rowcast.doors.http.messages.asgi import (
    ASGIApp,
    Headers,
    Receive,
    Scope,
    Send,
    TrackedSend,
    headers_of,
)
from rowcast.doors.http.messages.hosts import JOINED, host_problem
from rowcast.doors.http.messages.problems import as_error
from rowcast.doors.http.messages.replies import send_bytes, send_empty, send_problem
from rowcast.doors.http.messages.responses import EDGE
from rowcast.doors.http.request_times import RequestTimes
from rowcast.doors.http.rest import rest
from rowcast.doors.http.rest.allowed_methods import READ_ONLY
from rowcast.doors.http.rest.representations import send_kept
from rowcast.doors.http.socket_pings import MQTT_PROTOCOLS
from rowcast.doors.http.streams import sse, websocket
from rowcast.kernel.kernel import Kernel
from rowcast.routes.registry import Route
from rowcast.seams.seams import Page

log = logging.getLogger("rowcast.doors.http")

OPEN_PATHS: Final = frozenset({"/docs", "/health", "/health/ready"})
"""Paths without confidential content, answered for any Host."""
DOCUMENTS: Final = frozenset({"/openapi.json", "/asyncapi.json"})
"""Paths of API documents, which list tables."""
_NO_RECORDS: Final = ("/$", "//", pages.ROOT, *OPEN_PATHS, *DOCUMENTS)
"""Prefixes of paths that may not be plain topics."""
_NOT_PLAIN: Final = frozenset(
    {b"origin", b"authorization", b"cookie", *(b"if-match", b"if-none-match")}
    | {b"if-modified-since", b"if-unmodified-since"}
)
"""Headers of a GET with credentials or conditions."""
_TAKES_STREAM: Final = re.compile(
    rb"text/event-stream(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE
)
"""An ``Accept`` that has event streams, and not to exclude them (RFC 9110, 12.4.2)."""
READING: Final = frozenset({"GET", "HEAD"})
POSTED: Final = ("POST", "OPTIONS")
"""The methods of the paths of login that take a body."""
MQTT_PATH: Final = "/mqtt"
NO_MQTT: Final = "MQTT over WebSocket is not offered here; set mqtt.webSocket, or connect by TCP"
NO_RECORDS_HERE: Final = (
    "/mqtt is for MQTT over WebSocket, whose clients offer the subprotocol mqtt; for events of "
    "records connect to their path, such as /Dog/"
)


class Edge(HttpDoor):
    """The ASGI application; ``fixed`` has the fixed routes, ``mqtt`` takes MQTT over WebSocket."""

    def __init__(
        self,
        kernel: Kernel,
        settings: HttpSettings,
        fixed: ASGIApp,
        mqtt: ASGIApp | None = None,
    ) -> None:
        super().__init__(kernel, settings)
        self.fixed = fixed
        self.mqtt = mqtt
        self.streams: stream_requests.StreamsDoor | None = None
        """What serves durable streams; None without that feature."""
        self._times = RequestTimes()
        kernel.histograms.append(self._times.family())
        self._known_routes = kernel.registry.known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or serve one connection."""
        kind = scope["type"]
        if kind == "http":
            headers, begun = headers_of(scope), perf_counter()
            host = headers.get(b"host")
            if (host is None or JOINED in host) and (wrong := host_problem(host, scope)):
                await send_problem(self.kernel, wrong, headers, scope, send)
                return
            if scope["method"] == "GET" and _NOT_PLAIN.isdisjoint(headers):
                route = self._send_from_memory(headers, scope, send)
                if route is not None:
                    self._times.note("GET", *route.label, 200, perf_counter() - begun)
                    return
            tracked = TrackedSend(send)
            try:
                serve = self._from_page if b"origin" in headers else self._serve
                await serve(headers, scope, receive, tracked)
            except (CancelledError, Exception) as failure:  # noqa: BLE001 - it is told or raised
                await self._fail(failure, headers, scope, tracked)
            finally:
                if tracked.path and tracked.status:
                    labels = tracked.path, tracked.named, tracked.status
                    self._times.note(scope["method"], *labels, perf_counter() - begun)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self.fixed(scope, receive, send)

    async def _fail(
        self, failure: BaseException, headers: Headers, scope: Scope, send: TrackedSend
    ) -> None:
        """Answer a request that was refused, has failed, or is cut off at the end of the server."""
        if isinstance(failure, CancelledError):
            if send.status or not self.closing.is_set():
                raise failure
            error = cut_off()
        else:
            error = as_error(failure, f"{scope['method']} {scope['path'][:200]!r}")
            if send.status:  # a partial response was sent: abort, or it would look complete
                raise error from failure
        await send_problem(self.kernel, error, headers, scope, send)

    def _send_from_memory(self, headers: Headers, scope: Scope, send: Send) -> Route | None:
        """Answer a plain GET of a record from its cached answer; return its route.

        None means the full path, with its checks and error messages: for callers without the right,
        unknown hosts, and paths that are not plain topics.
        """
        path, kernel = scope["path"], self.kernel
        route = self._known_routes.get(path[1:])
        if (
            route is None
            or scope["query_string"]
            or b"%" in scope.get("raw_path", b"%")
            or path.startswith(_NO_RECORDS)
            or path in kernel.pages
            or not self.hosts.known.get(headers.get(b"host", b""))
        ):
            return None
        client, accept = scope.get("client"), headers.get(b"accept")
        if accept is not None and b"text/event-stream" in accept.lower():
            return None
        caller = self._callers.get(client[0] if client else "")
        record = None if caller is None else kernel.peek_open(route.topic, caller)
        if record is None or record.expires_at or not send_kept(record, accept, send):
            return None
        return route

    def _serve(
        self,
        headers: Headers,
        scope: Scope,
        receive: Receive,
        send: TrackedSend,
        *,
        of_known_page: bool = False,
    ) -> Awaitable[None]:
        """Return the awaitable that responds to a request, whose credentials it checks first."""
        path, method = scope["path"], scope["method"]
        if method == "OPTIONS" and (allowed := self._methods(path)):
            return rest.send_options(allowed, headers, send)
        if path in OPEN_PATHS or path in PATHS:
            return self._routes(scope, receive, send)
        if path.startswith(pages.ROOT) and pages.is_page(path):
            return self._page(headers, scope, send)
        streams = method in READING and bool(_TAKES_STREAM.search(headers.get(b"accept", b"")))
        any_host = of_known_page or method == "OPTIONS"
        if not SHOWN.isdisjoint(headers) or TICKET in scope["query_string"]:
            return self._sign_in(headers, scope, receive, send, streams, any_host)
        return self._dispatch(headers, scope, receive, send, streams, any_host)

    def _methods(self, path: str) -> Sequence[str]:
        """Return the methods of a path that is no topic; none for any other."""
        if path in PATHS and path != ME:
            return POSTED
        fixed = path == ME or path in OPEN_PATHS or path in DOCUMENTS or path in self.kernel.pages
        return READ_ONLY if fixed or pages.is_page(path) else ()

    async def _sign_in(
        self,
        headers: Headers,
        scope: Scope,
        receive: Receive,
        send: TrackedSend,
        streams: bool,
        any_host: bool,
    ) -> None:
        """Check the credentials of a request, then respond to it."""
        await sign_in(self, headers, scope, "sse" if streams else "http")
        any_host = any_host or not is_nobody(scope)
        await self._dispatch(headers, scope, receive, send, streams, any_host)

    def _dispatch(
        self,
        headers: Headers,
        scope: Scope,
        receive: Receive,
        send: TrackedSend,
        streams: bool,
        any_host: bool,
    ) -> Awaitable[None]:
        """Return the awaitable that responds to a request of a known caller."""
        if not any_host and not self.hosts.known.get(headers.get(b"host", b"")):
            self.hosts.check(headers)
        path = scope["path"]
        if path in DOCUMENTS:
            return self._routes(scope, receive, send)
        page = self.kernel.pages.get(path)
        if page is not None:
            return self._show(page, scope, send)
        is_stream = path[:10] == stream_requests.ROOT  # without a call
        if is_stream and self.streams is not None and scope["method"] != "OPTIONS":
            return stream_requests.serve(self.streams, self, headers, scope, receive, send)
        if streams:
            return sse.serve(self, scope, receive, send)
        return rest.serve(self, headers, scope, receive, send)

    async def _page(self, headers: Headers, scope: Scope, send: TrackedSend) -> None:
        """Send a file of the live page."""
        send.path, send.named = pages.ROOT.strip("/"), True
        await pages.serve(headers, scope, send)

    async def _routes(self, scope: Scope, receive: Receive, send: TrackedSend) -> None:
        """Dispatch to FastAPI's routes, which find this edge in the scope."""
        scope[EDGE] = self
        send.path = scope["path"].strip("/")
        await self.fixed(scope, receive, send)

    async def _show(self, page: Page, scope: Scope, send: TrackedSend) -> None:
        """Serve a feature's page to callers that may read its topic."""
        send.path = page.name
        if scope["method"] not in READING:
            words = f"{page.name} are only read"
            raise Error(Code.NOT_ALLOWED, words, allow=["GET", "HEAD"])
        self.kernel.authorise_read(page.topic, self.caller(scope, "http"))
        head = scope["method"] == "HEAD"
        await send_bytes(send, 200, page.media_type, page.make(), head=head)

    async def _from_page(
        self, headers: Headers, scope: Scope, receive: Receive, send: TrackedSend
    ) -> None:
        """Serve a request of a browser's page, with CORS headers."""
        path = scope["path"]
        public = path in OPEN_PATHS or pages.is_page(path)
        send.send, known = admit(self, headers, scope, send.send, public=public)
        await self._serve(headers, scope, receive, send, of_known_page=known)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        speaks_mqtt = not MQTT_PROTOCOLS.isdisjoint(scope.get("subprotocols") or ())
        headers = headers_of(scope)
        if wrong := host_problem(headers.get(b"host"), scope):
            await self.refuse_socket(wrong, headers, scope, receive, send)
            return
        try:
            self.origins.check(headers)
        except Error as error:
            if speaks_mqtt or not is_own_page(self, headers, scope):
                log.info("a WebSocket was refused: %s", error.message)  # browsers do not show it
                await self.refuse_socket(error, headers, scope, receive, send)
                return
        if speaks_mqtt and self.mqtt is not None:
            await self.mqtt(scope, receive, send)
        elif speaks_mqtt or scope["path"] == MQTT_PATH:
            words = NO_MQTT if speaks_mqtt else NO_RECORDS_HERE
            await self.refuse_socket(Error(Code.INVALID, words), headers, scope, receive, send)
        else:
            try:
                await sign_in(self, headers, scope, "ws")
            except Error as error:
                await self.refuse_socket(error, headers, scope, receive, send)
                return
            await websocket.serve(self, scope, receive, send)

    async def refuse_socket(
        self, error: Error, headers: Headers, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Refuse a WebSocket handshake, with the reason if the server supports it."""
        await receive()
        kind = "websocket.http.response"
        if kind in (scope.get("extensions") or {}):
            await send_problem(self.kernel, error, headers, scope, send, kind)
        else:
            await send({"type": "websocket.close", "code": 1008})


def cut_off() -> Error:
    """Return what a client is told whose request takes longer than this server waits at its end."""
    return Error(
        Code.BUSY,
        "this server ends before it has an answer: it is not known whether this was done; read "
        "before you repeat it",
        retry_after_seconds=1,
    )


async def refuse(scope: Scope, receive: Receive, send: Send, status: int) -> None:
    """Refuse a WebSocket handshake with what another process answered."""
    await receive()
    if "websocket.http.response" in (scope.get("extensions") or {}):
        await send_empty(send, status, kind="websocket.http.response")
    else:
        await send({"type": "websocket.close", "code": 1008})
