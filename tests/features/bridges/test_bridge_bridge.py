"""A server bridged to a real Mosquitto: nothing is lost, and the order is kept (H1-H26)."""

import json

import pytest
from bridged import ANN, reading, server, to

from remote_broker import NEEDS_MOSQUITTO, RemoteBroker
from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription

pytestmark = NEEDS_MOSQUITTO


@pytest.fixture
def broker(tmp_path):
    (tmp_path / "there").mkdir()
    with RemoteBroker(tmp_path / "there") as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


async def test_records_and_messages_go_there(broker, folder):
    """H1: puts are retained messages, deletions empty ones, messages are not retained."""
    async with server(folder, to(broker, "Dog/#", "u/#")) as world, reading(broker) as reader:
        await world.idle()
        receipt = await world.put("Dog/1", b'{"name":"Rex"}')
        await world.say("u/1", b"\x00raw")
        await world.put("Dog/1", b"")
        await world.say("other/1", b"stays here")
        heard = await reader.wait(3)
    assert [("Dog/1", b'{"id":"1","name":"Rex"}'), ("u/1", b"\x00raw"), ("Dog/1", b"")] == heard
    assert ["application/json"] == reader.properties[0]["content_type"]
    assert world.kernel.cursor(receipt.event.seq) == reader.marks(0)["rowcast-id"]


async def test_an_outage_from_beginning_to_end(broker, folder):
    """H9, H5, H7: t0 to t10; in order, and nothing lost."""
    async with server(folder, to(broker, "u/#")) as world:
        await world.idle()
        async with reading(broker) as reader:
            await world.say("u/x", b"t0")
            await reader.wait(1)
            assert "hot" == world.bridge.mode
        broker.kill()
        await world.until(lambda: not world.bridge.connected)
        assert "cold" == world.bridge.mode
        await world.say("u/x", b"#1")
        await world.say("u/x", b"#2")
        broker.start()
        async with reading(broker) as reader:
            await world.say("u/x", b"#3")
            await world.idle()
            assert "hot" == world.bridge.mode
            await world.say("u/x", b"t10")
            await world.until(lambda: reader.heard[-1:] == [("u/x", b"t10")])
            heard = [payload for _, payload in reader.heard]
    assert [b"#3", b"t10"] == heard[-2:]
    assert sorted(heard) == heard
    assert 5 == world.bridge.sent


async def test_rows_go_there(broker, folder):
    """F3, H26: a topic table's rows, also those that waited over a restart; each event once."""
    plan = to(broker, "mqtt_u/#", "v/#", "mqtt_v/#")
    async with server(folder, plan) as world:
        await world.idle()
        broker.kill()
        await world.until(lambda: not world.bridge.connected)
        for n in range(3):
            await world.say("u/x", b"%d" % n)
            await world.say("v/x", b"%d" % n)
    broker.start()
    async with reading(broker) as reader, server(folder, plan) as world:
        await world.say("u/x", b"3")
        heard = await reader.wait(7)
        await world.idle()
    assert [payload for topic, payload in heard if topic == "v/x"] == [b"0", b"1", b"2"]
    rows = [json.loads(payload) for topic, payload in heard if topic.startswith("mqtt_u/")]
    assert [row["payload"] for row in rows] == [0, 1, 2, 3]
    assert len(reader.heard) == 7


async def test_what_waits_survives_a_restart(broker, folder):
    """H21, H4, X14: the outbox is the log."""
    settings = to(broker, "u/#")
    broker.kill()
    async with server(folder, settings) as world:
        for number in range(50):
            await world.say(f"u/{number % 5}", b"%d" % number)
        assert 0 == world.bridge.sent
    broker.start()
    async with reading(broker) as reader, server(folder, settings) as world:
        heard = await reader.wait(50)
        await world.idle()
    assert [b"%d" % number for number in range(50)] == sorted((p for _, p in heard), key=int)
    assert 50 == len(heard)
    for topic in range(5):
        mine = [int(payload) for name, payload in heard if name == f"u/{topic}"]
        assert sorted(mine) == mine


async def test_a_refused_event_becomes_a_dead_letter(tmp_path, folder, monkeypatch):
    """H10, H12, H13: the access list of the broker; other topics flow."""
    monkeypatch.setattr("rowcast.features.bridges.outbox.backoff_seconds", lambda _attempts: 0.01)
    (tmp_path / "rules").write_text("topic readwrite free/#\n")
    with RemoteBroker(tmp_path, f"acl_file {tmp_path}/rules") as broker:
        async with server(folder, to(broker, "#")) as world, reading(broker, "free/#") as reader:
            await world.idle()
            await world.say("forbidden/1", b"no")
            await world.say("free/1", b"yes")
            assert [("free/1", b"yes")] == await reader.wait(1)
            await world.until(lambda: world.bridge.dead)
            found = await world.kernel.reader.scan(
                None, TopicFilter("$SYS/gateway/b/dead_letters/+"), "", 10
            )
            letter = world.kernel.transcoder.value(found.records[0])
    assert ("forbidden/1", "no", 5) == (letter["topic"], letter["payload"], letter["attempts"])
    assert "not authorized" in letter["last_error"]
    assert found.records[0].expires_at > 29 * 86_400


async def test_who_makes_the_broker_disconnect_is_found(tmp_path, folder, monkeypatch):
    """H12: a packet that is too large for the broker, among good ones."""
    monkeypatch.setattr("rowcast.features.bridges.outbox.backoff_seconds", lambda _attempts: 0.01)
    with RemoteBroker(tmp_path, "max_packet_size 2000") as broker:
        plan = to(broker, "u/#", version="3.1.1")  # which cannot be told how much the broker takes
        async with server(folder, plan) as world, reading(broker) as reader:
            await world.idle()
            for number in range(20):
                await world.say(f"u/{number}", b"%d" % number)
            await world.say("u/big", b"x" * 5000)
            for number in range(20, 40):
                await world.say(f"u/{number}", b"%d" % number)
            await world.until(lambda: world.bridge.dead)
            await world.idle()
            payloads = {payload for _, payload in reader.heard}
    assert {b"%d" % number for number in range(40)} <= payloads
    assert 1 == world.bridge.dead


async def test_a_write_never_fails_because_of_the_broker(broker, folder):
    """H20."""
    broker.kill()
    async with server(folder, to(broker, "#")) as world:
        receipt = await world.put("Dog/1", b'{"name":"' + b"x" * 1_000_000 + b'"}')
        assert receipt.event.seq


async def test_messages_from_there_are_written_here(broker, folder):
    """H33, H35: into tables and topics, under another name, as often as they were sent."""
    into = [{"filter": "dogs/+", "strip": "dogs/", "prefix": "Dog/"}, {"filter": "said/#"}]
    settings = to(broker) | {"in": into}
    async with server(folder, settings) as world, reading(broker, "none") as remote:
        await world.idle()
        listener = Subscription(world.kernel.reader)
        world.kernel.watch(listener, SubscribedFilter(TopicFilter("said/#"), marks=False), ANN)
        done = []
        publish = remote.link.publish
        publish("dogs/1", b'{"name":"Rex"}', 1, True, {}, done.append)
        publish("said/1", b"hello", 1, False, {}, done.append)
        await world.until(lambda: world.bridge.inlet.received == 2)
        record = await world.kernel.read("Dog/1", ANN)
    assert b'{"id":"1","name":"Rex"}' == record.payload


async def test_a_bridge_both_ways_does_not_go_round(broker, folder):
    """H34: what went there does not come back as something new."""
    settings = to(broker, "chat/#") | {"in": [{"filter": "chat/#"}]}
    async with server(folder, settings) as world, reading(broker) as reader:
        await world.idle()
        await world.say("chat/1", b"from here")
        await reader.wait(1)
        reader.link.publish("chat/1", b"from there", 1, False, {}, lambda _: None)
        await world.until(lambda: world.bridge.inlet.received == 1)
        await world.idle()
        events = [
            event for event in world.application.store.read(0, 100) if event.topic == "chat/1"
        ]
    assert [b"from here", b"from there"] == [event.payload for event in events]
    assert [b"from here", b"from there"] == [payload for _, payload in reader.heard]


async def test_its_rows_tell_what_it_does(broker, folder):
    """H17, H5: the ten fields, and live."""
    async with server(folder, to(broker, "u/#")) as world:
        await world.idle()
        await world.say("u/1", b"x")
        await world.until(lambda: world.bridge.sent == 1)
        rows = await world.kernel.resource("$SYS/brokers/b", ANN).get()
        await world.until(
            lambda: world.application.store.get(None, "$SYS/gateway/b/delivery_mode") is not None
        )
    fields = ("broker_name", "host", "port", "connected", "delivery_mode", "messages_sent",
              "messages_failed", "dead_lettered", "outbox_pending", "last_error")  # fmt: skip
    assert ["b", "127.0.0.1", broker.port, True, "hot", 1, 0, 0, 0, ""] == [
        rows[field] for field in fields
    ]


async def test_two_servers_with_one_plan_do_not_throw_each_other_off(broker, tmp_path):
    """H38: each log has a client identifier of its own."""
    folders = [tmp_path / name for name in ("one", "two")]
    for each in folders:
        each.mkdir()
    settings = to(broker, "u/#")
    async with server(folders[0], settings) as one, server(folders[1], settings) as two:
        await one.idle()
        await two.idle()
        await one.say("u/1", b"of one")
        await two.say("u/2", b"of two")
        await one.idle()
        await two.idle()
        assert (1, 1) == (one.bridge.sent, two.bridge.sent)
        assert one.bridge._remote().client_id != two.bridge._remote().client_id


async def test_what_came_while_it_was_away_comes_later(broker, folder):
    """H33: the broker keeps the session of the way in."""
    settings = to(broker) | {"in": [{"filter": "cmd/#"}]}
    async with server(folder, settings) as world:
        await world.idle()
    async with reading(broker, "none") as remote:
        done = []
        for number in range(10):
            remote.link.publish("cmd/x", b"%d" % number, 1, False, {}, done.append)
        async with server(folder, settings) as world:
            await world.until(lambda: world.bridge.inlet.received == 10)
            events = world.application.store.read(0, 1000)
    said = [event.payload for event in events if event.topic == "cmd/x"]
    assert [b"%d" % number for number in range(10)] == said


@pytest.mark.parametrize("left", [[], ["cmd/#"]])
async def test_a_filter_that_was_removed_is_unsubscribed_there(broker, folder, left):
    """H33: its messages would wait in the session, and all come when it is there again."""
    both = to(broker) | {"in": [{"filter": "cmd/#"}, {"filter": "größe/#"}]}
    async with server(folder, both) as world:
        await world.idle()
    async with server(folder, to(broker) | {"in": [{"filter": text} for text in left]}) as world:
        await world.until(lambda: world.bridge.inlet.known == tuple(left))
    async with reading(broker, "none") as remote:
        done = []
        for topic in ("größe/x", "cmd/x"):
            remote.link.publish(topic, b"away", 1, False, {}, done.append)
        async with server(folder, both) as world:
            await world.idle()
            remote.link.publish("cmd/y", b"last", 1, True, {}, done.append)
            events = world.application.store
            await world.until(lambda: any(item.topic == "cmd/y" for item in events.read(0, 999)))
            topics = [event.topic for event in events.read(0, 999) if event.topic[0] != "$"]
    assert [*(["cmd/x"] if left else []), "cmd/y"] == topics


async def test_what_the_disk_refuses_is_not_acknowledged(broker, folder, monkeypatch):
    """H33, X9: it comes again when the disk takes it; what is no value of a table does not."""
    settings = to(broker) | {"in": [{"filter": "cmd/#"}, {"filter": "Dog/#"}]}
    async with server(folder, settings) as world, reading(broker, "none") as remote:
        await world.idle()
        append, refusals = world.application.store.append, []

        def refuse(packed, **options):
            if len(refusals) < 3 and any(event.topic == "cmd/x" for event in packed.events):
                refusals.append(packed)
                raise Error(Code.BUSY, "the disk is full")
            return append(packed, **options)

        monkeypatch.setattr(world.application.store, "append", refuse)
        remote.link.publish("Dog/1", b"no dog", 1, True, {}, lambda _: None)
        remote.link.publish("cmd/x", b"kept", 1, False, {}, lambda _: None)
        await world.until(lambda: world.bridge.inlet.received == 1)
        assert (3, 4) == (len(refusals), world.bridge.inlet.refused)
        assert [b"kept"] == [
            event.payload
            for event in world.application.store.read(0, 1000)
            if event.topic == "cmd/x"
        ]
