"""Notifications to the service manager: the server is ready, alive or stopping.

The protocol is that of sd_notify(3): one datagram of ``NAME=value`` lines to the Unix socket in
``NOTIFY_SOCKET``. Without that variable nothing is sent. The module does not know the application.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

log = logging.getLogger("rowcast")

_TICKS_PER_PERIOD: Final = 2
"""sd_watchdog_enabled(3) recommends a keepalive at half the allowed interval."""


class ServiceManager:
    """Sends the state of this process; with ``watchdog_seconds`` keepalives, too.

    An address that begins with ``@`` is in the abstract namespace (unix(7)); empty: no manager.
    """

    def __init__(self, address: str = "", watchdog_seconds: float = 0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._pause_seconds = watchdog_seconds / _TICKS_PER_PERIOD

    def ready(self) -> None:
        """Notify that the server accepts clients; then, from the running loop, send keepalives.

        A hanging loop sends no keepalive, so the manager restarts the process.
        """
        self._send("READY=1")
        if self._address and self._pause_seconds:
            self._tick(asyncio.get_running_loop())

    def stopping(self) -> None:
        """Notify that the server is shutting down."""
        self._send("STOPPING=1")

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._send("WATCHDOG=1")
        loop.call_later(self._pause_seconds, self._tick, loop)

    def _send(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.setblocking(False)
                connection.sendto(state.encode(), self._address)
        except OSError as error:
            log.warning("the service manager was not told %s: %s", state, error)


def service_manager(variable: Callable[[str], str]) -> ServiceManager:
    """Return the manager from the environment; ``variable`` reads it.

    ``WATCHDOG_USEC`` applies to the process ``WATCHDOG_PID``, or to any without it.
    """
    period = variable("WATCHDOG_USEC")
    ours = variable("WATCHDOG_PID") in ("", str(os.getpid()))
    microseconds = int(period) if ours and period.isdecimal() else 0
    return ServiceManager(variable("NOTIFY_SOCKET"), microseconds / 1_000_000)
