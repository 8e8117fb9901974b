"""What each mode of a bridge promises, and that it keeps it (H40)."""

import pytest
from bridged import reading, server, to

from remote_broker import NEEDS_MOSQUITTO, RemoteBroker

pytestmark = NEEDS_MOSQUITTO
COUNT = 30


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def broker(tmp_path):
    (tmp_path / "there").mkdir()
    with RemoteBroker(tmp_path / "there") as running:
        yield running


async def write(world, begin):
    for number in range(begin, begin + COUNT):
        await world.say("u/1", b"%d" % number)


@pytest.mark.parametrize(
    ("mode", "served", "begin"),
    [("hybrid", "hot", 0), ("outbox", "cold", 0), ("memory", "hot", COUNT)],
)
async def test_what_a_restart_in_an_outage_loses(broker, folder, mode, served, begin):
    """H40: nothing, where the log is the outbox; in memory, what was written before it."""
    settings = to(broker, "u/#", mode=mode)
    broker.kill()
    async with server(folder, settings) as world:
        await write(world, 0)
    async with server(folder, settings) as world:
        await write(world, COUNT)
        broker.start()
        async with reading(broker) as reader:
            await world.idle()
            await world.say("u/1", b"%d" % (2 * COUNT))
            await world.until(lambda: reader.heard[-1:] == [("u/1", b"%d" % (2 * COUNT))])
            assert served == world.bridge.mode
        sent = world.bridge.sent
    assert 2 * COUNT + 1 - begin == sent


async def test_the_mode_outbox_reads_all_from_the_log(broker, folder):
    """H40: none is sent that could not be read again."""
    async with server(folder, to(broker, "u/#", mode="outbox")) as world:
        async with reading(broker) as reader:
            await world.idle()
            await write(world, 0)
            heard = await reader.wait(COUNT)
        assert not world.bridge.subscription.queue.events
    assert [b"%d" % number for number in range(COUNT)] == [payload for _, payload in heard]


async def test_memory_bridges_an_outage_that_fits(broker, folder):
    """H40: in order, and nothing is read from the log or kept for it."""
    async with server(
        folder, to(broker, "u/#", mode="memory"), topics={"undeclared": "route"}
    ) as world:
        broker.kill()
        await world.until(lambda: not world.bridge.connected)
        await write(world, 0)
        assert not [e for e in world.application.store.read(0, 1000) if e.topic == "u/1"]
        broker.start()
        await world.until(lambda: world.bridge.sent == COUNT)


async def test_memory_that_is_full_says_what_it_lost(broker, folder):
    """H40: all that was sent or counted as lost is all that was written; the order stays."""
    more = {"topics": {"undeclared": "route"}, "subscriptions": {"queue_events": 10}}
    async with server(folder, to(broker, "u/#", mode="memory"), **more) as world:
        broker.kill()
        await world.until(lambda: not world.bridge.connected)
        await write(world, 0)
        broker.start()
        async with reading(broker) as reader:
            await world.idle()
            await world.say("u/1", b"%d" % COUNT)
            await world.until(lambda: reader.heard[-1:] == [("u/1", b"%d" % COUNT)])
        sent, dropped = world.bridge.sent, world.bridge.dropped
        assert COUNT + 1 == sent + dropped
        assert 10 <= sent < COUNT
        assert "slow" in world.bridge.last_error
