"""SUBSCRIBE and UNSUBSCRIBE: which filters are granted, and what they bring."""

import pytest

from calls import Calls
from mqtt_server import (
    VERSIONS,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrec,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    payloads,
    topics,
    user,
    users,
)  # fmt: skip
from rowcast.core.errors import Code, Error
from rowcast.mqtt.reasons import Reason

GRANTED = (Reason.GRANTED_QOS_0,)


@pytest.mark.parametrize("version", VERSIONS)
async def test_granted_qos(world, version):
    """MQTT-3.8.4-7: each filter is granted what it asked for."""
    peer = await world.connected(version=version)
    wanted = [Subscription("a", 0), Subscription("b", 1), Subscription("c", 2)]
    assert (0, 1, 2) == await peer.subscribe(*wanted)


@pytest.mark.parametrize("text", ["a/#/b", "a+", "+a/b", "a#", "#a", "", "a\ud800"[:1] + "/+x"])
@pytest.mark.parametrize(("version", "reason"), [(5, 0x8F), (4, 0x80), (3, 0x80)])
async def test_an_illegal_filter_costs_only_itself(world, text, version, reason):
    """D13, MQTT-4.7.1-1, -2, MQTT-4.7.3-1: 0x8F, 0x80 before MQTT 5; the others are granted."""
    peer = await world.connected(version=version)
    assert (0, reason, 0) == await peer.subscribe("a", text, "b")


async def test_the_reason_string_names_the_filter(world):
    """D43."""
    peer = await world.connected()
    (suback,) = await peer.ask(Subscribe(7, (Subscription("a/#/b"),)))
    assert "'a/#/b': in the topic filter" in suback.properties["reason_string"]


async def test_problem_information_0_leaves_suback_bare(world):
    """MQTT-3.1.2-29."""
    peer = await world.connected(properties={"request_problem_information": 0})
    assert [Suback(7, (Reason.TOPIC_FILTER_INVALID,))] == await peer.ask(
        Subscribe(7, (Subscription("#/a"),))
    )


async def test_suback_tells_the_position(world):
    """M1."""
    event = await world.put("Dog/1", b"{}")
    peer = await world.connected()
    (suback,) = await peer.ask(Subscribe(7, (Subscription("cat"),)))
    assert world.cursor(event.seq) == user(suback, "seq")


async def test_a_form_that_is_not_written_here(world):
    """X19: the filter is in order, so it is 0x83 for all of them."""
    peer = await world.connected()
    asked = users(("accept", "image/png"))
    assert (0x83, 0x83) == await peer.subscribe("a", "b", properties=asked)


async def test_what_is_no_cursor(world):
    peer = await world.connected()
    assert (0x83,) == await peer.subscribe("a", properties=users(("since", "yesterday")))


# -- matching ------------------------------------------------------------------------------------

MATCHES = {
    "plus": ("a/+/c", ["a/b/c", "a//c"], ["a/c", "a/b/d", "a/b/c/d"]),
    "plus first": ("+/b", ["a/b", "/b"], ["$x/b", "a/b/c"]),
    "hash": ("my-resource/#", ["my-resource", "my-resource/1", "my-resource/nested/id"], ["my"]),
    "hash nested": ("my-resource/nested/#", ["my-resource/nested/id"], ["my-resource/1"]),
    "root": ("#", ["a", "/", "a/b"], ["$x", "$x/y"]),
    "dollar": ("$gateway/#", ["$gateway", "$gateway/y"], ["gateway"]),
    "exact": ("a/b", ["a/b"], ["a/B", "a/b/", "/a/b"]),
    "dots": ("a.b/+", ["a.b/c.d"], ["a/b"]),
    "slash": ("/a", ["/a"], ["a"]),
}


@pytest.mark.parametrize("name", MATCHES)
@pytest.mark.parametrize("version", [4, 5])
async def test_matching(world, name, version):
    """D32, D33, D34, MQTT-4.7.1-2, MQTT-4.7.2-1, MQTT-4.7.3-4."""
    text, wanted, others = MATCHES[name]
    peer = await world.subscribed(text, version=version)
    for topic in (*wanted, *others):
        if topic.startswith("$"):
            world.server_says(topic)
        else:
            await world.say(topic, b"x")
    assert wanted == topics(await peer.hear())


async def test_unsubscribe(world):
    """MQTT-3.10.4-1, MQTT-3.11.3-1, D35."""
    peer = await world.subscribed("a", "b/#", "c", qos=1)
    (answer,) = await peer.ask(Unsubscribe(9, ("a", "b/#", "z", "b/#/c")))
    expected = (
        Reason.SUCCESS,
        Reason.SUCCESS,
        Reason.NO_SUBSCRIPTION_EXISTED,
        Reason.TOPIC_FILTER_INVALID,
    )
    assert Unsuback(9, expected) == answer
    for topic in ("a", "b/1", "c"):
        await world.say(topic, b"x")
    assert ["c"] == topics(await peer.hear())
    assert (1, 1) == (peer.client.session.reliable, world.kernel.bus.subscriptions)


@pytest.mark.parametrize("version", [3, 4])
async def test_unsuback_before_five(world, version):
    peer = await world.subscribed("a", version=version)
    assert [Unsuback(9)] == await peer.ask(Unsubscribe(9, ("a", "never")))


BROKEN = ["", "a/#/b", "a+", "+a/b", "a#", "#a", "#/", "$share/g/a+"]


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("version", [3, 4])
async def test_unsubscribe_of_no_filter_ends_the_connection_before_five(world, text, version):
    """MQTT-4.7.1-2, MQTT-4.7.1-3, MQTT-4.7.3-1, MQTT-4.8.0-1 of 3.1.1: UNSUBACK would say done."""
    peer = await world.subscribed("a", version=version)
    assert [] == await peer.ask(Unsubscribe(9, ("a", text)))
    assert (True, "UNSUBSCRIBE: ") == (peer.closed, peer.client.close_reason[:13])


@pytest.mark.parametrize("text", BROKEN)
async def test_unsubscribe_of_no_filter_is_told_in_five(world, text):
    """MQTT 5, 3.11.3: its own reason, as SUBACK has; the others end, and the connection stays."""
    peer = await world.subscribed("a")
    expected = Reason.TOPIC_FILTER_INVALID, Reason.SUCCESS
    assert [Unsuback(9, expected)] == await peer.ask(Unsubscribe(9, (text, "a")))
    assert not peer.closed


@pytest.mark.parametrize("version", [3, 4])
async def test_unsubscribe_over_a_limit_of_the_server_ends_no_connection(world, version):
    """It is a filter all the same, to which nobody can be subscribed."""
    peer = await world.subscribed("a", version=version)
    assert [Unsuback(9)] == await peer.ask(Unsubscribe(9, ("/" * 200,)))
    assert not peer.closed


async def test_a_filter_again_replaces_its_options(world):
    """MQTT-3.8.4-3: one subscription with the new options, and no event twice or lost."""
    peer = await world.subscribed("a", qos=1)
    await peer.subscribe(
        Subscription("a", 0, retain_handling=2), properties={"subscription_identifier": 5}
    )
    await world.say("a", b"x")
    (message,) = await peer.hear()
    assert (0, (5,)) == (message.qos, message.properties["subscription_identifier"])
    assert 0 == peer.client.session.reliable


# -- retained ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_current_records_come_after_suback(world, version):
    """D39, MQTT-3.3.1-6 of 3.1.1: with RETAIN set."""
    await world.put("Dog/1", b'{"name":"Rex"}')
    peer = await world.connected(version=version)
    await peer.subscribe("Dog/+")
    (message,) = peer.later
    assert ("Dog/1", b'{"name":"Rex"}', True) == (message.topic, message.payload, message.retain)


@pytest.mark.parametrize(
    ("handling", "first", "again"),
    [(0, [b"{}"], [b"{}"]), (1, [b"{}"], []), (2, [], [])],
)
async def test_retain_handling(world, handling, first, again):
    """D39, MQTT-3.3.1-9, -10, -11."""
    await world.put("Dog/1", b"{}")
    peer = await world.connected()
    came = []
    for _ in range(2):
        await peer.subscribe("Dog/#", retain_handling=handling)
        came.append(payloads(peer.later))
    assert [first, again] == came
    await world.put("Dog/1", b'{"age":1}')
    assert [b'{"age":1}'] == payloads(await peer.hear())


async def test_before_five_subscribing_again_brings_the_records_again(world):
    """MQTT-3.8.4-3 of 3.1.1."""
    await world.put("Dog/1", b"{}")
    peer = await world.subscribed("Dog/#", version=4)
    await peer.subscribe("Dog/#")
    assert [b"{}"] == payloads(peer.later)


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
async def test_retain_as_published(world, published, wanted):
    """D39, MQTT-3.3.1-12, MQTT-3.3.1-13."""
    peer = await world.subscribed("Dog/#", retain_as_published=wanted)
    (await world.connected()).publish("Dog/1", b"{}", retain=published)
    (message,) = await peer.hear()
    assert (published and wanted) is message.retain


@pytest.mark.parametrize("version", [3, 4])
async def test_before_five_retain_is_not_set_for_a_live_message(world, version):
    """MQTT-3.3.1-9 of 3.1.1."""
    peer = await world.subscribed("Dog/#", version=version)
    (await world.connected()).publish("Dog/1", b"{}", retain=True)
    assert [False] == [message.retain for message in await peer.hear()]


async def test_a_record_is_delivered_with_the_lesser_qos(world):
    """D17: also from memory."""
    peer = await world.connected()
    peer.publish("low", b"x", retain=True)
    peer.publish("high", b"x", qos=1, retain=True)
    await peer.hear()
    await peer.subscribe("low", "high", qos=1)
    assert {"low": 0, "high": 1} == {message.topic: message.qos for message in peer.later}


async def test_a_topic_without_a_record(world):
    """D67: SUBACK at once, nothing else, then the first write."""
    peer = await world.connected()
    assert GRANTED == await peer.subscribe("Dog/42")
    assert [] == peer.later
    await world.put("Dog/42", b"{}")
    assert ["Dog/42"] == topics(await peer.hear())


async def test_a_table_hidden_from_mqtt(world):
    """Its records are not there: neither the current ones nor what follows."""
    await world.put("Secret/1", b'{"n":1}')
    peer = await world.connected()
    await peer.subscribe("#", qos=1)
    await world.put("Secret/1", b'{"n":2}')
    await world.put("Dog/1", b"{}")
    assert (["Dog/1"], []) == (topics(await peer.hear()), peer.later)


# -- options -------------------------------------------------------------------------------------


async def test_no_local(world):
    """D37, MQTT-3.8.3-3: not to the connection that published, by its client identifier."""
    mine = await world.connected("mine")
    await mine.subscribe("a", no_local=True)
    other = await world.connected("other")
    mine.publish("a", b"of mine")
    other.publish("a", b"of other")
    assert [b"of other"] == payloads(await mine.hear())


async def test_one_copy_with_every_identifier(world):
    """D38, MQTT-3.3.4-2, -3, -4: overlapping filters, the highest QoS of them."""
    peer = await world.connected()
    for number, (text, qos) in enumerate([("a/#", 0), ("a/+", 1), ("+/b", 0)], 1):
        await peer.subscribe(text, qos=qos, properties={"subscription_identifier": number})
    await world.say("a/b", b"x")
    await world.say("a/b/c", b"y")
    first, second = await peer.hear()
    told = [
        (item.payload, item.qos, item.properties["subscription_identifier"])
        for item in (first, second)
    ]
    assert [(b"x", 1, (1, 2, 3)), (b"y", 0, (1,))] == told


async def test_overlapping_filters_without_identifiers(world):
    """MQTT-3.3.4-2 allows one copy."""
    peer = await world.subscribed("a/#", "a/+", "#", version=4)
    await world.say("a/b", b"x")
    assert [b"x"] == payloads(await peer.hear())


async def test_a_record_carries_its_identifier(world):
    """MQTT-3.3.4-3: also what is current."""
    await world.put("Dog/1", b"{}")
    peer = await world.connected()
    await peer.subscribe("Dog/1", properties={"subscription_identifier": 300})
    assert [(300,)] == [item.properties["subscription_identifier"] for item in peer.later]


# -- behind its own writes -----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_the_client_retained_before_is_current(world, version, qos):
    """MQTT-3.3.1-8 of 3.1.1, MQTT-3.3.1-9: it need not wait for its own write."""
    peer = await world.connected(version=version)
    world.writer.hold()
    peer.send(
        Publish("a", b"x", qos, retain=True, packet_id=1 if qos else 0),
        Subscribe(2, (Subscription("a", qos),)),
        Pingreq(),
    )
    assert [] == await peer.hear()
    world.writer.release()
    heard = [item for item in await peer.hear() if not isinstance(item, Puback | Pubrec)]
    assert [Suback, Pingresp, Publish] == sorted(
        (type(item) for item in heard), key=lambda kind: kind is Publish
    )
    assert [True] == [item.retain for item in heard if isinstance(item, Publish)]


async def test_what_the_client_retained_before_is_no_live_message(world):
    """MQTT-3.3.1-11: Retain Handling 2 wants none of it."""
    peer = await world.connected()
    peer.send(
        Publish("a", b"before", retain=True),
        Subscribe(2, (Subscription("a", retain_handling=2),)),
        Publish("a", b"after"),
    )
    assert [b"after"] == payloads(await peer.hear())


async def test_what_others_write_delays_nobody(world):
    peer = await world.connected()
    world.writer.hold()
    (await world.connected("p")).publish("a", b"x", 1, retain=True)
    assert [Suback] == [type(item) for item in await peer.ask(Subscribe(1, (Subscription("a"),)))]
    world.writer.release()


async def test_packets_behind_a_write_keep_their_order(world):
    """Also the last one, in bytes of its own: a DISCONNECT does not overtake SUBSCRIBE."""
    peer = await world.connected("s", properties={"session_expiry_interval": 60})
    world.writer.hold()
    peer.send(Publish("a", b"x", retain=True), Subscribe(2, (Subscription("a", 1),)))
    peer.send(Disconnect())
    assert ([], False) == (await peer.hear(), peer.closed)
    world.writer.release()
    await peer.hear()
    assert peer.closed
    assert ["a"] == [item.topics.text for item in world.broker.sessions.get("s").interests]


async def test_a_client_that_is_lost_behind_its_write(world):
    peer = await world.connected()
    world.writer.hold()
    peer.send(Publish("a", b"x", retain=True), Subscribe(2, (Subscription("a"),)))
    peer.lose()
    world.writer.release()
    await world.turn()
    assert 0 == world.kernel.bus.subscriptions


@pytest.mark.interpreted
async def test_a_disk_that_is_too_busy_to_wait_for(world, monkeypatch):
    """Bad input: bounded, and told."""
    peer = await world.connected()
    busy = Error(Code.BUSY, "too much is waiting")
    world.writer.hold()
    monkeypatch.setattr(world.committer, "keep", lambda changes, done=None: done and done(busy))
    peer.send(Publish("a", b"x", retain=True), Subscribe(2, (Subscription("a"),)))
    (told,) = await peer.hear()
    assert (0x89, True) == (told.reason, peer.closed)
    world.writer.release()


async def test_a_filter_that_is_not_there_is_not_compared_with_all_others(world):
    """P3: an UNSUBSCRIBE names thousands, of a client that has thousands of others."""
    peer = await world.subscribed(*(f"a/{number}" for number in range(50)))
    with Calls() as calls:
        (answer,) = await peer.ask(Unsubscribe(1, tuple(f"b/{number}" for number in range(50))))
    assert {Reason.NO_SUBSCRIPTION_EXISTED} == set(answer.reasons)
    assert 0 == calls.by_function["doors/mqtt/sessions/session.py:Session.interests"]
