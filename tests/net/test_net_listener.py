"""A port that is listened on: a crowd is accepted some at a time (L11)."""

import asyncio
import socket
from contextlib import ExitStack

from rowcast.net.listener import Listener

UNTIL_SECONDS = 30


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
        async with asyncio.timeout(UNTIL_SECONDS):
            while sum(turns) < 20:
                before = len(made)
                await asyncio.sleep(0)
                turns.append(len(made) - before)
    listener.stop()
    assert 3 == max(turns)
