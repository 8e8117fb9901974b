"""The HTTP edge of a follower: what it does not serve itself, it passes on.

It serves declared tables, from tables and streams of its own. Everything else is served by the
sequencer: topics that no table declares, transactions, idempotency keys, users, tickets, rows
of ``$SYS``, and the stream of a WebSocket that names no table in its path. So are tables with a
resource class, and all tables where there are hooks: those have one state, in one process. The
answer is that node's; credentials and rights are checked there.
"""

from asyncio import CancelledError
from collections.abc import Callable
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.query_topics import QUERY_PREFIX
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.documents import pages
from rowcast.doors.http.edge import DOCUMENTS, OPEN_PATHS, Edge, cut_off, refuse
from rowcast.doors.http.login.signing_in import TICKET
from rowcast.doors.http.messages.asgi import Receive, Scope, Send, TrackedSend, headers_of
from rowcast.doors.http.messages.replies import send_problem
from rowcast.doors.http.rest.idempotency import HEADER as IDEMPOTENCY_KEY
from rowcast.doors.http.socket_pings import MQTT_PROTOCOLS
from rowcast.doors.relay import requests, sockets
from rowcast.doors.relay.upstream import OpenFar

MARKED: Final = frozenset({IDEMPOTENCY_KEY, b"rowcast-producer"})
"""Headers of writes that are remembered with their number, where that is given."""
OWN: Final = frozenset({*OPEN_PATHS, *DOCUMENTS})
"""Paths that are about this node. Others that begin like them are topics."""
TOPICS: Final = b"topic="
"""In the query string: the parameter of a stream with a further topic."""
NODES: Final = "/$SYS/cluster/"
"""All nodes as the sequencer sees them; when that is not reached, what this one knows."""


class RelayingEdge(Edge):
    """The edge of one node; ``open_far`` is set before the first request."""

    open_far: OpenFar
    is_connected: Callable[[], bool]
    """Whether the sequencer is reached."""
    passes_all = False
    """Whether tables are passed on, too: there are hooks, which are asked in one process."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or serve one connection, here or at the other node."""
        kind = scope["type"]
        if kind == "http" and not self._serves(scope):
            await self._pass_on(scope, receive, TrackedSend(send))
        elif kind == "websocket" and not self._streams(scope):
            await self._pass_on_socket(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _serves(self, scope: Scope) -> bool:
        path = scope["path"]
        if path in OWN or (path.startswith(pages.ROOT) and pages.is_page(path)):
            return True
        if _lists_nodes(scope) and not self.is_connected():
            return True
        query = scope["query_string"]
        if TICKET in query or TOPICS in query:  # good where it was given; perhaps not of a table
            return False
        return self._has(path) and all(name not in MARKED for name, _ in scope["headers"])

    def check_served(self, topic: str) -> None:
        """Raise NOT_ALLOWED for what only the other node has.

        Its commands come one by one, and the first of them are executed here.
        """
        path = TopicFilter(topic).prefix.removeprefix(QUERY_PREFIX)
        is_named = "/" not in path and topic.startswith(QUERY_PREFIX)  # by the schema
        if self.passes_all or not (is_named or self.kernel.registry.declares(path)):
            raise Error(
                Code.NOT_ALLOWED,
                f"a WebSocket at the path of a table takes only topics of tables at this node, "
                f"not {topic[:80]!r}; open a WebSocket at /, which takes all",
                allow=[],
            )

    def _has(self, path: str) -> bool:
        return not self.passes_all and self.kernel.registry.declares(path[1:])

    def _streams(self, scope: Scope) -> bool:
        if not MQTT_PROTOCOLS.isdisjoint(scope.get("subprotocols") or ()):
            return True  # MQTT has a relay of its own
        query = scope["query_string"]
        return self._has(scope["path"]) and TICKET not in query and TOPICS not in query

    async def _pass_on(self, scope: Scope, receive: Receive, send: TrackedSend) -> None:
        try:
            await requests.pass_on(self.open_far, scope, receive, send, self.closing)
        except CancelledError:
            if send.status or not self.closing.is_set():
                raise
            await send_problem(self.kernel, cut_off(), headers_of(scope), scope, send)
        except Error as error:
            if send.status:
                return
            if _lists_nodes(scope):  # it may be stopped: this is what is known here
                await super().__call__(scope, receive, send)
            else:
                await send_problem(self.kernel, error, headers_of(scope), scope, send)

    async def _pass_on_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await sockets.pass_on(self.open_far, scope, receive, send)
        except sockets.Refused as answer:
            await refuse(scope, receive, send, answer.status)
        except Error as error:
            await self.refuse_socket(error, headers_of(scope), scope, receive, send)


def _lists_nodes(scope: Scope) -> bool:
    return bool(scope["path"].startswith(NODES) and scope["method"] == "GET")
