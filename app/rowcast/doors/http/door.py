"""What all requests of HTTP share: the kernel, the settings, open streams, known callers.

``Edge`` dispatches requests; REST, streams and login get the door that it is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from rowcast.auth.authenticator import Authenticator
from rowcast.core.authentication_limits import TOKEN_SECONDS
from rowcast.core.bounded import ClearedCache
from rowcast.core.callers import Caller
from rowcast.core.limits import (
    HTTP_BODY_SECONDS_MAX,
    HTTP_CALLERS_MAX,
    SOCKET_SUBSCRIPTIONS_MAX,
    STREAM_SEND_SECONDS,
)
from rowcast.core.memory_limits import SOCKET_ANSWERS_BYTES_HIGH
from rowcast.core.query_write_limits import QUERY_WRITE_RECORDS_MAX
from rowcast.core.read_limits import LONG_POLL_SECONDS
from rowcast.doors.http.documents.readiness import Readiness
from rowcast.doors.http.messages.asgi import SIGNED_IN, Scope
from rowcast.doors.http.messages.cors import Origins
from rowcast.doors.http.messages.hosts import Hosts
from rowcast.doors.http.streams.rows import STREAMS, stream_rows
from rowcast.doors.http.streams.stream_writer import Flusher
from rowcast.doors.http.streams.watch import Watch
from rowcast.kernel.kernel import Kernel
from rowcast.reads.loop_turns import LoopTurns
from rowcast.routes.excluded_tables import Exclusions
from rowcast.seams.door import Door
from rowcast.subscriptions.subscription import Subscription


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The settings of HTTP."""

    title: str
    version: str
    sse_heartbeat_seconds: float
    sse_retry_ms: int
    websocket_heartbeat_seconds: float
    cors_origins: tuple[str, ...]
    body_bytes_max: int
    anonymous: Callable[[str, str], Caller]
    """Returns the anonymous caller for a peer's address and a door."""
    query_writes_max: int = QUERY_WRITE_RECORDS_MAX
    """Records that one PATCH or DELETE with a query writes."""
    poll_seconds: float = LONG_POLL_SECONDS
    """How long a long poll waits."""
    body_seconds_max: float = HTTP_BODY_SECONDS_MAX
    stream_send_seconds: float = STREAM_SEND_SECONDS
    """How long the reader of a stream may take nothing."""
    socket_subscriptions_max: int = SOCKET_SUBSCRIPTIONS_MAX
    """Filters of one WebSocket."""
    socket_answers_bytes_high: int = SOCKET_ANSWERS_BYTES_HIGH
    """Bytes of answers that wait for the reader of a WebSocket, above which reading pauses."""
    authenticator: Authenticator = field(default_factory=Authenticator)
    """Authenticates callers."""
    token_seconds: float = TOKEN_SECONDS
    """The lifetime of a token issued here."""
    revoke: Callable[[Caller], Awaitable[None]] | None = None
    """Revokes all sign-ins of a user."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names for which anonymous callers are served, besides safe ones."""
    ports: Callable[[], Mapping[str, int]] = dict
    """Returns the open ports by protocol: http, https, mqtt, mqtts."""
    readiness: Readiness = field(default_factory=Readiness)
    """The readiness checks."""


class HttpDoor(Door):
    """The state of HTTP in one server."""

    def __init__(self, kernel: Kernel, settings: HttpSettings) -> None:
        self.kernel = kernel
        self.settings = settings
        self.origins = Origins(settings.cors_origins)
        self.hosts = Hosts(settings.allowed_hosts, settings.cors_origins)
        self.closing = asyncio.Event()
        """Set when the server stops; closes streams."""
        self.flusher = Flusher()
        self.stream_turns = LoopTurns(rests_max=0)
        """Streams are opened one in each turn of the loop: many may come in one moment."""
        self.watch = Watch(
            self.closing,
            settings.sse_heartbeat_seconds,
            kernel.now,
            lambda number: kernel.live.changed(STREAMS, number),
            kernel.stream_notices,
        )
        kernel.doors.append(self)
        kernel.rows(STREAMS, stream_rows(self.watch))
        self._callers: ClearedCache[str, Caller] = ClearedCache(HTTP_CALLERS_MAX)
        kernel.reauthorization.listen(self._judge)
        kernel.view.append(Exclusions(kernel.registry).stage)

    def check_served(self, topic: str) -> None:
        """Raise unless this process serves a topic or filter that a WebSocket's command names."""

    def subscriptions(self) -> Iterator[Subscription]:
        """Yield the subscriptions of all open streams."""
        return self.watch.subscriptions()

    def _judge(self) -> None:
        """Reauthorise open streams after a change of users or rules (C28)."""
        self._callers.clear()
        self.watch.judge()

    def caller(self, scope: Scope, door: str) -> Caller:
        """Return the caller; anonymous requests from one address over plain HTTP share one."""
        signed_in: Caller | None = scope.get(SIGNED_IN)
        if signed_in is not None:
            return signed_in if signed_in.door == door else replace(signed_in, door=door)
        client = scope.get("client")
        peer = client[0] if client else ""
        if door != "http":
            return self.settings.anonymous(peer, door)
        caller = self._callers.get(peer)
        if caller is None:
            caller = self._callers.put(peer, self.settings.anonymous(peer, door))
        return caller
