"""The fixture of the broker's tests."""

import pytest_asyncio
from broker_world import World


@pytest_asyncio.fixture
async def world():
    """An engine in memory and a broker on it; afterwards nothing is left running."""
    made = World()
    yield made
    for peer in made.peers:
        peer.lose()
    for executor in (made.writer, made.readers):  # a killed world's
        if executor.held is not None:
            executor.release()
    await made.broker.stop()
    await made.engine.stop()
    await made.turn()
    assert (set(), 0, []) == (made.broker.clients, made.engine.bus.subscriptions, made.loop.due())
