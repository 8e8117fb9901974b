"""The bound on what waits for a session, and what happens to more (D25)."""

import json

import pytest

from mqtt_server import (
    OTHER,
    VERSIONS,
    Disconnect,
    MqttServer,
    Puback,
    Publish,
    payloads,
    users,
)
from rowcast.core.events import MESSAGE, Event
from rowcast.mqtt.reasons import Reason
from rowcast.subscriptions.backlog import Overflow

OLDEST, NEWEST, ENDS = Overflow.DROP_OLDEST, Overflow.DROP_NEWEST, Overflow.DISCONNECT
GAPS = users(("seq", ""))
"""The user properties of a client that wants to be told of gaps."""


def bounded(policy, most=5):
    """Return a world in which so many messages may wait."""
    return MqttServer(session_queue_max=most, session_queue_policy=policy)


def lasting(version, **more):
    properties = {"session_expiry_interval": 3600} if version == 5 else None
    return {"clean_start": False, "properties": properties, **more}


async def away(world, *filters, version=5, seen=()):
    """Make a session with these filters whose client is gone; it acknowledged ``seen``."""
    peer = await world.subscribed(
        *filters, client_id="d", version=version, qos=1, connect=lasting(version),
        properties=GAPS if version == 5 else None,
    )  # fmt: skip
    for payload in seen:
        await world.say("a", payload)
    sent = [packet for packet in await peer.hear() if isinstance(packet, Publish)]
    peer.send(*(Puback(packet.packet_id) for packet in sent))
    await peer.hear()
    peer.lose()
    await world.turn()


async def say(world, first, last, topic="a", **properties):
    """Send messages whose payloads are the numbers from one to another."""
    for number in range(first, last + 1):
        event = Event(topic, MESSAGE, b"%d" % number, None, 1, False, properties=properties or None)
        await world.kernel.write(event, OTHER)


async def back(world, version=5, **properties):
    """Return the client's new connection and what it is sent."""
    peer = world.peer(version)
    options = lasting(version)
    if properties:
        options["properties"] |= properties
    connack = await peer.connect("d", **options)
    return peer, connack, [*peer.later, *await peer.hear()]


def messages(packets):
    """Return the numbers that are payloads of messages."""
    return [
        int(item.payload)
        for item in packets
        if isinstance(item, Publish) and not item.topic.startswith("$")
    ]


def gaps(packets, reason="waiting"):
    """Return the counts of the gaps that were told for a reason."""
    told = [
        json.loads(item.payload)["gap"]
        for item in packets
        if isinstance(item, Publish) and item.topic.startswith("$gap/")
    ]
    return [gap["count"] for gap in told if gap["reason"] == reason]


async def acknowledge(peer, packets):
    """Acknowledge messages; return what comes then."""
    sent = [item for item in packets if isinstance(item, Publish) and item.qos]
    peer.send(*(Puback(item.packet_id) for item in sent))
    return await peer.hear()


async def counters(world):
    row = await world.kernel.resource("$SYS/sessions/d", OTHER).get()
    return row["counters"]["dropped"], row["counters"]["expired"], row["skipped"]


@pytest.fixture(params=["same", "killed"])
def later(request):
    """Return what gives the world in which a client comes back: the same, or after a kill."""

    async def make(world):
        return world if request.param == "same" else await world.killed()

    return make


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("policy", "kept"), [(OLDEST, [8, 9, 10, 11, 12]), (NEWEST, [1, 2, 3, 4, 5])]
)
async def test_more_than_may_wait_are_dropped_counted_and_told(later, policy, kept, version):
    """D25: the exact count, in a gap for those who asked and in $SYS/sessions."""
    world = bounded(policy)
    await away(world, "a", version=version)
    await say(world, 1, 12)
    world = await later(world)
    peer, connack, heard = await back(world, version)
    assert (kept, version != 3) == (messages(heard), connack.session_present)
    assert ([7] if version == 5 else []) == gaps(heard)
    assert (7, 0, 0) == await counters(world)
    await say(world, 13, 14)
    assert [13, 14] == messages(await peer.hear())


@pytest.mark.parametrize("policy", Overflow)
async def test_as_many_as_may_wait_are_not_dropped(policy):
    world = bounded(policy)
    await away(world, "a")
    await say(world, 1, 5)
    _, _, heard = await back(world)
    assert ([1, 2, 3, 4, 5], [], (0, 0, 0)) == (messages(heard), gaps(heard), await counters(world))


@pytest.mark.parametrize("policy", Overflow)
async def test_what_is_not_for_the_session_does_not_count(policy):
    """Other topics, what it has had, and its own with No Local."""
    world = bounded(policy)
    other = await world.subscribed("b", client_id="e", qos=1, connect=lasting(5))
    await away(world, "a", seen=(b"1", b"2", b"3"))
    await say(world, 1, 30, topic="b")
    await say(world, 4, 8)
    _, _, heard = await back(world)
    assert ([4, 5, 6, 7, 8], []) == (messages(heard), gaps(heard))
    other.lose()


async def test_overlapping_filters_count_once():
    world = bounded(OLDEST)
    await away(world, "a", "#", "+")
    await say(world, 1, 5)
    assert [1, 2, 3, 4, 5] == messages((await back(world))[2])


@pytest.mark.parametrize("policy", (OLDEST, NEWEST))
async def test_expired_messages_are_counted_apart(later, policy):
    """D25: what expired while it waited is not dropped, and takes no place."""
    world = bounded(policy)
    await away(world, "a")
    await say(world, 1, 3)
    await say(world, 100, 102, message_expiry_interval=10)
    await say(world, 4, 8)
    await say(world, 103, 104, message_expiry_interval=10)
    await say(world, 9, 9)
    await world.pass_time(60)
    world = await later(world)
    _, _, heard = await back(world)
    kept = [5, 6, 7, 8, 9] if policy is OLDEST else [1, 2, 3, 4, 5]
    assert (kept, [4]) == (messages(heard), gaps(heard))
    assert (4, 5, 0) == await counters(world)
    assert 5 == sum(gaps(heard, "expired"))  # M4


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_may_end_instead(later, version):
    """D25, disconnect: the client is told 0x97, and finds no session when it comes back."""
    world = bounded(ENDS)
    await away(world, "a", version=version)
    await say(world, 1, 6)
    world = await later(world)
    peer, _, heard = await back(world, version)
    assert ([], True) == (messages(heard), peer.closed)
    told = [Reason.QUOTA_EXCEEDED] if version == 5 else []
    assert told == [item.reason for item in heard if isinstance(item, Disconnect)]
    assert [] == world.store.states("session/")
    again, connack, _ = await back(world, version)
    assert not connack.session_present
    await again.subscribe("a", qos=1)
    await say(world, 7, 7)
    assert [7] == messages(await again.hear())


@pytest.mark.parametrize("policy", (OLDEST, NEWEST))
async def test_a_connection_lost_on_the_way_drops_nothing_twice(later, policy):
    """D25: what is passed over stays so, and is counted once."""
    world = bounded(policy)
    await away(world, "a")
    await say(world, 1, 12)
    peer, _, heard = await back(world, receive_maximum=2)
    kept = [8, 9, 10, 11, 12] if policy is OLDEST else [1, 2, 3, 4, 5]
    had = messages(heard)  # a gap takes room like a message
    assert kept[: len(had)] == had
    assert had
    await acknowledge(peer, heard)
    heard += peer.heard()
    peer.lose()
    await world.turn()
    before = await counters(world)
    assert (7, 0) == before[:2]
    world = await later(world)
    peer, _, more = await back(world)
    got = [*had, *(number for number in messages(more) if number not in had)]
    await say(world, 13, 13)
    assert ([*kept, 13], 7) == (
        [*got, *messages(await peer.hear())],
        sum(gaps(heard)) or sum(gaps(more)),
    )


async def test_drops_add_up_over_several_absences(later):
    """D25, drop_newest: what came between, while the client was there, is kept."""
    world = bounded(NEWEST, most=4)
    await away(world, "a")
    await say(world, 1, 6)  # 5 and 6 are too many
    peer, _, heard = await back(world, receive_maximum=1)
    assert [1] == messages(heard)
    heard = await acknowledge(peer, heard)  # 2 is on its way, 3 and 4 wait
    await say(world, 7, 7)
    await acknowledge(peer, heard)
    peer.lose()
    await world.turn()
    await say(world, 8, 12)
    world = await later(world)
    peer, _, heard = await back(world)
    told = messages(heard)
    assert sorted(told) == told
    assert [4, 7] == [number for number in told if number in {4, 5, 6, 7}]
    assert {5, 6, 12}.isdisjoint(told)


@pytest.mark.heavy
async def test_a_session_without_a_bound_keeps_what_the_log_keeps():
    world = bounded(OLDEST, most=0)
    await away(world, "a")
    await say(world, 1, 2000)
    assert list(range(1, 2001)) == messages((await back(world))[2])


async def test_a_trimmed_log_is_told_with_a_reset_and_not_as_dropped():
    """D25, C11: what the log forgot is not counted; the session begins anew."""
    from rowcast.store.store import Keep

    world = bounded(OLDEST, most=2)
    await away(world, "Dog/#")
    for number in range(9):
        await world.put("Dog/1", b'{"age":%d}' % number)
    world.store.trim(world.kernel.registry.route("Dog/1").table, Keep(events=5), world.time, 100)
    _, _, heard = await back(world)
    assert ["$reset/0", "Dog/1", "$snapshot/end/0"] == [item.topic for item in heard]
    assert (b'{"age":8}', (0, 0, 0)) == (payloads(heard)[1], await counters(world))


async def test_a_subscription_that_joins_meanwhile_loses_nothing():
    """D25: the count begins anew when somebody else wants to go on from the same place."""
    world = bounded(OLDEST, most=3)
    await away(world, "a")
    await say(world, 1, 6)
    await say(world, 1, 6, topic="c")
    world.readers.hold()
    peer = world.peer()
    await peer.connect("d", **lasting(5))
    await peer.subscribe("c", qos=1)
    world.readers.release()
    await say(world, 7, 7, topic="c")
    heard = await peer.hear()
    assert ([4, 5, 6], [7]) == (
        [int(item.payload) for item in heard if item.topic == "a"],
        [int(item.payload) for item in heard if item.topic == "c"],
    )
