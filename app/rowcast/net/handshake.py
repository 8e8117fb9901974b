"""TLS on a connection: the handshake, and then the protocol that wanted it.

Between the two nothing is lost: data in the packet that ends the handshake is kept for the
protocol. A handshake has a time limit; failures are counted, and logged only once in a while,
because a public port is scanned all day. It must not know which protocol follows.
"""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final, cast

from rowcast.core.listener_limits import (
    TLS_FAILURE_LOG_SECONDS,
    TLS_HANDSHAKE_SECONDS,
    TLS_HANDSHAKES_MAX,
    TLS_SHUTDOWN_SECONDS,
    TLS_WRITE_BUFFER_BYTES_HIGH,
)
from rowcast.core.peers import network
from rowcast.net.fair_places import FairPlaces

log = logging.getLogger("rowcast.tls")

_NO_TLS: Final = "it does not speak TLS; without TLS use the other port"
_TOO_LATE: Final = "it took too long"
_DISTRUST: Final = "it does not trust our certificate"
_HANDSHAKE_RECORD: Final = 0x16
"""The first byte of TLS (RFC 8446, 5.1)."""
REASONS: Final = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "UNSUPPORTED_PROTOCOL": "it offers only versions before TLS 1.2",
    "NO_SHARED_CIPHER": "it offers no cipher that is used here",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate",
    "TLSV1_ALERT_UNKNOWN_CA": _DISTRUST,
    "SSLV3_ALERT_BAD_CERTIFICATE": _DISTRUST,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _DISTRUST,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that our certificate has expired",
}
"""OpenSSL's messages for the most frequent failures, and ours."""


class Handshakes:
    """The handshakes of one port. Its numbers are plain counts."""

    def __init__(
        self,
        name: str,
        context: Callable[[], ssl.SSLContext],
        make: Callable[[], asyncio.Protocol],
        seconds_max: float = TLS_HANDSHAKE_SECONDS,
        under_way_max: int = TLS_HANDSHAKES_MAX,
    ) -> None:
        self.name = name
        self.context = context
        self.make = make
        """Makes the protocol that follows."""
        self.seconds_max = seconds_max
        self.under_way = FairPlaces[_Handshake](under_way_max)
        """Connections whose handshake is not done."""
        self._log_after = 0.0
        self._unreported: Counter[str] = Counter()
        """How many failures of each reason were not logged; OpenSSL has a list of reasons."""
        self.done = 0
        """Handshakes that succeeded."""
        self.failed = 0
        """Handshakes that did not."""
        self.refused = 0
        """Connections closed without a handshake, or in it, because there were too many."""

    def protocol(self) -> asyncio.Protocol:
        """Return the protocol that a new connection begins with."""
        return _Handshake(self)

    def enter(self, one: "_Handshake") -> bool:
        """Count a connection among those under way; return whether there is room."""
        self.refused += self.under_way.full
        entered, displaced = self.under_way.enter(one, one.network)
        if displaced is not None:
            displaced.abort()
        return entered

    def fail(self, peer: str, why: str) -> None:
        """Count a failure; log it unless one was logged lately or the peer only disconnected."""
        self.failed += 1
        if not why:
            log.debug("%s: %s ended its TLS handshake", self.name, peer)
            return
        now = asyncio.get_running_loop().time()
        if now < self._log_after:
            self._unreported[why] += 1
            return
        others = f"; {alike} more like it" if (alike := self._unreported.pop(why, 0)) else ""
        for reason, count in self._unreported.most_common(1):
            others += f"; {self._unreported.total()} others, most of them: {reason} ({count})"
        log.info("%s: the TLS handshake with %s failed: %s%s", self.name, peer, why, others)
        self._unreported.clear()
        self._log_after = now + TLS_FAILURE_LOG_SECONDS

    async def stop(self) -> None:
        """End the handshakes in progress."""
        tasks = [task for shaking in self.under_way if (task := shaking.abort()) is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


class _Secure:
    """TLS as a transport that counts all that waits to be sent, also below TLS.

    What TLS has encrypted is handed on at once, so asyncio's own count may be nothing while a slow
    peer has megabytes before it: a door that watches for progress would take it for dead.

    A pause of reading pauses the stream below: uvloop's TLS, paused itself, loses what it has not
    decrypted when the peer closes. What was read before, 256 KiB at most, is handed over.
    """

    def __init__(self, tls: asyncio.Transport, below: asyncio.Transport) -> None:
        self._tls = tls
        self._below = below
        self.write = tls.write  # without the detour below
        self.pause_reading = below.pause_reading
        self.resume_reading = below.resume_reading
        self.is_reading = below.is_reading

    def __getattr__(self, name: str) -> object:
        return getattr(self._tls, name)

    def close(self) -> None:
        """Close after pending output is sent; the peer's goodbye is read, also while paused."""
        if not self._below.is_closing():
            self._below.resume_reading()
        self._tls.close()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait for the peer to take them."""
        return self._tls.get_write_buffer_size() + self._below.get_write_buffer_size()


class _Handshake(asyncio.Protocol):
    """One connection until its handshake is done.

    TLS begins with the peer's first bytes: who says nothing costs a timer, and who says something
    else is told apart. They are fed to TLS before anything else is read: uvloop reads from a new
    connection whether its protocol has paused it or not.
    """

    def __init__(self, owner: Handshakes) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._stream: asyncio.Transport | None = None
        self._peer = self.network = "-"
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[asyncio.Transport | None] | None = None
        self._next: asyncio.Protocol | None = None
        self._data: list[bytes] = []
        """Decrypted data received before the next protocol was there: one read at most."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first bytes, or close when too many do."""
        stream = cast("asyncio.Transport", transport)
        self._peer = (stream.get_extra_info("peername") or (self._peer,))[0]
        self.network = network(self._peer)
        if not self._owner.enter(self):
            stream.abort()
            return
        self._stream = stream
        self._timer = self._loop.call_later(self._owner.seconds_max, self._fail, _TOO_LATE)

    def data_received(self, data: bytes) -> None:
        """Take the first encrypted bytes, and the decrypted data."""
        if self._task is not None:
            self._data.append(data)
        elif data[0] == _HANDSHAKE_RECORD:
            self._begin(data)
        else:
            self._fail(_NO_TLS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that it is over, or pass it on when it was meant for the next protocol."""
        if self._next is not None:
            self._next.connection_lost(exc)
        elif self._task is None:
            self._fail("")

    def _begin(self, first: bytes) -> None:
        if self._stream is None or self._timer is None:
            return
        self._timer.cancel()
        self._stream.pause_reading()
        shaking = self._loop.start_tls(
            self._stream,
            self,
            self._owner.context(),
            server_side=True,
            ssl_handshake_timeout=self._owner.seconds_max,
            ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS,
        )
        self._task = self._loop.create_task(shaking, name="tls handshake")
        self._task.add_done_callback(self._done)
        # The task's first step calls TLS into being and has the connection read again, both soon.
        # Soon after soon comes after them, and before the loop looks at sockets.
        self._loop.call_soon(self._loop.call_soon, self._feed, first)

    def _feed(self, first: bytes) -> None:
        if self._stream is None or self._stream.is_closing():
            return
        tls = cast("asyncio.BufferedProtocol", self._stream.get_protocol())
        while first:
            room = memoryview(tls.get_buffer(len(first)))
            size = min(len(room), len(first))
            room[:size] = first[:size]
            tls.buffer_updated(size)
            first = first[size:]

    def _done(self, task: "asyncio.Task[asyncio.Transport | None]") -> None:
        """Switch to the protocol that wanted TLS, or report why the handshake failed."""
        if task.cancelled():
            self._fail("")
            return
        error = task.exception()
        if isinstance(error, OSError):
            self._fail(_reason(error))
        elif error is not None:
            log.error("%s: a handshake failed", self._owner.name, exc_info=error)
            self._fail("")
        elif (tls := task.result()) is None or tls.get_extra_info("cipher") is None:
            self._fail("")  # cut off without an error
        elif self._stream is not None:
            self._owner.under_way.leave(self)
            self._owner.done += 1
            self._make_way(tls, self._stream)

    def _make_way(self, tls: asyncio.Transport, below: asyncio.Transport) -> None:
        try:
            tls.set_write_buffer_limits(high=TLS_WRITE_BUFFER_BYTES_HIGH)
            self._next = self._owner.make()
            tls.set_protocol(self._next)
            self._next.connection_made(cast("asyncio.Transport", _Secure(tls, below)))
            self._next = cast("asyncio.Protocol", tls.get_protocol())  # another may follow
            if self._data:
                self._next.data_received(b"".join(self._data))
        except Exception:
            log.exception("%s: the connection of %s failed", self._owner.name, self._peer)
            tls.abort()

    def _fail(self, why: str) -> None:
        if self in self._owner.under_way:
            self._owner.under_way.leave(self)
            self._owner.fail(self._peer, why)
        self.abort()

    def abort(self) -> "asyncio.Task[asyncio.Transport | None] | None":
        """Cut the connection; return the task that then ends, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
        if self._stream is not None:
            self._stream.abort()
        if self._task is not None:
            self._task.cancel()
        return self._task


def _reason(error: OSError) -> str:
    """Return why a handshake failed; empty when the peer only went away."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = str(error.reason or error)
        return REASONS.get(reason, reason.lower().replace("_", " "))
    return _TOO_LATE if isinstance(error, ConnectionAbortedError) else ""
