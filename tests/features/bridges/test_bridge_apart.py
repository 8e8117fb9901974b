"""Bridges, and the writes beside them, do not wait for each other (H3, H20, H23, H29, H38)."""

import asyncio
import signal
import socket

import pytest
from bridged import ANN, reading, server, to

from free_ports import free_port
from remote_broker import NEEDS_MOSQUITTO, RemoteBroker
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PATCH, PUT, Event
from rowcast.core.gateway_limits import GATEWAY_WRITE_BYTES_HIGH
from rowcast.features.bridges.link import Link

pytestmark = NEEDS_MOSQUITTO


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def broker(tmp_path):
    (tmp_path / "there").mkdir()
    with RemoteBroker(tmp_path / "there") as running:
        yield running


class Silent:
    """A port that accepts connections and never says a word."""

    def __init__(self, listener):
        self.port = listener.getsockname()[1]


async def test_a_writer_is_answered_before_its_bridge_works(broker, folder, monkeypatch):
    """H3: the way of a write ends before anything is done for the other broker."""
    order = []
    publish = Link.publish

    def noted(link, *arguments):
        order.append("sent")
        publish(link, *arguments)

    monkeypatch.setattr(Link, "publish", noted)
    async with server(folder, to(broker, "#")) as world:
        await world.idle()

        async def writer(number):
            await world.say(f"u/{number}", b"x")
            order.append("answered")

        await asyncio.gather(*map(writer, range(20)))
        await world.idle()
    assert ["answered"] * 20 + ["sent"] * 20 == order


async def test_one_broker_is_down_and_the_other_stays_hot(broker, folder):
    """H23, H5: one refuses connections, one never answers; the third has each event at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = type("Nobody", (), {"port": free_port()})
        settings = (
            to(broker, "u/#"),
            to(nobody, "u/#", name="closed"),
            to(Silent(listener), "u/#", name="silent"),
        )
        async with server(folder, *settings) as world, reading(broker) as reader:
            await world.idle()
            others = [world.gateway.bridges[name] for name in ("closed", "silent")]
            for number in range(300):
                await world.say(f"u/{number % 7}", b"%d" % number)
                if number % 50 == 0:
                    await reader.wait(number + 1)  # it does not wait for an outage to end
                    await world.idle()
                    assert ("hot", 0) == (world.bridge.mode, len(world.bridge.outbox))
                    assert [("cold", False)] * 2 == [(x.mode, x.connected) for x in others]
            heard = await reader.wait(300)
            assert [300, 300] == [
                world.gateway.status(name)["outbox_pending"] for name in ("closed", "silent")
            ]
            await world.idle()
    for topic in range(7):
        mine = [int(said) for name, said in heard if name == f"u/{topic}"]
        assert list(range(topic, 300, 7)) == mine


async def test_there_is_no_greatest_number_of_brokers(broker, folder):
    """H38: of 24 every other one is down, and the rest delivers."""
    nobody = type("Nobody", (), {"port": free_port()})
    settings = [
        to(nobody if number % 2 else broker, "u/#", name=f"b{number}") | {
            "out": [{"filter": "u/#", "prefix": f"{number}/"}]}
        for number in range(24)
    ]  # fmt: skip
    async with server(folder, *settings) as world, reading(broker) as reader:
        bridges = [world.gateway.bridges[f"b{number}"] for number in range(0, 24, 2)]
        await world.until(lambda: all(bridge.connected for bridge in bridges))
        for number in range(10):
            await world.say("u/1", b"%d" % number)
        heard = await reader.wait(120)
    for number in range(0, 24, 2):
        mine = [said for name, said in heard if name == f"{number}/u/1"]
        assert [b"%d" % each for each in range(10)] == mine


async def test_what_is_taken_back_is_published_nowhere(broker, folder):
    """H29: an atomic batch that is refused, before the commit or in it."""
    async with server(folder, to(broker, "#")) as world, reading(broker) as reader:
        await world.idle()

        def batch(last):
            first = Event("Dog/1", PUT, b'{"name":"Rex"}', "application/json", 1, True)
            return [first, Event("u/1", MESSAGE, b"said", qos=1), last]

        no_dog = Event("Dog/2", PUT, b'{"name":7}', "application/json", 1, True)
        with pytest.raises(Error) as refused:
            await world.kernel.write_all(batch(no_dog), ANN, atomic=True)
        assert Code.UNPROCESSABLE is refused.value.code
        nobody = Event("Dog/3", PATCH, b'{"name":7}', "application/json", 1, True)
        outcomes = await world.kernel.write_all(batch(nobody), ANN, atomic=True)
        assert all(isinstance(outcome, Error) for outcome in outcomes)
        await world.say("u/2", b"after")
        assert [("u/2", b"after")] == await reader.wait(1)
        await world.idle()
    assert (1, 1) == (world.bridge.sent, len(reader.heard))


@pytest.mark.slow
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_broker_that_stops_reading(tmp_path, folder, qos):
    """H6, H20, H26: writes go on, memory has its bound, and then all arrives in order."""
    count, payload = 4_000, b"x" * 4_000
    with RemoteBroker(tmp_path, "max_queued_messages 0") as broker:
        settings = to(broker, keep_alive_seconds=60) | {"out": [{"filter": "u/#", "qos": qos}]}
        async with server(folder, settings) as world, reading(broker) as reader:
            await world.idle()
            broker.signal(signal.SIGSTOP)
            for number in range(0, count, 100):
                await asyncio.gather(
                    *(world.say(f"u/{n % 9}", b"%d " % n + payload)
                      for n in range(number, number + 100))
                )  # fmt: skip
            bridge = world.bridge
            assert bridge.connected
            assert len(bridge.outbox.flying) <= bridge.plan.remote.flying_max
            assert bridge.outbox.held <= bridge.plan.rules.held_max
            queued, most = bridge.subscription.queue.bytes, bridge.subscription.queue.bytes_max
            assert queued <= most + len(payload) + 9
            if qos:
                waits = bridge.backlog.events + len(bridge.outbox)
                assert count - bridge.plan.remote.flying_max <= waits <= count
            else:  # what the socket took is gone
                assert bridge.sent < count
                transport = bridge._link._client._connection._transport
                assert transport.get_write_buffer_size() < 2 * GATEWAY_WRITE_BYTES_HIGH
            broker.signal(signal.SIGCONT)
            heard = await reader.wait(count)
            await world.idle()
        assert count == bridge.sent == len(heard)
    for topic in range(9):
        mine = [int(said.split()[0]) for name, said in heard if name == f"u/{topic}"]
        assert list(range(topic, count, 9)) == mine
