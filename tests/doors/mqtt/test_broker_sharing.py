"""Shared subscriptions of real clients: each message to one of a group (D36, X11, MQTT-4.8.2)."""

from dataclasses import replace

import pytest
from shared_workers import SHARE, publish, texts, worker

from calls import Calls
from mqtt_server import (
    VERSIONS,
    Pingreq,
    Puback,
    Subscription,
    Unsuback,
    Unsubscribe,
    payloads,
    topics,
)
from rowcast.doors.mqtt.packets.share_filters import share_of
from rowcast.mqtt.reasons import Reason
from rowcast.mqtt.violations import Violation

EVERY = pytest.mark.parametrize("version", VERSIONS)


# -- assignment ----------------------------------------------------------------------------------


@EVERY
async def test_each_message_goes_to_one_of_a_group_in_turn(world, version):
    """D36: round-robin, before MQTT 5 too."""
    workers = [await worker(world, name, version=version) for name in "xyz"]
    await publish(world, range(1, 10))
    for one in workers:
        await one.work()
    assert [texts((1, 4, 7)), texts((2, 5, 8)), texts((3, 6, 9))] == [w.heard for w in workers]


@EVERY
async def test_a_queue_is_the_group_without_a_name(world, version):
    """D55: $queue/filter."""
    one = await worker(world, "x", share="$queue/a/#", version=version)
    two = await worker(world, "y", share="$queue/a/#", version=version)
    other = await worker(world, "z")
    await publish(world, range(1, 5))
    for each in (one, two, other):
        await each.work()
    assert (texts((1, 3)), texts((2, 4)), texts(range(1, 5))) == (one.heard, two.heard, other.heard)


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_is_sent_has_the_qos_that_was_granted(world, qos):
    """MQTT-4.8.2-3."""
    peer = await world.connected("x")
    assert (qos,) == await peer.subscribe(SHARE, qos=qos)
    await publish(world, [1], qos=2)
    assert [qos] == [packet.qos for packet in await peer.hear()]


async def test_a_share_and_a_filter_of_ones_own_are_two_deliveries(world):
    """MQTT 5, 4.8.2: overlapping with a subscription that is not shared."""
    peer = await world.subscribed(SHARE, "a/b", client_id="x", qos=1)
    await publish(world, [1, 2])
    assert texts((1, 1, 2, 2)) == sorted(payloads(await peer.hear()))


async def test_one_name_with_two_filters_is_two_groups(world):
    one = await worker(world, "x", share="$share/g/a/#")
    two = await worker(world, "y", share="$share/g/a/+")
    three = await worker(world, "z", share="$share/h/a/#")
    await publish(world, [1])
    assert [texts([1])] * 3 == [await each.hear() for each in (one, two, three)]


async def test_each_member_has_its_own_options(world):
    """Subscription Identifiers, Retain As Published and the form are the member's."""
    one = await world.connected("x")
    await one.subscribe(
        Subscription(SHARE, 1, retain_as_published=True),
        properties={"subscription_identifier": 7},
    )
    two = await world.subscribed(SHARE, client_id="y")
    publisher = await world.connected("p")
    publisher.publish("a/b", b"1", retain=True)
    publisher.publish("a/b", b"2", retain=True)
    (first,), (second,) = await one.hear(), await two.hear()
    assert ((7,), True) == (first.properties["subscription_identifier"], first.retain)
    assert (None, False) == (second.properties, second.retain)


async def test_retained_messages_are_not_sent_for_a_share(world):
    """MQTT 5, 3.3.1.3."""
    publisher = await world.connected("p")
    publisher.publish("a/b", b"old", retain=True)
    peer = await world.connected("x")
    await peer.subscribe(SHARE)
    assert [] == [*peer.later, *await peer.hear()]


async def test_connack_does_not_say_that_shares_are_not_available(world):
    """MQTT 5, 3.2.2.3.13: absent means available."""
    peer = world.peer()
    assert "shared_subscription_available" not in (await peer.connect()).properties


@EVERY
@pytest.mark.parametrize(
    "text",
    ["$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/g#/a", "$share/g/a#",
     "$queue/", "$queue/a+"],
)  # fmt: skip
async def test_a_malformed_share_is_refused_alone(world, version, text):
    """MQTT-4.8.2-1, MQTT-4.8.2-2."""
    peer = await world.connected(version=version)
    refused = Reason.TOPIC_FILTER_INVALID if version == 5 else 0x80
    assert (refused, 0) == await peer.subscribe(text, "b")
    answer = await peer.ask(Unsubscribe(8, (text, "b")))
    if version == 5:
        assert [Unsuback(8, (Reason.TOPIC_FILTER_INVALID, Reason.SUCCESS))] == answer


def test_a_refused_share_is_told_how_to_mend_it():
    with pytest.raises(Violation, match=r"\$share/<name>/<filter>"):
        share_of("$share//a")


async def test_no_local_with_a_share_is_a_protocol_error(world):
    """D37, MQTT-3.8.3-4."""
    peer = await world.connected()
    peer.send_bytes(bytes.fromhex("8210000100000a") + b"$share/g/a" + bytes((0x04,)))
    assert [Reason.PROTOCOL_ERROR] == [p.reason for p in await peer.hear()]


@EVERY
async def test_subscriptions_and_shares_are_counted_together(world, version):
    """D57."""
    world.broker.settings = replace(world.broker.settings, subscriptions_max=2)
    peer = await world.connected(version=version)
    refused = Reason.QUOTA_EXCEEDED if version == 5 else 0x80
    assert (0, 0, refused, refused) == await peer.subscribe("a", SHARE, "b", "$share/h/a")
    assert (1,) == await peer.subscribe(SHARE, qos=1)


async def test_a_group_may_begin_in_the_past(world):
    """D55: the user property ``since`` is a place in the stream, also for a group."""
    for number in (1, 2, 3):
        await world.put(f"Dog/{number}", b"{}")
    peer = await world.connected("x")
    since = {"user_property": (("since", world.cursor(1)),)}
    await peer.subscribe("$share/g/Dog/#", properties=since)
    assert ["Dog/2", "Dog/3"] == topics([*peer.later, *await peer.hear()])


async def test_a_cursor_of_another_log_begins_a_group_now(world):
    await world.put("Dog/1", b"{}")
    peer = await world.connected("x")
    since = {"user_property": (("since", "ffffffff:0"),)}
    await peer.subscribe("$share/g/Dog/#", properties=since)
    await world.put("Dog/2", b"{}")
    assert ["Dog/2"] == topics([*peer.later, *await peer.hear()])


# -- room ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_member_whose_socket_is_full_holds_nobody_back(world, qos):
    stopped, other = await worker(world, "x", qos=qos), await worker(world, "y", qos=qos)
    stopped.peer.client.pause_writing()
    await publish(world, range(1, 7), qos=qos)
    await other.work()
    assert texts(range(1, 7)) == other.heard
    stopped.peer.client.resume_writing()
    await publish(world, (7, 8), qos=qos)
    await other.work()
    await stopped.work()
    assert (1, texts((7, 8))) == (
        len(stopped.heard),
        sorted(stopped.heard + other.heard[6:]),
    )


async def test_a_receive_maximum_bounds_what_a_member_is_assigned(world):
    """MQTT-3.3.4-9; a window that is full is passed over, and assigned to again when it is not."""
    small = await worker(world, "x", properties={"receive_maximum": 2})
    await publish(world, range(1, 6))
    assert texts((1, 2)) == await small.hear()
    await small.work()
    assert texts(range(1, 6)) == small.heard


async def test_a_member_that_acknowledges_slowly_is_assigned_less(world):
    quick, slow = await worker(world, "x"), await worker(world, "y")
    for start in range(1, 401, 20):
        await publish(world, range(start, start + 20))
        await quick.work()
        await slow.hear()
    assert (368, 32) == (len(quick.heard), len(slow.heard))


async def test_an_acknowledgement_for_ones_own_filter_makes_room_for_a_group(world):
    peer = await world.subscribed("b", SHARE, client_id="x", qos=1,
                                  connect={"properties": {"receive_maximum": 1}})  # fmt: skip
    await publish(world, [1], topic="b")
    (own,) = await peer.hear()
    await publish(world, [2])
    assert [] == await peer.hear()
    assert texts([2]) == payloads(await peer.ask(Puback(own.packet_id)))


async def test_a_message_that_cannot_be_sent_is_done(world):
    """MQTT-3.1.2-25: too large for its member; it is as if it had been sent."""
    peer = world.peer()
    await peer.connect("x", properties={"maximum_packet_size": 40})
    await peer.subscribe(SHARE, qos=1)
    publisher = await world.connected("p")
    publisher.publish("a/b", b"x" * 100, 1)
    publisher.publish("a/b", b"small", 1, packet_id=2)
    assert [b"small"] == payloads(await peer.hear())
    publisher.publish("a/b", b"gone", 1, packet_id=3, message_expiry_interval=1)
    group = world.groups.find("g", "a/#")
    assert 1 == sum(len(state.assignments) for state in group._member_states.values())


async def test_a_ping_of_a_member_of_many_groups_costs_what_any_other_does(world):
    """P3: groups are told of room for more if they wait for it, not with each packet."""
    costs = []
    for count in (1, 200):
        peer = await world.subscribed("$share/g/0", client_id=f"c{count}")
        for n in range(1, count):  # one by one: many of one packet may take turns of the loop
            await peer.subscribe(f"$share/g/{n}")
        with Calls() as calls:
            await peer.ask(Pingreq())
        costs.append(calls.by_function.total())
    assert costs[1] <= costs[0]
