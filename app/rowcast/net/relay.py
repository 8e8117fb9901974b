"""Connections of clients that one process passes on to another, byte by byte.

A follower ends TLS and WebSocket frames itself, and passes on what is inside, after a
message that says whose it is (``Client``). The other process sees a transport that answers as the
client's own would (``RelayedTransport``), so its doors do not know the difference.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Final, Protocol, cast

import msgpack  # type: ignore[import-untyped]

from rowcast.core.errors import Code, Error

MQTT: Final = "mqtt"
HTTP: Final = "http"
DOORS: Final = frozenset({MQTT, HTTP})


@dataclass(frozen=True, slots=True)
class Client:
    """Whose connection it is, as the process saw it that has accepted it."""

    door: str
    """What it speaks: one of ``DOORS``."""
    host: str
    """Its address."""
    port: int = 0
    secure: bool = False
    """Whether it came over TLS."""
    certificate: Mapping[str, object] | None = None
    """What ``getpeercert()`` says of its certificate, which was verified."""
    der: bytes | None = None
    """The certificate itself."""
    media_type: str | None = None
    """The format in which it wants messages, as the upgrade of a WebSocket says it."""

    def pack(self) -> bytes:
        """Return it as MessagePack."""
        packed: bytes = msgpack.packb(astuple(self))
        return packed

    @classmethod
    def unpack(cls, data: bytes) -> "Client":
        """Read what ``pack`` returned. Raises INVALID for anything else."""
        try:
            fields = msgpack.unpackb(data, use_list=False)  # ``ssl`` has tuples, too
            client = cls(*fields)
        except (ValueError, TypeError, msgpack.UnpackException) as fault:
            raise Error(Code.INVALID, f"a client that is passed on: {fault}") from None
        if client.door not in DOORS:
            raise Error(Code.INVALID, f"a client of the unknown door {client.door!r}")
        return client


class Stream(Protocol):
    """The part of a client's transport that tells who it is."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return information about the connection, by asyncio's names."""


def certificate_der(stream: Stream) -> bytes | None:
    """Return a client's certificate as TLS or a relay has it; None without one."""
    tls = stream.get_extra_info("ssl_object")
    if isinstance(tls, ssl.SSLObject):
        return tls.getpeercert(binary_form=True)
    relayed = stream.get_extra_info("relayed")
    return relayed.der if isinstance(relayed, Client) else None


class RelayedTransport:
    """The transport of a relayed connection, which tells of the client instead of the relay."""

    def __init__(self, below: asyncio.Transport, client: Client) -> None:
        self._below = below
        self.write = below.write  # without the detour below
        self._told: Mapping[str, object] = {
            "relayed": client,
            "peername": (client.host, client.port),
            "peercert": client.certificate,
            "sslcontext": client.secure or None,
            "cipher": client.secure or None,
            "socket": None,
            "ssl_object": None,
        }

    def __getattr__(self, name: str) -> object:
        return getattr(self._below, name)

    @property
    def max_size(self) -> int:
        """How much is read at a time, in bytes, where the loop has that."""
        return cast("int", getattr(self._below, "max_size"))  # noqa: B009 - not of every loop

    @max_size.setter
    def max_size(self, size: int) -> None:
        setattr(self._below, "max_size", size)  # noqa: B010 - not of every loop

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return what is known of the client, by asyncio's names."""
        if name in self._told:
            known = self._told[name]
            return default if known is None else known
        return self._below.get_extra_info(name, default)


class ClientSide(Protocol):
    """The side that has the client, as the other half of a relay sees it."""

    def take(self, data: bytes) -> None:
        """Send bytes to the client."""

    def hold(self, full: bool) -> None:
        """Read nothing more from the client while the way on is full."""

    def lost(self) -> None:
        """Note that the other process has ended the connection."""


class ServerSide(asyncio.Protocol):
    """The half of a relay at the process that serves the client."""

    def __init__(self, client_side: ClientSide) -> None:
        self._client_side = client_side
        self._transport: asyncio.Transport | None = None
        self._held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        if self._held:
            self._transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Pass on to the client."""
        self._client_side.take(data)

    def send(self, data: bytes) -> None:
        """Pass on from the client."""
        if self._transport is not None:
            self._transport.write(data)

    def hold(self, full: bool) -> None:
        """Read nothing more while the client takes nothing."""
        self._held, transport = full, self._transport
        if transport is not None and not transport.is_closing():
            if full and transport.is_reading():
                transport.pause_reading()
            elif not full and not transport.is_reading():
                transport.resume_reading()

    def pause_writing(self) -> None:
        """Have no more read from the client."""
        self._client_side.hold(True)

    def resume_writing(self) -> None:
        """Have it read on."""
        self._client_side.hold(False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the same either way
        """End the client's connection."""
        self._transport = None
        self._client_side.lost()

    def close(self) -> None:
        """End, once what was sent is on its way."""
        if self._transport is not None:
            self._transport.close()
