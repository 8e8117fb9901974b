"""How long a client is waited for: its CONNECT, a sign of life, its reading, its going.

All timers of a connection are here. The loop's clock is all that they know; what is done when one
is over, the client does.
"""

import asyncio
import logging
from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.limits import MQTT_CLOSE_SECONDS, MQTT_KEEP_ALIVE_FACTOR, MQTT_STALL_SECONDS
from rowcast.doors.mqtt.connections.transport import Transport
from rowcast.kernel.commit import Committer
from rowcast.mqtt.reasons import Reason

log = logging.getLogger("rowcast.mqtt")


class TimedClient(Protocol):
    """A client as its timers know it."""

    loop: asyncio.AbstractEventLoop
    transport: Transport
    peer: str
    last_seen: float
    """When something was received, by the loop's clock."""

    @property
    def silenced(self) -> bool:
        """Whether it is not read from: then its silence is ours."""

    def read_again(self) -> None:
        """Read on, unless something else is against it."""

    def cut(self) -> None:
        """Cut off a client that never reads."""

    def end(self, trouble: str = "") -> None:
        """Send what is due and close."""

    def disconnect(self, reason: Reason, message: str = "") -> None:
        """End the connection from this side, and tell the client why if it can be told."""


class ConnectionTimers:
    """The timers of one client."""

    __slots__ = (
        "_ahead",
        "_client",
        "_close",
        "_stall",
        "_throttle",
        "_timer",
        "keep_alive_seconds",
    )

    def __init__(self, client: TimedClient, connect_seconds: float) -> None:
        self._client = client
        self.keep_alive_seconds = 0.0
        """The greatest silence, one and a half times the Keep Alive; 0 for any."""
        self._ahead = False
        """Whether too much of what it sent waits for the disk."""
        no_timer: asyncio.TimerHandle | None = None
        self._stall = self._throttle = self._close = no_timer
        self._timer = client.loop.call_later(connect_seconds, self._connect_timeout)

    def _connect_timeout(self) -> None:
        log.info("%s sent no CONNECT in time", self._client.peer)
        self._client.end("it sent no CONNECT in time")

    def accept(self, keep_alive_seconds: int) -> None:
        """Clear the deadline of CONNECT; begin to watch for the client's silence."""
        self._timer.cancel()
        self.keep_alive_seconds = keep_alive_seconds * MQTT_KEEP_ALIVE_FACTOR
        if keep_alive_seconds:
            self._timer = self._client.loop.call_later(self.keep_alive_seconds, self._keep_alive)

    def _keep_alive(self) -> None:
        """Close when nothing came for one and a half times the Keep Alive (MQTT-3.1.2-22)."""
        client = self._client
        left = client.last_seen + self.keep_alive_seconds - client.loop.time()
        if client.silenced:
            left = self.keep_alive_seconds
        if left > 0:
            self._timer = client.loop.call_later(left, self._keep_alive)
        else:
            client.disconnect(Reason.KEEP_ALIVE_TIMEOUT, "nothing was received in time")

    def watch_stall(self) -> None:
        """Begin to watch a client whose socket is full: one that never reads is cut off.

        Its keep-alive cannot tell, as it is not read from.
        """
        self._watch_stall(self._client.transport.get_write_buffer_size())

    def _watch_stall(self, waiting_bytes: int) -> None:
        loop = self._client.loop
        self._stall = loop.call_later(MQTT_STALL_SECONDS, self._stalled, waiting_bytes)

    def _stalled(self, waiting_bytes: int) -> None:
        now_waiting = self._client.transport.get_write_buffer_size()
        if now_waiting < waiting_bytes:
            self._watch_stall(now_waiting)
        else:
            self._client.cut()

    def unwatch_stall(self) -> None:
        """Hear that the socket has room again."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def let_disk_follow(self, committer: Committer, caller: Caller) -> None:
        """Read nothing for as long as too much of what the client sent waits for the disk."""
        if not self._ahead and committer.slows(caller):
            self._ahead = True
            self._client.transport.pause_reading()
            committer.pending.when_room(caller, self._disk_followed)

    def _disk_followed(self) -> None:
        self._ahead = False
        self._client.read_again()

    @property
    def throttles(self) -> bool:
        """Whether the client is not read from, because it sent too much (D57)."""
        return self._throttle is not None or self._ahead

    def throttle(self, seconds: float) -> None:
        """Read nothing for so long."""
        if self._throttle is not None:
            self._throttle.cancel()
        self._throttle = self._client.loop.call_later(seconds, self._unthrottled)

    def _unthrottled(self) -> None:
        self._throttle = None
        self._client.read_again()

    def close_soon(self) -> None:
        """Cut the connection when the peer does not take its end."""
        transport = self._client.transport
        self._close = self._client.loop.call_later(MQTT_CLOSE_SECONDS, transport.abort)

    def end(self) -> None:
        """Wait for nothing more."""
        for timer in (self._timer, self._stall, self._throttle, self._close):
            if timer is not None:
                timer.cancel()
