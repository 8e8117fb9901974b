"""Gaps: what a client is not sent is told, in stream order, to whoever asked (M4, C18)."""

import json

import pytest

from mqtt_server import OTHER, MqttServer, Puback, Publish, payloads, topics, users
from rowcast.core.callers import SERVER
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.topic_tables import TopicRoot
from rowcast.features.hooks.hook import Hook
from rowcast.mqtt.packets import Connect, Pubcomp, Pubrel, Subscribe, Subscription
from rowcast.store.store import Keep


@pytest.fixture
async def world():
    """A broker that logs no message at undeclared topics unless a session needs it."""
    made = MqttServer(undeclared="route")
    yield made
    for peer in made.peers:
        peer.lose()
    await made.broker.stop()
    await made.stop()


ASKS = users(("gaps", "true"))
BIG, SMALL = b"x" * 500, b"small"


def lasting(**more):
    return {"clean_start": False, "properties": {"session_expiry_interval": 3600, **more}}


def told(packets):
    """Return what came: payloads of messages, and reason and count of gaps, in order."""
    came = []
    for packet in packets:
        if isinstance(packet, Publish):
            gap = packet.topic.startswith("$gap/")
            facts = json.loads(packet.payload)["gap"] if gap else None
            came.append((facts["reason"], facts["count"]) if gap else packet.payload)
    return came


def quick(world, topic, payload=b"x", **properties):
    """Say something that is not logged."""
    event = Event(topic, MESSAGE, payload, None, 0, False, properties=properties or None)
    world.kernel.submit(event, OTHER)


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_is_too_large_is_a_gap_at_its_place(world, qos):
    peer = await world.connected("s", properties={"maximum_packet_size": 300})
    await peer.subscribe("a", qos=qos, properties=ASKS)
    for payload in (SMALL, BIG, BIG, SMALL, BIG):
        await world.say("a", payload)
    heard = await peer.hear()
    assert [SMALL, ("too_large", 2), SMALL, ("too_large", 1)] == told(heard)
    assert {qos} == {packet.qos for packet in heard}


async def test_a_gap_in_the_log_says_where(world):
    """M4: the range can be fetched by cursor; the filter and its identifier are told."""
    peer = await world.connected("s", properties={"maximum_packet_size": 300})
    await peer.subscribe("Dog/+", properties=ASKS | {"subscription_identifier": 7})
    big = json.dumps({"name": "x" * 500}).encode()
    before = world.committer.announced
    for topic in ("Dog/1", "Dog/2"):
        world.kernel.submit(Event(topic, PUT, big, None, 1, True), OTHER)
    (packet,) = await peer.hear()
    gap = {"count": 2, "reason": "too_large"}
    gap |= {"from": world.cursor(before), "to": world.cursor(before + 2)}
    assert ("$gap/7", (7,)) == (packet.topic, packet.properties["subscription_identifier"])
    assert {"gap": gap, "filter": "Dog/+"} == json.loads(packet.payload)
    reader = await world.connected("r")
    await reader.subscribe("Dog/+", properties=users(("since", gap["from"])))
    assert ["Dog/1", "Dog/2"] == topics([*reader.later, *await reader.hear()])


async def test_what_expires_while_it_waits_is_a_gap(world):
    peer = await world.connected("s", properties={"receive_maximum": 1})
    await peer.subscribe("a", qos=1, properties=ASKS)
    for number in range(4):
        properties = {"message_expiry_interval": 10} if number in {1, 2} else None
        event = Event("a", MESSAGE, b"%d" % number, None, 1, False, properties=properties)
        await world.kernel.write(event, OTHER)
    heard = await peer.hear()
    await world.pass_time(60)
    for _ in range(3):
        peer.send(*(Puback(packet.packet_id) for packet in heard[-1:]))
        heard += await peer.hear()
    assert [b"0", ("expired", 1), ("expired", 1), b"3"] == told(heard)


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_who_did_not_ask_is_sent_nothing(world, version):
    peer = await world.subscribed("#", version=version)
    peer.client.packet_bytes_max = 300
    await world.say("a", BIG)
    await world.say("a", SMALL)
    assert [SMALL] == payloads(await peer.hear())


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_a_subscription_to_gaps_asks_for_all_of_them(world, version):
    """With the QoS of that subscription; so clients before MQTT 5 can ask."""
    peer = await world.subscribed("a", version=version)
    await peer.subscribe("$gap/#", qos=1)
    peer.client.packet_bytes_max = 300
    await world.say("a", BIG)
    (gap,) = await peer.hear()
    assert ("$gap/0", 1, [("too_large", 1)]) == (gap.topic, gap.qos, told([gap]))
    peer.send(Puback(gap.packet_id))
    await peer.hear()
    assert not len(peer.client.session.window)


async def test_connect_asks_for_all_subscriptions(world):
    peer = await world.connected("s", properties=ASKS | {"maximum_packet_size": 300})
    await peer.subscribe("a")
    await peer.subscribe("b", properties=users(("gaps", "false")))
    await world.say("a", BIG)
    await world.say("b", BIG)
    assert [("too_large", 1)] == told(await peer.hear())


async def test_a_slow_reader_is_told_between_what_came_before_and_after(world):
    """C18: in stream order, and for each filter apart."""
    world.reader.queue_events = 4
    peer = await world.subscribed("a", client_id="s", properties=ASKS)
    await peer.subscribe("b", properties=ASKS)
    peer.client.pause_writing()
    for number, topic in enumerate("abababab"):
        quick(world, topic, b"%d" % number)
    world.broker.deliveries.flush_events = 2
    peer.client._paused = False
    peer.client.flush()
    peer.client._paused = True
    peer.client.session.subscription.queue.events_max = 100
    quick(world, "a", b"8")
    peer.client.resume_writing()
    heard = await peer.hear()
    assert [b"0", b"1", b"2", b"3", ("slow", 2), ("slow", 2), b"8"] == told(heard)
    counters = (await world.kernel.resource("$SYS/sessions/s", OTHER).get())["counters"]
    assert (4, {"slow": 4}) == (counters["dropped"], counters["gaps"])


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_comes_while_a_session_is_away_and_is_not_logged(world, qos):
    """M4: counted although nothing is kept for it; filters that overlap count once."""
    peer = await world.subscribed("a", "+", qos=qos, connect=lasting(), properties=ASKS)
    quick(world, "a", b"1")
    assert [b"1"] == told(await peer.hear())
    peer.lose()
    await world.turn()
    for _ in range(3):
        quick(world, "a")
        quick(world, "b")
        quick(world, "b/c")
    peer = world.peer()
    await peer.connect("s", **lasting())
    quick(world, "a", b"2")
    assert [("away", 6), b"2"] == told([*peer.later, *await peer.hear()])
    assert 0 == len(world.kernel.bus.absences)


async def test_an_absence_ends_with_its_session(world):
    peer = await world.subscribed("a", connect=lasting())
    peer.lose()
    await world.turn()
    assert 1 == len(world.kernel.bus.absences)
    await world.pass_time(4000)
    assert 0 == len(world.kernel.bus.absences)


async def test_what_waits_in_the_queue_when_a_connection_ends_is_told_next_time(world):
    peer = await world.subscribed("a", qos=1, connect=lasting(), properties=ASKS)
    peer.client.pause_writing()
    for _ in range(5):
        quick(world, "a")
    await world.say("a", b"logged")
    peer.lose()
    await world.turn()
    for _ in range(2):  # the first connection is lost before it is told anything
        again = world.peer()
        again.client.pause_writing()
        await again.connect("s", **lasting())
        again.client._paused = True
        if _ == 0:
            again.lose()
            await world.turn()
    again.client.resume_writing()
    came = told([*again.later, *await again.hear()])
    assert ([("away", 5)], [b"logged"]) == (
        [item for item in came if item != b"logged"], [item for item in came if item == b"logged"]
    )  # fmt: skip


async def test_what_is_owed_survives_a_restart_of_the_server():
    world = MqttServer(undeclared="route")
    peer = await world.subscribed("a", qos=1, connect=lasting(), properties=ASKS)
    peer.lose()
    await world.turn()
    quick(world, "a")
    await world.broker.stop()
    world = await world.killed()
    quick(world, "a")
    peer = world.peer()
    await peer.connect("s", **lasting())
    assert [("away", 2)] == told([*peer.later, *await peer.hear()])


async def test_a_gap_waits_for_room_as_messages_do():
    """MQTT-3.3.4-7: what cannot be sent again is told when the client has acknowledged more."""
    world = MqttServer()
    peer = await world.subscribed("a", qos=1, connect=lasting(), properties=ASKS)
    for payload in (b"gone", b"kept"):
        await world.say("a", payload)
    await peer.hear()
    await world.pass_time(1)
    world = await world.killed()
    world.store.trim(TopicRoot(None), Keep(events=1), world.time, 100)
    peer = world.peer()
    await peer.connect("s", **lasting(receive_maximum=1))
    (kept,) = [*peer.later, *await peer.hear()]
    assert b"kept" == kept.payload
    assert [("trimmed", 1)] == told(await peer.ask(Puback(kept.packet_id)))


async def test_a_gap_with_qos_2_holds_no_identifier_over_a_kill():
    """MQTT-4.3.3-8: it is not sent again, but its client may hold its identifier."""
    world = MqttServer()
    limits = {"maximum_packet_size": 300}
    peer = await world.subscribed("a", qos=2, connect=lasting(**limits), properties=ASKS)
    await world.say("a", BIG)
    (gap,) = await peer.hear()
    assert 2 == gap.qos
    world = await world.killed()
    peer = world.peer()
    await peer.connect("s", **lasting(**limits))
    assert [Pubrel(gap.packet_id)] == [*peer.later, *await peer.hear()]
    assert [] == await peer.ask(Pubcomp(gap.packet_id))
    assert 0 == len(world.broker.sessions.get("s").window)


class Hides(Hook):
    """Lets nobody read what is secret."""

    def can_read(self, caller, topic):
        return caller.door == "http" or topic != "secret"


async def test_nobody_is_told_of_what_it_may_not_read(world):
    """M4, G6: a count would say that there was something."""
    world.reader.queue_events = 1
    world.kernel.hooks.add(Hides())
    peer = await world.subscribed("#", connect=lasting(), properties=ASKS)
    peer.client.pause_writing()
    for topic in ("a", "secret", "b", "secret"):
        quick(world, topic, topic.encode())
    peer.client.resume_writing()
    assert [b"a", ("slow", 1)] == told(await peer.hear())
    peer.lose()
    await world.turn()
    for topic in ("a", "secret", "b", "secret"):
        quick(world, topic)
    peer = world.peer()
    await peer.connect("s", **lasting())
    assert [("away", 2)] == told([*peer.later, *await peer.hear()])


async def test_what_is_not_for_mqtt_is_no_gap(world):
    """A table that is hidden from this door was never promised here."""
    peer = await world.subscribed("Secret/#", properties=ASKS)
    event = Event("Secret/1", PUT, b'{"n":1}', None, 1, True)
    await world.kernel.write(event, OTHER)
    assert ([], {}) == (told(await peer.hear()), peer.client.session.gaps.losses.counts)


async def test_of_a_group_one_member_is_told(world):
    """M4: so that over all members what was sent is what came and what is told missing."""
    one = await world.subscribed("$share/g/a", client_id="1", qos=1, properties=ASKS)
    one.client.packet_bytes_max = 300
    await world.say("a", BIG)
    await world.say("a", SMALL)
    assert [("too_large", 1), SMALL] == told(await one.hear())


async def test_a_group_that_was_away_is_told_when_a_member_is_back(world):
    share = "$share/g/a"
    peer = await world.subscribed(share, qos=1, connect=lasting(), properties=ASKS)
    peer.lose()
    await world.turn()
    quick(world, "a")
    quick(world, "a")
    peer = world.peer()
    await peer.connect("s", **lasting())
    assert [("away", 2)] == told([*peer.later, *await peer.hear()])


async def test_what_grew_too_large_for_a_new_connection_is_told(world):
    """MQTT-3.1.2-25: a flight of an earlier connection that is not sent again."""
    peer = await world.subscribed("a", qos=1, connect=lasting(), properties=ASKS)
    await world.say("a", BIG)
    assert [BIG] == told(await peer.hear())
    peer.lose()
    await world.turn()
    peer = world.peer()
    await peer.connect("s", **lasting(maximum_packet_size=300))
    assert [("too_large", 1)] == told([*peer.later, *await peer.hear()])


async def test_what_was_perhaps_passed_on_before_a_kill_is_told():
    """M4: of QoS 0 nothing comes twice, and nothing is missing in silence."""
    world = MqttServer()
    peer = await world.subscribed("Dog/#", connect=lasting(), properties=ASKS)
    await world.turn()
    peer.client.pause_writing()
    before = world.committer.announced
    for number in range(3):
        await world.put(f"Dog/{number}", b"{}")
    world = await world.killed()
    peer = world.peer()
    await peer.connect("s", **lasting())
    (gap,) = [*peer.later, *await peer.hear()]
    facts = {"count": 3, "reason": "doubtful"}
    facts |= {"from": world.cursor(before), "to": world.cursor(world.committer.announced)}
    assert facts == json.loads(gap.payload)["gap"]
    await world.put("Dog/3", b"{}")
    assert ["Dog/3"] == topics(await peer.hear())


async def test_what_came_with_qos_0_before_a_kill_does_not_come_with_a_higher_one():
    """C2: the filter asks for more before the log is read again; a further kill changes nothing."""
    world = MqttServer()
    peer = await world.subscribed("a", connect=lasting())
    await world.say("a", b"x")
    assert [b"x"] == payloads(await peer.hear())
    heard = []
    for _ in range(2):
        world = await world.killed()
        peer = world.peer()
        more = Subscribe(7, (Subscription("a", 1, retain_handling=2),))
        heard += await peer.ask(Connect(5, "s", **lasting()), more)
    heard += await peer.hear()
    await world.say("a", b"y")
    heard += await peer.hear()
    assert [(b"y", 1)] == [(x.payload, x.qos) for x in heard if isinstance(x, Publish)]


async def test_a_record_that_was_perhaps_passed_on_before_a_kill_comes_when_asked_for():
    """MQTT-3.3.1-9: to SUBSCRIBE again is to ask for the retained message, whatever came before."""
    world = MqttServer()
    peer = await world.subscribed("Dog/+", connect=lasting())
    await world.turn()
    peer.client.pause_writing()
    await world.put("Dog/1", b"{}")
    world = await world.killed()
    peer = world.peer()
    again = Subscribe(7, (Subscription("Dog/+", 1, retain_handling=0),))
    heard = await peer.ask(Connect(5, "s", **lasting()), again)
    heard += await peer.hear()
    assert [("Dog/1", True)] == [(x.topic, x.retain) for x in heard if isinstance(x, Publish)]


async def test_what_waits_after_a_kill_does_not_come_with_qos_0():
    """C2: it may have come with QoS 1 before the kill; now its filter asks for QoS 0."""
    world = MqttServer()
    peer = await world.subscribed("a", qos=1, connect=lasting())
    for text in (b"x", b"y", b"z"):
        await world.say("a", text)
    assert [b"x", b"y", b"z"] == payloads(await peer.hear())
    world = await world.killed()
    peer = world.peer()
    few = {"session_expiry_interval": 3600, "receive_maximum": 1}
    heard = await peer.ask(Connect(5, "s", clean_start=False, properties=few))
    heard += await peer.hear()
    heard += await peer.ask(Subscribe(7, (Subscription("a", 0, retain_handling=2),)))
    heard += await peer.ask(Puback(next(x.packet_id for x in heard if isinstance(x, Publish))))
    heard += await peer.hear()
    assert [(b"x", 1)] == [(x.payload, x.qos) for x in heard if isinstance(x, Publish)]


# -- silence ---------------------------------------------------------------------------------------


async def test_silence_is_a_retained_message_for_who_asks_for_it(world):
    """M4: at $stale/<topic>; a plain subscription to everything is not disturbed."""
    plain = await world.subscribed("#", client_id="p")
    facts = b'{"last_seen":"2026-01-01T00:00:00.000Z","deadline_seconds":30}'
    stale = Event("$stale/Dog/1", PUT, facts, "application/json", 1, True)
    await world.kernel.write(stale, SERVER)
    late = await world.subscribed("$stale/Dog/#", client_id="l", qos=1)
    (told,) = [*late.later, *await late.hear()]
    assert ("$stale/Dog/1", True, facts) == (told.topic, told.retain, told.payload)
    over = Event("$stale/Dog/1", DELETE, b"", None, 1, True)
    await world.kernel.write(over, SERVER)
    (told,) = await late.hear()
    assert ("$stale/Dog/1", b"") == (told.topic, told.payload)
    assert [] == topics(await plain.hear())


async def test_nobody_else_says_who_is_silent(world):
    peer = await world.connected()
    peer.publish("$stale/Dog/1", b"{}", qos=1, retain=True)
    (answer,) = await peer.hear()
    assert 0x87 == answer.reason


async def test_what_is_cleared_without_a_word_is_no_gap():
    """E20, retainer.stop_publish_clear_msg: nobody is to hear of it."""
    world = MqttServer(clears_silently=True)
    peer = await world.subscribed("#", properties=ASKS)
    for kind in (PUT, DELETE):
        await world.kernel.write(Event("a", kind, b"x" * (kind == PUT), None, 1, True), OTHER)
    assert [b"x"] == told(await peer.hear())
