"""Caps of a bridge while its broker is away: drop, conflate and refuse, with a real Mosquitto."""

import json

import pytest
from bridged import ANN, reading, server, to

from free_ports import free_port
from http_clients import http_client
from remote_broker import NEEDS_MOSQUITTO, RemoteBroker
from rowcast.core.errors import Code, Error
from rowcast.features.bridges.backlog import Policy
from rowcast.features.bridges.link import Link
from rowcast.features.bridges.remote import Remote

OLDEST, NEWEST, CONFLATE = Policy.DROP_OLDEST, Policy.DROP_NEWEST, Policy.CONFLATE

pytestmark = NEEDS_MOSQUITTO


async def test_a_cap_on_what_waits_while_the_broker_is_away(tmp_path):
    """H24: what is dropped is counted, and told with its range; the rest arrives."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    with RemoteBroker(tmp_path / "there") as broker:
        settings = to(broker, "u/#", outbox_max_events=10)
        async with server(tmp_path / "here") as world:
            await world.gateway.change("b", settings | {"port": free_port()})
            receipts = [await world.say(f"u/{number}", b"%d" % number) for number in range(30)]
            row = await world.kernel.resource("$SYS/brokers/b", ANN).get()
            assert (10, 20) == (row["outbox_pending"], row["messages_dropped"])
            store = world.application.store
            await world.until(lambda: store.get(None, "$SYS/gateway/b/dropped"))
            told = json.loads(store.get(None, "$SYS/gateway/b/dropped").payload)
        ends = [world.kernel.cursor(receipts[index].event.seq) for index in (0, 19)]
        assert (20, *ends) == (told["in_all"], told["from"], told["to"])
        async with server(tmp_path / "here") as world, reading(broker) as reader:
            await world.until(lambda: world.bridge.backlog.events == 10)
            await world.gateway.change("b", settings)
            await world.idle()
            heard = await reader.wait(10)
        assert [b"%d" % number for number in range(20, 30)] == [said for _, said in heard]


async def test_only_the_newest_of_each_topic_waits(tmp_path):
    """H24: conflate, over a restart of the server too; what was dropped is counted."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    settings = {"outbox_max_events": 10, "outbox_policy": "conflate"}
    with RemoteBroker(tmp_path / "there") as broker:
        port, broker.port = broker.port, free_port()
        async with server(tmp_path / "here") as world:
            await world.gateway.change("b", to(broker, "u/#", **settings))
            for number in range(31):
                await world.say(f"u/{number % 3}", b"%d" % number)
            row = await world.kernel.resource("$SYS/brokers/b", ANN).get()
            waiting, dropped = row["outbox_pending"], row["messages_dropped"]
            assert (31, True) == (waiting + dropped, waiting <= 10)
        broker.port = port
        async with server(tmp_path / "here") as world, reading(broker) as reader:
            await world.until(lambda: world.bridge.backlog.events == waiting)
            await world.gateway.change("b", to(broker, "u/#", **settings))
            await world.idle()
            heard = await reader.wait(waiting)
        assert {"u/0": b"30", "u/1": b"28", "u/2": b"29"} == dict(heard)
        assert waiting == len(heard)


async def test_a_write_that_would_wait_in_vain_is_refused(tmp_path):
    """H24: refuse, on every door, and only what would wait; later it is taken."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    with RemoteBroker(tmp_path / "there") as broker:
        settings = to(broker, "u/#", outbox_max_events=10, outbox_policy="refuse")
        broker.kill()
        async with server(tmp_path / "here", settings) as world:
            for number in range(10):
                await world.say("u/x", b"%d" % number)
            for write in (world.say("u/x", b"!"), world.put("u/y", b"!")):
                with pytest.raises(Error) as refused:
                    await write
                assert Code.BUSY is refused.value.code
                assert "b (outbox_max_events)" in refused.value.message
            async with http_client() as client:
                port = world.application.http_port
                answer = await client.put(f"http://127.0.0.1:{port}/u/x", content=b"!")
            assert (503, "5") == (answer.status_code, answer.headers["Retry-After"])
            assert "outbox_max_events" in answer.json()["detail"]
            refusals = []
            link = Link(Remote("127.0.0.1", world.application.mqtt_port), print)
            await link.open()
            link.publish("u/x", b"!", 1, False, {}, refusals.append)
            await world.until(lambda: refusals)
            assert refusals[0] is not None
            await link.close()
            await world.say("v/x", b"does not go there")
            broker.start()
            async with reading(broker) as reader:
                await world.idle()
                await world.say("u/x", b"taken")
                await world.until(lambda: reader.heard[-1:] == [("u/x", b"taken")])
            assert (11, 0) == (world.bridge.sent, world.bridge.backlog.dropped)
