"""Durable sessions: what a client keeps over connections, and over the server (D18, D27-D29)."""

import pytest

from mqtt_server import (
    VERSIONS,
    Disconnect,
    MqttServer,
    Puback,
    Publish,
    Unsubscribe,
    payloads,
    topics,
    users,
)

HOUR = {"session_expiry_interval": 3600}


def lasting(version, clean_start=False, seconds=3600, **more):
    """Return the options of a CONNECT whose session outlives the connection."""
    properties = {"session_expiry_interval": seconds} if version == 5 else None
    return {"clean_start": clean_start, "properties": properties, **more}


async def durable(world, *filters, version=5, qos=1, client_id="d"):
    """Return a connection with a durable session that has these filters."""
    return await world.subscribed(
        *filters, client_id=client_id, version=version, qos=qos, connect=lasting(version)
    )


async def back(world, version=5, client_id="d", **options):
    """Return a new connection of the client, its CONNACK, and what it was sent at once."""
    peer = world.peer(version)
    connack = await peer.connect(client_id, **lasting(version, **options))
    return peer, connack, [*peer.later, *await peer.hear()]


async def acknowledged(peer, packets):
    """Acknowledge the messages among packets."""
    peer.send(*(Puback(item.packet_id) for item in packets if isinstance(item, Publish)))
    return await peer.hear()


@pytest.fixture(params=["same", "killed"])
def later(request, world):
    """Return what makes the world in which a client comes back: the same, or after a kill."""
    worlds = []

    async def make(seconds=0):
        if request.param == "same":
            if seconds:
                await world.pass_time(seconds)
            return world
        worlds.append(await world.killed(seconds))
        await worlds[-1].turn()
        return worlds[-1]

    return make


@pytest.mark.parametrize("version", VERSIONS)
async def test_offline_messages_wait(world, later, version):
    """D27, MQTT-3.1.2-5, MQTT-3.1.2-23: QoS 1 messages for an offline session, on any topic."""
    peer = await durable(world, "a/+", "Dog/#", version=version)
    peer.lose()
    await world.say("a/1", b"one")
    await world.put("Dog/1", b'{"name":"Rex"}')
    await world.say("a/2", b"two")
    _, connack, heard = await back(await later(), version)
    assert connack.session_present is (version != 3)
    assert ["a/1", "Dog/1", "a/2"] == topics(heard)
    assert [1, 1, 1] == [packet.qos for packet in heard]


async def test_each_message_once(world, later):
    """D27: what was acknowledged does not come again, what was not does."""
    peer = await durable(world, "a")
    for number in range(5):
        await world.say("a", b"%d" % number)
    heard = await peer.hear()
    await acknowledged(peer, heard[:3])
    peer.lose()
    await world.say("a", b"5")
    other = await later()
    again, _, heard = await back(other)
    assert [b"3", b"4", b"5"] == payloads(heard)
    assert [True, True, False] == [packet.dup for packet in heard]  # MQTT-3.3.1-1
    await acknowledged(again, heard)
    again.lose()
    assert [] == (await back(other))[2]


async def test_unacknowledged_come_with_their_identifiers(world, later):
    """D18, MQTT-4.4.0-1, MQTT-4.6.0-1: the same identifiers, in the same order."""
    peer = await durable(world, "a")
    for number in range(4):
        await world.say("a", b"%d" % number)
    first = await peer.hear()
    await acknowledged(peer, first[1:2])
    peer.lose()
    _, _, heard = await back(await later())
    left = [first[0], *first[2:]]
    assert [(p.packet_id, p.payload) for p in left] == [(p.packet_id, p.payload) for p in heard]


async def test_resending_obeys_receive_maximum(world, later):
    """D18, D19, MQTT-3.3.4-7: also for what is sent again, and the quota is that of now."""
    peer = await durable(world, "a")
    for number in range(6):
        await world.say("a", b"%d" % number)
    await peer.hear()
    peer.lose()
    other = await later()
    again = other.peer()
    limit = {**HOUR, "receive_maximum": 2}
    await again.connect("d", clean_start=False, properties=limit)
    got, heard = [], again.later
    while heard:
        assert len(heard) <= 2
        got += heard
        heard = await acknowledged(again, heard)
    assert [b"0", b"1", b"2", b"3", b"4", b"5"] == payloads(got)


async def test_subscriptions_survive(world, later):
    """D27: with their options; ended ones stay ended (MQTT-3.10.4-1)."""
    peer = await durable(world, "a", "b", "c")
    await peer.ask(Unsubscribe(9, ("b",)))
    peer.lose()
    other = await later()
    again, _, _ = await back(other)
    for topic in "abc":
        await other.say(topic, b"x")
    assert ["a", "c"] == topics(await again.hear())


async def test_qos_0_filters_are_not_waited_for(plain_world):
    """D27: what nobody asked to be kept is not written to the log."""
    world = plain_world
    peer = await durable(world, "a", qos=0)
    peer.lose()
    head = world.store.head()
    await world.say("a", b"x")
    assert (head, []) == (world.store.head(), (await back(world))[2])


async def test_messages_nobody_waits_for_are_not_logged(plain_world):
    """The fast path of a broker: clean sessions alone cost no disk."""
    world = plain_world
    await world.subscribed("a", qos=1)
    await world.say("a", b"x")
    assert 0 == world.store.head()


async def test_a_session_stores_no_messages(world):
    """D28: many offline sessions and many messages: each is stored once."""
    for number in range(50):
        peer = await durable(world, "a/#", client_id=f"d{number}")
        peer.lose()
    await world.turn()
    facts = len(world.store.states("session/"))
    for number in range(100):
        await world.say("a/b", b"%d" % number)
    assert (100, facts) == (len(world.store.read(0, 1000)), len(world.store.states("session/")))
    for number in range(50):
        _, _, heard = await back(world, client_id=f"d{number}")
        assert 100 == len(heard)


async def test_clean_start_ends_the_session(world, later):
    """MQTT-3.1.2-4, X12: nothing of the one before is left, on disk either."""
    peer = await durable(world, "a")
    peer.lose()
    await world.say("a", b"x")
    other = await later()
    fresh = other.peer()
    connack = await fresh.connect("d", clean_start=True)
    assert not connack.session_present
    assert [] == await fresh.hear()
    await other.turn()
    assert [] == other.store.states("session/")
    await other.say("a", b"y")
    assert [] == await fresh.hear()


@pytest.mark.parametrize(("seconds", "present"), [(50, True), (150, False)])
async def test_expiry_counts_from_the_disconnect(world, later, seconds, present):
    """X12, D27, MQTT-4.1.0-2: and nothing is left after it."""
    peer = world.peer()
    await peer.connect("d", clean_start=False, properties={"session_expiry_interval": 100})
    await peer.subscribe("a", qos=1)
    await world.pass_time(500)
    peer.send(Disconnect())
    await peer.hear()
    other = await later(seconds)
    assert present is bool(other.store.states("session/"))
    _, connack, _ = await back(other)
    assert present is connack.session_present


async def test_expiry_of_a_killed_server_counts_from_its_start(world):
    """X12: the connection ended with the server."""
    peer = world.peer()
    await peer.connect("d", clean_start=False, properties={"session_expiry_interval": 100})
    other = await world.killed(1000)
    _, connack, _ = await back(other)
    assert connack.session_present


async def test_disconnect_changes_the_expiry(world):
    """MQTT 5, 3.14.2.2.2: to a longer one, or to none."""
    for seconds, present in ((1000, True), (0, False)):
        peer = world.peer()
        await peer.connect("d", clean_start=True, properties={"session_expiry_interval": 10})
        peer.send(Disconnect(properties={"session_expiry_interval": seconds}))
        await peer.hear()
        await world.pass_time(500)
        assert present is (await back(world, seconds=7))[1].session_present


@pytest.mark.parametrize("version", (3, 4))
async def test_clean_session_0_never_expires(world, later, version):
    """X12, MQTT-3.1.2-4 of 3.1.1."""
    peer = await durable(world, "a", version=version)
    peer.lose()
    other = await later(10 * 365 * 24 * 3600)
    await other.say("a", b"x")
    assert [b"x"] == payloads((await back(other, version))[2])


async def test_the_server_may_shorten_the_expiry(world):
    """MQTT 5, 3.2.2.3.2: and says so."""
    other = MqttServer(session_expiry_seconds_max=60)
    peer = other.peer()
    connack = await peer.connect("d", clean_start=False, properties=HOUR)
    assert 60 == connack.properties["session_expiry_interval"]
    peer.lose()
    await other.pass_time(61)
    assert not (await back(other))[1].session_present


async def test_take_over_goes_on_with_the_session(world):
    """D29, MQTT-3.1.4-3: the old connection is told 0x8E, the new one gets what is in flight."""
    peer = await durable(world, "a")
    await world.say("a", b"x")
    first = (await peer.hear())[0]
    again, connack, heard = await back(world)
    assert connack.session_present
    assert [0x8E] == [item.reason for item in peer.heard() if isinstance(item, Disconnect)]
    assert [(first.packet_id, True)] == [(p.packet_id, p.dup) for p in heard]
    await world.say("a", b"y")
    assert [b"y"] == payloads(await again.hear())


async def test_packets_sent_with_connect_are_held(world):
    """MQTT 5, 3.1: a client need not wait for CONNACK."""
    from mqtt_server import Connack, Connect, Suback, Subscribe, Subscription

    peer = world.peer()
    properties = {"session_expiry_interval": 60}
    heard = await peer.ask(
        Connect(5, "d", properties=properties),
        Subscribe(1, (Subscription("a", 1),)),
        Publish("a", b"x", 1, packet_id=3),
    )
    kinds = [type(packet) for packet in heard]
    assert kinds[0] is Connack
    assert {Suback, Puback, Publish} == set(kinds[1:])


async def test_an_interrupted_snapshot_goes_on(world, later):
    """D27: current records that were not sent are sent to the next connection, each once."""
    for number in range(30):
        await world.put(f"Dog/{number:02}", b'{"age":%d}' % number)
    peer = world.peer()
    limit = {**HOUR, "receive_maximum": 4}
    await peer.connect("d", clean_start=False, properties=limit)
    await peer.subscribe("Dog/+", qos=1)
    got = [*peer.later, *await peer.hear()]
    got = [packet for packet in got if isinstance(packet, Publish)]
    assert 4 == len(got)
    await acknowledged(peer, got[:4])
    peer.lose()
    other = await later()
    _, _, heard = await back(other)
    assert {f"Dog/{number:02}" for number in range(30)} == set(topics(got) + topics(heard))
    assert [True] * len(heard) == [packet.retain for packet in heard]


@pytest.mark.parametrize("since", [None, "0badcafe:0"])
async def test_what_was_sent_at_first_is_not_sent_again(world, later, since):
    """D27: current records, or the history that was asked for, each once, over a kill too."""
    for number in range(3):
        await world.put(f"Dog/{number}", b'{"age":%d}' % number)
    peer = await durable(world, "other", "Dog/x")
    properties = users(("since", since)) if since else None
    await peer.subscribe("Dog/+", qos=1, properties=properties)
    sent = [*peer.later, *await peer.hear()]
    assert 3 == len([packet for packet in sent if packet.topic.startswith("Dog/")])
    await acknowledged(peer, sent)
    await world.pass_time(1)
    _, _, heard = await back(await later())
    assert [] == topics(heard)


async def test_trimmed_messages_are_told_by_current_records(world):
    """A session that waited longer than the log remembers begins anew, and is complete."""
    from rowcast.store.store import Keep

    peer = await durable(world, "Dog/#")
    peer.lose()
    for number in range(10):
        await world.put("Dog/1", b'{"age":%d}' % number)
    table = world.kernel.registry.route("Dog/1").table
    world.store.trim(table, Keep(events=2), world.time, 100)
    _, _, heard = await back(world)
    assert [b'{"age":9}'] == payloads(heard)


async def test_the_place_of_a_quiet_session_is_saved_now_and_then(world):
    """Else the log would forget what it has long passed, and a restart would begin it anew."""
    await durable(world, "a")
    for number in range(50):
        await world.put("Dog/1", b'{"age":%d}' % number)
    await world.pass_time(700)
    other = await world.killed()
    assert world.store.head() == other.broker.sessions.get("d").position


async def test_refused_disk_refuses_the_session(world):
    """A session that cannot be kept is not promised: CONNACK says why."""
    from rowcast.core.errors import Code, Error

    def fail(*_):
        raise Error(Code.BUSY, "the disk is full")

    world.store.commit = fail
    peer = world.peer()
    connack = await peer.connect("d", clean_start=False, properties=HOUR)
    assert (0x89, "the disk is full") == (connack.reason, connack.properties["reason_string"])


async def test_a_single_record_comes_once_over_a_break(world):
    """D27: a filter without wildcards, whose record was sent and whose mark was not."""
    await world.put("Dog/1", b'{"age":1}')
    peer = world.peer()
    await peer.connect("d", clean_start=False, properties={**HOUR, "receive_maximum": 1})
    await peer.subscribe("Dog/1", qos=1)
    (message,) = [p for p in [*peer.later, *await peer.hear()] if isinstance(p, Publish)]
    await acknowledged(peer, [message])
    session = world.broker.sessions.get("d")
    session.subscription.interests["Dog/1"].current = "Dog/1"  # the mark was not taken
    peer.lose()
    assert [] == payloads((await back(world))[2])


async def test_a_history_has_no_messages_of_the_client_itself(world):
    """D37, MQTT-3.8.3-3: No Local holds for the part of the log before a filter began, too."""
    from mqtt_server import users

    peer = await durable(world, "other")
    begin = world.kernel.head
    peer.publish("Dog/1", b'{"age":1}', 1, True)
    await world.put("Dog/2", b'{"age":2}')
    await peer.hear()
    since = users(("since", begin))
    await peer.subscribe("Dog/+", qos=1, no_local=True, properties=since)
    heard = [p for p in [*peer.later, *await peer.hear()] if isinstance(p, Publish)]
    assert [b'{"age":2}'] == payloads([p for p in heard if not p.topic.startswith("$")])
