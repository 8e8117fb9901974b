"""Passes on one WebSocket, message by message."""

import asyncio
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import WebSocketURI

from rowcast.core.errors import Code, Error
from rowcast.doors.relay.requests import lost
from rowcast.doors.relay.upstream import (
    HeaderList,
    OpenFar,
    Receive,
    Scope,
    Send,
    Upstream,
    headers_on,
    target_of,
)

_OWN_HEADERS: Final = (b"sec-websocket-", b"host", b"content-length")
"""Headers that the handshake on this way has itself."""
_OF_HANDSHAKE: Final = frozenset(
    {"connection", "upgrade", "sec-websocket-accept", "sec-websocket-protocol", "date", "server"}
)
HANDSHAKE_SECONDS: Final = 10.0
"""For the other node to accept a socket, or to refuse it: hooks may be asked."""
CLOSE_SECONDS: Final = 30.0
"""For the other node to carry out what a client sent before it left, and to answer its close. Who
ends the connection before that takes away what still waits there to be read (tcp(7))."""
RESTART: Final = 1012
"""Service restart (RFC 6455, 7.4, IANA): connect again."""


class Refused(Exception):  # noqa: N818 - an answer
    """The other node has refused the handshake."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def pass_on(
    open_far: OpenFar,
    scope: Scope,
    receive: Receive,
    send: Send,
    handshake_seconds: float = HANDSHAKE_SECONDS,
    close_seconds: float = CLOSE_SECONDS,
) -> None:
    """Pass on a socket that is not accepted yet. Raises BUSY, or Refused, before it is."""
    upstream = await Upstream.open(open_far, scope)
    try:
        relayed = _RelayedSocket(upstream, scope, send)
        await relayed.shake_hands(handshake_seconds)
        await receive()  # websocket.connect
        await relayed.accept()
        tasks = [
            asyncio.create_task(relayed.carry_on(receive)),
            asyncio.create_task(relayed.carry_back()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(tasks[1:], timeout=close_seconds)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        upstream.close()


class _RelayedSocket:
    def __init__(self, upstream: Upstream, scope: Scope, send: Send) -> None:
        self._upstream, self._send = upstream, send
        target = target_of(scope).decode("latin-1")
        path, _, query = target.partition("?")
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        self._protocol = ClientProtocol(
            WebSocketURI(secure=False, host="node", port=80, path=path, query=query),
            subprotocols=scope.get("subprotocols") or None,
            max_size=None,  # what a client may send, its own side has checked
        )
        request = self._protocol.connect()
        del request.headers["Host"]
        for host in hosts:  # as the client sent them: the other node refuses two, and none
            request.headers["Host"] = host.decode("latin-1")
        for name, value in headers_on(scope):
            if not name.startswith(_OWN_HEADERS):
                request.headers[name.decode("latin-1")] = value.decode("latin-1")
        self._protocol.send_request(request)
        self._parts: list[bytes] = []
        self._is_text = False
        self._gone = False
        """Whether the client has left; what it sent before that is still passed on."""

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                await self._upstream.send(data)

    async def shake_hands(self, seconds: float) -> None:
        """Wait until the other node has accepted it. Raises BUSY, also after so many seconds."""
        protocol = self._protocol
        self._rest: list[Frame] = []
        try:
            async with asyncio.timeout(seconds):
                await self._flush()
                while protocol.state is State.CONNECTING and protocol.handshake_exc is None:
                    data = await self._upstream.read()
                    if not data:
                        raise lost()
                    protocol.receive_data(data)
        except OSError as error:  # TimeoutError is one
            raise lost() from error
        fault = protocol.handshake_exc
        if isinstance(fault, InvalidStatus):
            raise Refused(fault.response.status_code)
        if fault is not None:
            raise Error(Code.BUSY, f"the other node does not accept it: {fault}") from fault

    async def accept(self) -> None:
        """Accept it as the other node has, with what came after that."""
        events = self._protocol.events_received()
        response = events.pop(0)
        if not isinstance(response, Response):
            raise InvalidHandshake("no response")
        headers: HeaderList = [
            (name.lower().encode(), value.encode())
            for name, value in response.headers.raw_items()
            if name.lower() not in _OF_HANDSHAKE
        ]
        chosen = self._protocol.subprotocol
        await self._send({"type": "websocket.accept", "subprotocol": chosen, "headers": headers})
        self._rest = [event for event in events if isinstance(event, Frame)]

    async def carry_on(self, receive: Receive) -> None:
        """Pass on what the client sends, until it ends."""
        protocol = self._protocol
        with suppress(OSError):
            while True:
                message = await receive()
                if message["type"] == "websocket.disconnect":
                    self._gone = True
                    protocol.send_close(_code_of(message))
                    await self._flush()
                    return
                text = message.get("text")
                if text is not None:
                    protocol.send_text(text.encode())
                else:
                    protocol.send_binary(message["bytes"])
                await self._flush()

    async def carry_back(self) -> None:
        """Pass on what the other node sends, until it ends."""
        protocol = self._protocol
        with suppress(OSError):
            while True:
                for frame in self._rest:
                    if await self._take(frame):
                        return
                await self._flush()  # pongs
                data = await self._upstream.read()
                if not data:
                    break
                protocol.receive_data(data)
                self._rest = [one for one in protocol.events_received() if isinstance(one, Frame)]
        reason = "the connection to the sequencer was lost; connect again"
        await self._send_if_open({"type": "websocket.close", "code": RESTART, "reason": reason})

    async def _send_if_open(self, message: dict[str, object]) -> None:
        """Send to the client, unless it has gone; its last commands may still be on their way."""
        if self._gone:
            return
        try:
            await self._send(message)
        except (OSError, RuntimeError):
            self._gone = True

    async def _take(self, frame: Frame) -> bool:
        """Pass on a message; returns whether the socket is over."""
        if frame.opcode is Opcode.CLOSE:
            close = self._protocol.close_rcvd
            code: int = CloseCode.NORMAL_CLOSURE
            if close is not None and close.code in _SENDABLE:
                code = close.code
            reason = close.reason if close is not None else ""
            await self._send_if_open(
                {"type": "websocket.close", "code": int(code), "reason": reason}
            )
            return True
        if frame.opcode in {Opcode.TEXT, Opcode.BINARY}:
            self._parts, self._is_text = [], frame.opcode is Opcode.TEXT
        elif frame.opcode is not Opcode.CONT:
            return False
        self._parts.append(bytes(frame.data))
        if frame.fin:
            whole = b"".join(self._parts)
            self._parts = []
            body = {"text": whole.decode()} if self._is_text else {"bytes": whole}
            await self._send_if_open({"type": "websocket.send", **body})
        return False


class _Sendable:
    """Close codes that an endpoint may send (RFC 6455, 7.4)."""

    def __contains__(self, code: object) -> bool:
        reserved = {CloseCode.NO_STATUS_RCVD, CloseCode.ABNORMAL_CLOSURE, CloseCode.TLS_HANDSHAKE}
        return isinstance(code, int) and 1000 <= code < 5000 and code not in reserved


_SENDABLE: Final = _Sendable()


def _code_of(message: MutableMapping[str, Any]) -> int | None:
    """Return the code by which a client's end is passed on; None for its close without a code.

    Without a reason the connection was lost: uvicorn says 1005 of that, too.
    """
    code = message.get("code", CloseCode.NORMAL_CLOSURE)
    if code == CloseCode.NO_STATUS_RCVD and "reason" in message:
        return None
    return code if code in _SENDABLE else CloseCode.GOING_AWAY
