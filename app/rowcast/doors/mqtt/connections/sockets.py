"""TCP keepalive: detection of vanished peers.

A peer that loses power or its network sends no FIN. Without an MQTT Keep Alive, only the operating
system's probes detect that.
"""

import asyncio
import socket

from rowcast.core.limits import TCP_PROBE_SECONDS, TCP_PROBES


def probe_peer(stream: asyncio.BaseTransport, silence_seconds: int) -> None:
    """Enable probes after so much silence; without an answer the socket is closed.

    0 disables them; no effect without TCP, such as on a Unix socket.
    """
    connected = stream.get_extra_info("socket")
    if not silence_seconds or connected is None:
        return
    if connected.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": silence_seconds,
        "TCP_KEEPALIVE": silence_seconds,  # macOS's name of the first
        "TCP_KEEPINTVL": TCP_PROBE_SECONDS,
        "TCP_KEEPCNT": TCP_PROBES,
    }
    for name, value in options.items():
        option = getattr(socket, name, None)  # systems support different options
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
