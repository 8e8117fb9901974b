"""Sample connections of uvicorn, without a socket, a loop or an application: for a self-check.

A sample has read a request, and records its output. Nothing of it outlives the check.
"""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import uvicorn
from uvicorn.server import ServerState

T = TypeVar("T")

GET: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PUT: Final = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
OFFER: Final = PUT.replace(b"Host: x\r\n", b"Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n")
"""The same PUT with an offer of HTTP/2, which is declined."""
UPGRADE: Final = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
"""The request that opens a WebSocket (RFC 6455, 4.1)."""


class Wire(asyncio.Transport):
    """A transport that records writes."""

    written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Record the bytes."""
        self.written += data

    def is_closing(self) -> bool:
        """Return False: it is open."""
        return False


class _Task:
    """A stub for the task of an application."""

    def add_done_callback(self, call: object) -> None:
        """Never call it."""


def _never_run(application: Any, **_: object) -> _Task:
    """A stub for ``create_task`` of a loop."""
    application.close()
    return _Task()


def connection(protocol: Any, request: bytes) -> tuple[Any, Wire]:
    """Return a connection of a protocol class of uvicorn that has read a request, and its wire."""
    config = uvicorn.Config(
        _never_run, lifespan="off", log_config=None, ws_per_message_deflate=False
    )
    loop = SimpleNamespace(time=lambda: 1.0, call_later=lambda *_: None, create_task=_never_run)
    made, wire = protocol(config, ServerState(), {}, _loop=loop), Wire()
    made.access_log = False
    made.connection_made(wire)
    made.data_received(request)
    return made, wire


def at_once(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine that does not wait. Raises RuntimeError where it does."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("it waits")
