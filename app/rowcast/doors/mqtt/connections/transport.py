"""What carries bytes to and from a client, and who takes them."""

from collections.abc import Mapping
from typing import Protocol


class Transport(Protocol):
    """What carries bytes to and from one client."""

    def write(self, data: bytes) -> None:
        """Send bytes, in order; never blocks."""

    def close(self) -> None:
        """Close when what was written is sent."""

    def abort(self) -> None:
        """Close now."""

    def pause_reading(self) -> None:
        """Deliver no more bytes until ``resume_reading``."""

    def resume_reading(self) -> None:
        """Deliver bytes again."""

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait for the peer to take them."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return a fact about what is below, as asyncio names them: ``peercert``."""


class Receiver(Protocol):
    """What takes the bytes of one connection: a client, or one that is refused."""

    peer: str

    def receive(self, data: bytes) -> None:
        """Take bytes; never raises for what they are."""

    def pause_writing(self) -> None:
        """Hear that the socket is full."""

    def resume_writing(self) -> None:
        """Hear that the socket has room again."""

    def lost(self) -> None:
        """Hear that the transport is closed."""


class Entrance(Protocol):
    """Where new connections are let in: the broker."""

    stopping: bool
    """Whether there are to be no more of them."""

    def enter(
        self, transport: Transport, peer: str, media_type: str | None = None
    ) -> Receiver | None:
        """Return what takes the connection's bytes; None if it was closed."""


def certificate_of(transport: Transport) -> Mapping[str, object] | None:
    """Return what ``getpeercert()`` says of the client; None unless TLS has verified it."""
    certificate = transport.get_extra_info("peercert")
    return certificate if isinstance(certificate, dict) and certificate else None
