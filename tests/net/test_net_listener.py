"""A port that is listened on: a crowd is accepted some at a time (L11)."""

import asyncio
import socket
from contextlib import ExitStack

import pytest

from rowcast.core.limits import TCP_PROBE_SECONDS, TCP_PROBES
from rowcast.net.listener import Listener
from rowcast.net.probes import INHERITED
from serving import PATIENCE_SECONDS

OPTIONS = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT) if INHERITED else ()


class Protocol(asyncio.Protocol):
    def connection_made(self, transport):
        transport.close()


async def test_a_crowd_is_accepted_some_in_each_turn_of_the_loop():
    made = []

    def make():
        made.append(1)
        return Protocol()

    listener = Listener(make, "127.0.0.1", 0, accepted_at_once=3)
    await listener.start()
    with ExitStack() as crowd:
        for _ in range(20):  # they wait: the loop does not run meanwhile
            crowd.enter_context(socket.create_connection(("127.0.0.1", listener.port), 5))
        turns = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sum(turns) < 20:
                before = len(made)
                await asyncio.sleep(0)
                turns.append(len(made) - before)
    listener.stop()
    assert 3 == max(turns)


@pytest.mark.skipif(not INHERITED, reason="each connection is set by itself here")
async def test_connections_are_probed_as_their_listening_socket_says():
    """D57: none of them is set by itself."""
    accepted = asyncio.get_running_loop().create_future()

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport):
            accepted.set_result(transport)

    listener = Listener(Accepted, "127.0.0.1", 0, silence_seconds=77)
    await listener.start()
    with socket.create_connection(("127.0.0.1", listener.port), 5):
        async with asyncio.timeout(PATIENCE_SECONDS):
            transport = await accepted
        near = transport.get_extra_info("socket")
        told = [
            near.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            *(near.getsockopt(socket.IPPROTO_TCP, option) for option in OPTIONS),
        ]
        transport.abort()
    listener.stop()
    assert [1, 77, TCP_PROBE_SECONDS, TCP_PROBES] == told
