"""TCP keepalive: detection of vanished peers.

A peer that loses power or its network sends no FIN. Without an MQTT Keep Alive, only the operating
system's probes detect that.
"""

import asyncio
import socket
import sys
from typing import Final

from rowcast.core.limits import TCP_PROBE_SECONDS, TCP_PROBES

INHERITED: Final = sys.platform == "linux"
"""Whether a connection has the options of the socket that it was accepted from: Linux copies them
(tcp(7)). Elsewhere that is not certain, and each connection is set by itself, for 25 microseconds.
"""


def probe_accepted(listening: socket.socket, silence_seconds: int) -> None:
    """Enable probes for what a listening socket will accept, where that is inherited."""
    if INHERITED:
        _probe(listening, silence_seconds)


def probe_peer(stream: asyncio.BaseTransport, silence_seconds: int) -> None:
    """Enable probes after so much silence; without an answer the socket is closed.

    0 disables them; no effect without TCP, such as on a Unix socket.
    """
    connected = stream.get_extra_info("socket") if silence_seconds else None
    if connected is not None:
        _probe(connected, silence_seconds)


def _probe(of_tcp: socket.socket, silence_seconds: int) -> None:
    if not silence_seconds or of_tcp.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    of_tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": silence_seconds,
        "TCP_KEEPALIVE": silence_seconds,  # macOS's name of the first
        "TCP_KEEPINTVL": TCP_PROBE_SECONDS,
        "TCP_KEEPCNT": TCP_PROBES,
    }
    for name, value in options.items():
        option = getattr(socket, name, None)  # systems support different options
        if option is not None:
            of_tcp.setsockopt(socket.IPPROTO_TCP, option, value)
