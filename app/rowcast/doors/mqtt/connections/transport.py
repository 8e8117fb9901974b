"""What carries bytes to and from a client, and who takes them."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol


class Transport(Protocol):
    """The byte stream of one client."""

    def write(self, data: bytes) -> None:
        """Send bytes, in order; never blocks."""

    def close(self) -> None:
        """Close after pending output is sent."""

    def abort(self) -> None:
        """Close now."""

    def pause_reading(self) -> None:
        """Pause incoming bytes until ``resume_reading``."""

    def resume_reading(self) -> None:
        """Resume incoming bytes."""

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent bytes."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return information about the connection, by asyncio's names: ``peercert``."""


class _Gone:
    """The transport of a connection that is lost, while what was read from it is processed."""

    def write(self, data: bytes) -> None:
        """Drop bytes."""

    def close(self) -> None:
        """Do nothing more."""

    abort = pause_reading = resume_reading = close

    def get_write_buffer_size(self) -> int:
        """Return 0."""
        return 0

    def get_extra_info(self, name: str, default: object = None) -> object:  # noqa: ARG002
        """Return that nothing is known."""
        return default


GONE: Final[Transport] = _Gone()


class Receiver(asyncio.Protocol):
    """What takes the bytes of one connection: a client, or one that is refused.

    The transport calls it directly. ``data_received`` never raises for what it is given.
    """

    __slots__ = ()
    peer: str


class Entrance(Protocol):
    """The acceptor of new connections: the broker."""

    stopping: bool
    """Whether new connections are no longer accepted."""

    def enter(
        self, transport: Transport, peer: str, media_type: str | None = None
    ) -> Receiver | None:
        """Return the receiver of the connection's bytes; None if it was closed."""


def certificate_of(transport: Transport) -> Mapping[str, object] | None:
    """Return the client's ``getpeercert()``; None unless TLS has verified it."""
    certificate = transport.get_extra_info("peercert")
    return certificate if isinstance(certificate, dict) and certificate else None
