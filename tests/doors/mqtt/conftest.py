"""The fixtures of the broker's tests."""

from contextlib import asynccontextmanager

import pytest_asyncio

from mqtt_server import MqttServer


@pytest_asyncio.fixture
async def world():
    """A kernel in memory and a broker on it; afterwards nothing is left running."""
    async with lasting(MqttServer()) as made:
        yield made


@pytest_asyncio.fixture
async def plain_world():
    """The same where messages at undeclared topics are only delivered (`route`)."""
    async with lasting(MqttServer(undeclared="route")) as made:
        yield made


@asynccontextmanager
async def lasting(made):
    """Give a world, and see that it ends."""
    yield made
    for peer in made.peers:
        peer.lose()
    for executor in (made.writer, made.readers):  # a killed world's
        executor.release()
    await made.broker.stop()
    await made.stop()
    await made.turn()
    assert (set(), 0, []) == (made.broker.clients, made.kernel.bus.subscriptions, made.loop.due())
