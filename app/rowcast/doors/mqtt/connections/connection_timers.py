"""Timers of a connection: CONNECT, keepalive, stalled reading, closing.

All timers of a connection are here. They only know the loop's clock; the client acts on them.
"""

import asyncio
import logging
from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.limits import MQTT_CLOSE_SECONDS, MQTT_KEEP_ALIVE_FACTOR, MQTT_STALL_SECONDS
from rowcast.doors.mqtt.connections.timer_wheel import TimerWheel
from rowcast.doors.mqtt.connections.transport import Transport
from rowcast.mqtt.reasons import Reason
from rowcast.writes.commit import Committer

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
        """Whether reading pauses, so that its silence does not count."""

    def read_again(self) -> None:
        """Resume reading, unless another reason to pause remains."""

    def cut(self) -> None:
        """Abort a client that does not read."""

    def end(self, close_reason: str = "") -> None:
        """Send what is due and close."""

    def disconnect(self, reason: Reason, message: str = "") -> None:
        """End the connection from this side, and tell the client why if it can be told."""


class ConnectionTimers:
    """The timers of one client."""

    __slots__ = (
        "_accepted",
        "_ahead",
        "_client",
        "_close",
        "_expires_at",
        "_slot",
        "_stall",
        "_throttle",
        "_wheel",
        "keep_alive_seconds",
    )

    def __init__(self, client: TimedClient, wheel: TimerWheel, connect_seconds: float) -> None:
        self._client = client
        self._wheel = wheel
        self.keep_alive_seconds = 0.0
        """The keepalive timeout, 1.5 times the Keep Alive; 0: none."""
        self._accepted = False
        self._ahead = False
        """Whether too many of its writes wait for the disk."""
        no_timer: asyncio.TimerHandle | None = None
        self._stall = self._throttle = self._close = no_timer
        self._expires_at = client.loop.time() + connect_seconds
        self._slot = wheel.put(self, connect_seconds)

    def on_timer(self) -> None:
        """Look whether CONNECT came, and then whether the client is alive."""
        if not self._accepted:
            log.info("%s sent no CONNECT in time", self._client.peer)
            self._client.end("it sent no CONNECT in time")
        elif self.keep_alive_seconds:
            self._keep_alive()

    def accept(self, keep_alive_seconds: int) -> None:
        """Begin with the keepalive; it expires with CONNECT's, unless that is too late."""
        loop, self._accepted = self._client.loop, True
        self.keep_alive_seconds = seconds = keep_alive_seconds * MQTT_KEEP_ALIVE_FACTOR
        if seconds and loop.time() + seconds < self._expires_at:
            self._wheel.remove(self, self._slot)
            self._slot = self._wheel.put(self, seconds)

    def _keep_alive(self) -> None:
        """Close after silence of 1.5 times the Keep Alive (MQTT-3.1.2-22)."""
        client = self._client
        left = client.last_seen + self.keep_alive_seconds - client.loop.time()
        if client.silenced:
            left = self.keep_alive_seconds
        if left > 0:
            self._slot = self._wheel.put(self, left)
        else:
            client.disconnect(Reason.KEEP_ALIVE_TIMEOUT, "nothing was received in time")

    def watch_stall(self) -> None:
        """Start the timer of a full socket, after which the client is aborted.

        Its keepalive does not apply, because reading pauses.
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
        """Stop that timer: the socket is writable again."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def let_disk_follow(self, committer: Committer, caller: Caller) -> None:
        """Pause reading while too many of the client's writes wait for the disk."""
        if not self._ahead and committer.slows(caller):
            self._ahead = True
            self._client.transport.pause_reading()
            committer.pending.when_room(caller, self._disk_followed)

    def _disk_followed(self) -> None:
        self._ahead = False
        self._client.read_again()

    @property
    def throttles(self) -> bool:
        """Whether reading pauses because of the rate limit (D57)."""
        return self._throttle is not None or self._ahead

    def throttle(self, seconds: float) -> None:
        """Pause reading for so long."""
        if self._throttle is not None:
            self._throttle.cancel()
        self._throttle = self._client.loop.call_later(seconds, self._unthrottled)

    def _unthrottled(self) -> None:
        self._throttle = None
        self._client.read_again()

    def close_soon(self) -> None:
        """Abort the connection when the peer does not close in time."""
        transport = self._client.transport
        self._close = self._client.loop.call_later(MQTT_CLOSE_SECONDS, transport.abort)

    def end(self) -> None:
        """Cancel all timers."""
        self._wheel.remove(self, self._slot)
        for timer in (self._stall, self._throttle, self._close):
            if timer is not None:
                timer.cancel()
