"""The base of WebSocket connections: a channel, closing, and detection of stalled peers."""

from collections.abc import Mapping
from secrets import randbelow
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.limits import SOCKET_REASON_BYTES_MAX
from rowcast.core.overload_limits import GOODBYE_RETRY_MS_MIN, GOODBYE_RETRY_SPREAD_MS
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import Message, Receive, Send
from rowcast.doors.http.messages.problems import STATUSES
from rowcast.doors.http.streams.channels import SocketChannel
from rowcast.doors.http.uvicorn_fastpath import cut, is_closing

RESTART: Final = 1012
"""Service restart: reconnect (RFC 6455's registry of close codes)."""


def close_status(error: Error) -> tuple[int, str]:
    """Return the close code and the reason of an error, truncated for a close frame."""
    reason = error.message.encode()[:SOCKET_REASON_BYTES_MAX].decode(errors="ignore")
    return STATUSES[error.code].close, reason


NORMAL: Final = frozenset({1000, 1005})
"""Codes of a close that a client wants: normal closure, and a close frame without a code (RFC 6455,
7.4.1)."""
LOST: Final = 1006
"""The connection ended without a close frame."""


class Connection:
    """The base of both kinds of connection."""

    def __init__(self, edge: HttpDoor, media_type: str) -> None:
        self._edge = edge
        self.kernel = edge.kernel
        self.media_type = media_type
        self._goodbye: tuple[int, str] | None = None
        self._gone = False
        self._cut_off = False
        self._closing_since = 0.0
        self._close_code = LOST
        self._channel: SocketChannel
        self._asgi_send: Send

    @property
    def busy_since(self) -> float:
        """The time since when the peer has not read, in the loop's seconds; 0 if it reads."""
        raise NotImplementedError

    @property
    def close_reason(self) -> str | None:
        """The reason for closing, if the server closed."""
        if self._cut_off:
            return "it took nothing for too long"
        return self._goodbye[1] or None if self._goodbye is not None else None

    def end(self, code: int, reason: str = "") -> None:
        """Close with a reason; the first one wins."""
        if self._goodbye is None:
            self._goodbye = (code, reason)
        self._stop_sending()

    def _stop_sending(self) -> None:
        """Stop the sender."""
        raise NotImplementedError

    def left(self) -> None:
        """Note that the peer has disconnected."""
        self._gone = True
        self._stop_sending()

    async def _close(self) -> None:
        if not self._gone and self._goodbye is not None:
            await self._channel.close(*self._goodbye)

    async def _received(self, receive: Receive) -> str | bytes | None:
        """Return the client's next message; None when it has disconnected."""
        message: Message = await receive()
        if message["type"] == "websocket.disconnect":
            if "reason" in message:  # without, uvicorn says 1005 of a connection that was lost
                self._close_code = message.get("code") or LOST
            return None
        text = message.get("text")
        payload: str | bytes = text if text is not None else message["bytes"]
        if len(payload) > self._edge.settings.body_bytes_max:
            most = self._edge.settings.body_bytes_max
            raise Error(Code.TOO_LARGE, f"a message has at most {most} bytes, not {len(payload)}")
        return payload

    # -- called by the watch ---------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Abort a peer that does not read, or does not complete the close."""
        if is_closing(self._asgi_send):
            self._closing_since = self._closing_since or now
        for since in (self.busy_since, self._closing_since):
            if since and now - since > self._edge.settings.stream_send_seconds:
                self._cut_off = True
                self.left()
                cut(self._asgi_send)

    def note(self, name: str, fields: Mapping[str, object]) -> None:
        """Ignore notices; connections to records and topics send them."""

    def judge(self) -> None:
        """Raise an Error if the client is no longer authorised."""
        raise NotImplementedError

    def refuse(self, error: Error) -> None:
        """Close with an error."""
        self.end(*close_status(error))

    def stop(self) -> None:
        """Close for shutdown."""
        milliseconds = GOODBYE_RETRY_MS_MIN + randbelow(GOODBYE_RETRY_SPREAD_MS)
        self.end(RESTART, f"the server stops; come back in {milliseconds} ms")
        if self.busy_since:
            self.left()
            cut(self._asgi_send)
