"""What is asked of a TCP socket: to notice that its peer has vanished.

A peer that loses power or its network sends no FIN. If it also wanted no MQTT keep-alive, nothing
but the kernel's probes ever tells that it is gone.
"""

import asyncio
import socket

from rowcast.core.limits import TCP_PROBE_SECONDS, TCP_PROBES


def probe_peer(stream: asyncio.BaseTransport, silence_seconds: int) -> None:
    """Have the kernel probe the peer after so much silence, and close if there is no answer.

    0 asks for nothing; where there is no TCP, such as on a Unix socket, nothing is done.
    """
    connected = stream.get_extra_info("socket")
    if not silence_seconds or connected is None:
        return
    if connected.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": silence_seconds,
        "TCP_KEEPALIVE": silence_seconds,  # what macOS calls the first
        "TCP_KEEPINTVL": TCP_PROBE_SECONDS,
        "TCP_KEEPCNT": TCP_PROBES,
    }
    for name, value in options.items():
        option = getattr(socket, name, None)  # each system has its own set
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
