"""A port that is listened on: each connection that comes in is given a protocol.

It owns the listening socket and nothing else: the connections belong to who made the protocols, and
ends them. It has no task (D5).
"""

import asyncio
import socket
from collections.abc import Callable

from rowcast.core.fairness_limits import ACCEPTED_AT_ONCE
from rowcast.core.listener_limits import LISTEN_BACKLOG
from rowcast.net.probes import probe_accepted


class Listener:
    """Accepts connections on one address.

    ``accepted_at_once`` is how many of those that wait are accepted in one turn of asyncio's loop;
    uvloop accepts all. ``silence_seconds`` is after how much silence the operating system probes
    the peers, where their sockets inherit that (``probes.INHERITED``); 0 is never.
    """

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        host: str,
        port: int,
        accepted_at_once: int = ACCEPTED_AT_ONCE,
        *,
        shared: bool = False,
        silence_seconds: int = 0,
    ) -> None:
        self._silence_seconds = silence_seconds
        self._shared = shared
        """Whether other processes listen on the same port (SO_REUSEPORT, socket(7))."""
        self._make = make
        self._accepted_at_once = accepted_at_once
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is listened on, also when 0 was asked for."""
        if self._server is None or not self._server.sockets:
            return self._port
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Begin to accept. Raises OSError when the port cannot be had."""
        bound = bind(self._host, self._port, shared=self._shared)
        probe_accepted(bound, self._silence_seconds)
        self._server = await asyncio.get_running_loop().create_server(
            self._make, sock=bound, backlog=self._accepted_at_once
        )
        bound.listen(LISTEN_BACKLOG)  # asyncio accepts as many in a turn as it was told there wait

    def stop(self) -> None:
        """Accept no more."""
        if self._server is not None:
            self._server.close()


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a socket bound to an address; raises OSError when the port cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sets TCP_NODELAY only on sockets that say they are TCP.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
