"""One cursor everywhere (M1): `seq` tells it, `since` goes on where another door stopped."""

import json

import pytest

from mqtt_server import EPOCH, Puback, payloads, topics, user, users
from rowcast.codecs import CBOR
from rowcast.core.errors import Code, Error
from rowcast.store.store import Keep

ASKS = users(("seq", ""))


def since(cursor):
    return users(("since", cursor))


async def test_the_mark_after_the_current_records(world):
    """M1, C12: only for those who ask; under the subscription's identifier."""
    event = await world.put("Dog/1", b"{}")
    peer = await world.connected()
    await peer.subscribe("Dog/#", properties={"subscription_identifier": 9, **ASKS})
    record, mark = peer.later
    cursor = world.cursor(event.seq)
    assert ("Dog/1", "$snapshot/end/9") == (record.topic, mark.topic)
    assert (cursor, cursor, {"cursor": cursor}) == (
        user(record, "seq"),
        user(mark, "seq"),
        json.loads(mark.payload),
    )


async def test_no_mark_for_those_who_do_not_ask(world):
    await world.put("Dog/1", b"{}")
    peer = await world.connected()
    await peer.subscribe("Dog/#")
    assert ["Dog/1"] == topics(peer.later)


async def test_a_mark_when_nothing_is_current(world):
    """With retain handling 2, and when there are no records."""
    peer = await world.connected()
    await peer.subscribe("Dog/#", retain_handling=2, properties=ASKS)
    assert ["$snapshot/end/0"] == topics(peer.later)


@pytest.mark.parametrize("qos", [0, 1])
async def test_since_goes_on_without_loss(world, qos):
    """M1: what another door told is accepted; the log from there, then live."""
    events = [await world.put(f"Dog/{number}", b"{}") for number in range(5)]
    peer = await world.connected()
    await peer.subscribe("Dog/#", qos=qos, properties=since(world.cursor(events[1].seq)))
    await world.put("Dog/5", b"{}")
    came = [*peer.later, *await peer.hear()]
    assert [f"Dog/{number}" for number in (2, 3, 4, 5)] == topics(came)


async def test_since_may_be_what_a_puback_told(world):
    """M1, D51."""
    sender = await world.connected()
    for number in (1, 2, 3):
        sender.publish(f"Dog/{number}", b"{}", qos=1, retain=True, packet_id=number)
    first, *_ = await sender.hear()
    peer = await world.connected("s")
    await peer.subscribe("Dog/#", properties=since(user(first, "seq")))
    assert ["Dog/2", "Dog/3"] == topics(peer.later)


async def test_a_cursor_that_only_another_node_can_have_is_refused(world):
    """K12: this node may be too old to tell whether it is beyond the end of the log."""
    event = await world.put("Dog/1", b"{}")
    asked = []

    async def behind(number):
        asked.append(number)
        raise Error(Code.BUSY, "another node numbers writes now")

    world.kernel.reader.until_reached = behind
    peer = await world.connected()
    ahead = world.cursor(event.seq + 7)
    assert (0x97,) == await peer.subscribe("Dog/#", properties=since(ahead))
    assert ([], [event.seq + 7]) == (peer.later, asked)
    assert (0,) == await peer.subscribe("Dog/#", properties=since(world.cursor(event.seq)))


async def test_since_now_brings_nothing(world):
    event = await world.put("Dog/1", b"{}")
    peer = await world.connected()
    await peer.subscribe("Dog/#", properties=since(world.cursor(event.seq)))
    assert [] == peer.later


@pytest.mark.parametrize("handling", [0, 1, 2])
@pytest.mark.parametrize("cursor", ["deadbeef:1", f"{EPOCH}:999"], ids=["epoch", "beyond"])
async def test_a_cursor_that_cannot_be_continued(world, cursor, handling):
    """M1, C11: one reset, then the current records, never a part of the log."""
    await world.put("Dog/1", b'{"age":1}')
    event = await world.put("Dog/1", b'{"age":2}')
    peer = await world.connected()
    properties = {"subscription_identifier": 4, **since(cursor)}
    await peer.subscribe("Dog/#", retain_handling=handling, properties=properties)
    assert ["$reset/4", "Dog/1", "$snapshot/end/4"] == topics(peer.later)
    reset = peer.later[0]
    told = json.loads(reset.payload)
    assert (cursor, world.cursor(event.seq)) == (told["from"], told["cursor"])
    assert told["reason"]
    assert b'{"age":2}' == peer.later[1].payload


async def test_a_cursor_that_fell_off_the_log(world):
    """C11: one reset, the current records, and on it goes."""
    first = await world.put("Dog/1", b'{"age":0}')
    for number in range(1, 5):
        await world.put("Dog/1", b'{"age":%d}' % number)
    dog = first.table
    while world.store.trim(dog, Keep(events=2), world.time, 100):
        pass
    peer = await world.connected()
    await peer.subscribe("Dog/#", properties=since(world.cursor(first.seq)))
    await world.put("Dog/2", b"{}")
    came = [*peer.later, *await peer.hear()]
    assert ["$reset/0", "Dog/1", "$snapshot/end/0", "Dog/2"] == topics(came)


async def test_marks_are_written_as_the_client_reads(world):
    """X19."""
    peer = await world.connected()
    await peer.subscribe("Dog/#", properties=users(("seq", ""), ("accept", CBOR)))
    assert [b"\xa1\x66cursor"] == [payload[:8] for payload in payloads(peer.later)]


async def test_a_client_goes_on_after_a_cut(world):
    """M1: it connects again with the last `seq` that it has seen."""
    peer = await world.subscribed("Dog/#", qos=1)
    for number in range(3):
        await world.put(f"Dog/{number}", b"{}")
    seen, *_ = await peer.hear()
    peer.lose()
    await world.put("Dog/9", b"{}")
    again = await world.connected("s")
    await again.subscribe("Dog/#", qos=1, properties=since(user(seen, "seq")))
    assert ["Dog/1", "Dog/2", "Dog/9"] == topics(again.later)
    assert [] == await again.ask(*(Puback(item.packet_id) for item in again.later))
