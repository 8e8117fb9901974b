"""A connection to the sequencer, for one request or one socket of a client."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from rowcast.net.relay import HTTP, Client

READ_BYTES: Final = 256 * 1024
"""Read ahead of a client that is slower; the connection then takes no more."""
OPEN_SECONDS: Final = 5.0
"""How long a request waits for a sequencer: another one takes over in less."""
DROPPED: Final = frozenset(
    {
        b"connection", b"expect", b"forwarded", b"keep-alive", b"proxy-connection", b"te",
        b"trailer", b"transfer-encoding", b"upgrade", b"via", b"x-real-ip",
    }
)  # fmt: skip
"""Headers of one connection (RFC 9110, 7.6.1), and of proxies: whose request it is, is told."""
_OF_PROXIES: Final = b"x-forwarded-"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HeaderList = list[tuple[bytes, bytes]]

OpenFar = Callable[[Client, asyncio.Protocol, float], Awaitable[asyncio.Transport]]
"""Passes on a client's connection, within so many seconds. Raises BUSY."""


class _Reading(asyncio.StreamReaderProtocol):
    """Keeps what has come before a connection broke: an answer, often, that says why."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the end of it
        """End what is read."""
        super().connection_lost(None)


class Upstream:
    """The bytes of one connection, both ways."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    @classmethod
    async def open(cls, open_far: OpenFar, scope: Scope) -> "Upstream":
        """Connect for the client of a request. Raises BUSY."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_BYTES, loop=loop)
        protocol = _Reading(reader, loop=loop)
        transport = await open_far(_client_of(scope), protocol, OPEN_SECONDS)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def send(self, data: bytes) -> None:
        """Send bytes, at the pace of the other node. Raises OSError when it has gone."""
        self._writer.write(data)
        await self._writer.drain()

    async def read(self) -> bytes:
        """Return what has come; empty at the end. Raises OSError."""
        return await self.reader.read(READ_BYTES)

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


def _client_of(scope: Scope) -> Client:
    host, port = scope.get("client") or ("", 0)
    return Client(HTTP, host, port, secure=scope["scheme"] in {"https", "wss"})


def target_of(scope: Scope) -> bytes:
    """Return path and query as they came."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return raw + b"?" + query if query else raw


def headers_on(scope: Scope) -> HeaderList:
    """Return the headers of a request that the other node is to see."""
    return [
        (name, value)
        for name, value in scope["headers"]
        if name not in DROPPED and not name.startswith(_OF_PROXIES)
    ]
