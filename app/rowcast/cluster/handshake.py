"""How two nodes prove to one another that they have the secret of their cluster.

Each side sends 32 random bytes, and a code (HMAC-SHA-256) over those of both sides under a name of
its own side, so that neither can be answered with what it sent itself:

    to a follower       nonce S
    to the sequencer    nonce C, code("follower", S, C)
    to a follower       code("sequencer", C, S)

Until then a connection may send no more than these bytes, and has five seconds. What comes after is
protected by TLS where the cluster has certificates, and by the network otherwise.
"""

import hmac
import logging
import secrets
from collections.abc import Callable
from typing import Final, Protocol

from rowcast.cluster.frames import MESSAGE_BYTES_MAX, Frames
from rowcast.core.errors import Code, Error

log = logging.getLogger("rowcast.cluster")

NONCE_BYTES: Final = 32
CODE_BYTES: Final = 32
"""Of SHA-256."""
SECONDS: Final = 5.0
"""For the whole handshake: some round trips between machines of one site."""


class Timers(Protocol):
    """The part of a loop that a handshake uses."""

    def call_later(self, delay: float, call: Callable[..., object], *arguments: object) -> object:
        """Call later."""


class Handshake:
    """One side's part; ``done`` is called when the other side has the secret."""

    def __init__(
        self,
        frames: Frames,
        key: bytes,
        timers: Timers,
        done: Callable[[], None],
        seconds: float = SECONDS,
    ) -> None:
        self._frames, self._key = frames, key
        self._own, self._other = secrets.token_bytes(NONCE_BYTES), b""
        self._done: Callable[[], None] | None = done
        frames.bytes_max = NONCE_BYTES + CODE_BYTES
        timers.call_later(seconds, self._overdue)

    def cancel(self) -> None:
        """End it: there is no connection."""
        self._done = None

    def accept(self) -> None:
        """Begin at the side that listens."""
        self._frames.received = self._take_follower
        self._frames.send(self._own)

    def connect(self) -> None:
        """Begin at the side that has connected."""
        self._frames.received = self._take_nonce

    def _code(self, name: bytes, first: bytes, second: bytes) -> bytes:
        return hmac.digest(self._key, name + first + second, "sha256")

    def _take_follower(self, message: bytes) -> None:
        nonce, code = message[:NONCE_BYTES], message[NONCE_BYTES:]
        self._check(code, self._code(b"follower", self._own, nonce))
        self._frames.send(self._code(b"sequencer", nonce, self._own))
        self._end()

    def _take_nonce(self, message: bytes) -> None:
        if len(message) != NONCE_BYTES:
            raise Error(Code.INVALID, "it does not begin as a node of Rowcast does")
        self._other = message
        self._frames.received = self._take_sequencer
        self._frames.send(self._own + self._code(b"follower", message, self._own))

    def _take_sequencer(self, message: bytes) -> None:
        self._check(message, self._code(b"sequencer", self._own, self._other))
        self._end()

    @staticmethod
    def _check(code: bytes, wanted: bytes) -> None:
        if not hmac.compare_digest(code, wanted):
            raise Error(
                Code.DENIED, "it does not have the secret of this cluster; give all nodes the same"
            )

    def _end(self) -> None:
        done, self._done = self._done, None
        self._frames.bytes_max = MESSAGE_BYTES_MAX
        if done is not None:
            done()

    def _overdue(self) -> None:
        if self._done is not None:
            log.debug("a connection of the cluster has not proved in time who it is")
            self._frames.close()
