"""O7: who is given messages late: three ways of measuring, a bounded list, on a moved clock."""

import json

import pytest
from shared_workers import SHARE

from mqtt_server import OTHER, MqttServer, Puback, Pubcomp, Publish, Pubrec, payloads, topics, user
from rowcast.core.callers import SERVER
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.features.slow_subscribers.slow_rows import PATH
from rowcast.features.slow_subscribers.slow_subscribers import Measure, SlowSettings

LASTING = {"properties": {"session_expiry_interval": 1000}}


def world(measure=Measure.WHOLE, undeclared="table", **settings):
    return MqttServer(slow=SlowSettings(measure, **settings), undeclared=undeclared)


def listed(world):
    """Return the list: who, what, how late in milliseconds, how often."""
    entries = [world.slow.entry(name) for name in world.slow.names()]
    return [
        (item.caller.client_id, item.topic, round(item.seconds * 1000), item.count)
        for item in entries
    ]


async def answer(peer, packets):
    """Acknowledge messages; of QoS 2 both times."""
    for packet in packets:
        if isinstance(packet, Publish) and packet.qos == 1:
            await peer.ask(Puback(packet.packet_id))
        elif isinstance(packet, Publish) and packet.qos == 2:
            await peer.ask(Pubrec(packet.packet_id))
            await peer.ask(Pubcomp(packet.packet_id))


@pytest.mark.parametrize("lasting", [None, LASTING])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("measure", list(Measure))
async def test_a_client_that_acknowledges_late(measure, qos, lasting):
    """O7: `whole` and `response` end with the acknowledgement, `internal` before it is sent."""
    here = world(measure)
    peer = await here.subscribed("a/#", qos=2, connect=lasting)
    await here.kernel.write(Event("a/b", MESSAGE, b"x", None, qos), OTHER)
    sent = await peer.hear()
    await here.pass_time(0.7)
    await answer(peer, sent)
    late = [] if measure is Measure.INTERNAL else [("s", "a/b", 700, 1)]
    assert late == listed(here)


async def test_quick_clients_are_not_listed():
    """O7: the threshold: 499 milliseconds are none."""
    here = world()
    peer = await here.subscribed("a/#", qos=1)
    await here.say("a/b", b"x")
    sent = await peer.hear()
    await here.pass_time(0.499)
    await answer(peer, sent)
    assert ([], 0) == (listed(here), here.slow.total)
    assert not here.slow._entries


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("undeclared", ["table", "route"])
async def test_a_socket_that_is_full(measure, undeclared):
    """O7: what could not be written was late when it was; logged or not."""
    here = world(measure, undeclared)
    peer = await here.subscribed("a/#")
    peer.client.pause_writing()
    await here.pass_time(5)
    await here.say("a/b", b"x")
    await here.turn()
    await here.pass_time(2)
    await here.say("a/c", b"y")
    peer.client.resume_writing()
    assert [b"x", b"y"] == payloads(await peer.hear())
    late = [] if measure is Measure.RESPONSE else [("s", "a/b", 2000, 1)]
    assert late == listed(here)
    await here.say("a/d", b"z")
    await peer.hear()
    assert 1 >= here.slow.total


@pytest.mark.parametrize("undeclared", ["table", "route"])
async def test_a_window_that_is_full(undeclared):
    """O7: `internal` sees what waits behind unacknowledged messages."""
    here = world(Measure.INTERNAL, undeclared)
    connect = {"properties": {"receive_maximum": 1}}
    peer = await here.subscribed("a/#", qos=1, connect=connect)
    await here.say("a/1", b"1")
    await here.say("a/2", b"2")
    sent = await peer.hear()
    await here.pass_time(3)
    await answer(peer, sent)
    assert [("s", "a/2", 3000, 1)] == listed(here)


async def test_a_slow_disk_is_late_for_everybody():
    """O7: `internal` counts from the arrival, not from the announcement."""
    here = world(Measure.INTERNAL)
    peer = await here.subscribed("a/#")
    here.writer.hold()
    publisher = await here.connected("p")
    publisher.publish("a/b", b"x")
    await here.turn()
    await here.pass_time(0.6)
    here.writer.release()
    assert ["a/b"] == topics(await peer.hear())
    assert [("s", "a/b", 600, 1)] == listed(here)


async def test_what_was_there_before_is_not_late():
    """O7: records, the log since a cursor, and what waited for a session that was away."""
    here = world()
    before = await here.put("Dog/1", b'{"name": "Rex"}')
    away = await here.subscribed("Dog/#", client_id="away", qos=1, connect=LASTING)
    away.lose()
    await here.put("Dog/2", b'{"name": "Max"}')
    await here.pass_time(60)
    back = await here.connected("away", clean_start=False, **LASTING)
    await answer(back, [*back.later, *await back.hear()])
    new = await here.subscribed("Dog/#", client_id="new", qos=1)
    await answer(new, [*new.later, *await new.hear()])
    since = {"user_property": (("since", here.cursor(before.seq - 1)),)}
    old = await here.subscribed("Dog/#", client_id="old", qos=1, properties=since)
    heard = [*old.later, *await old.hear()]
    assert {"Dog/1", "Dog/2"} <= set(topics(heard))
    await answer(old, heard)
    assert [] == listed(here)


async def test_what_was_made_elsewhere_counts_from_when_it_is_sent():
    """O7, E26: a stamp is not the time of arrival."""
    here = world()
    peer = await here.subscribed("a/#", qos=1)
    long_ago = {"version": round(here.time * 1e6) - 10**9, "properties": {"origin": "there"}}
    await here.put("a/b", b"x", **long_ago)
    await answer(peer, await peer.hear())
    assert [] == listed(here)


async def test_workers_of_a_group():
    """O7: a worker is timed; a message that another had before counts from when it has it."""
    here = world()
    one = await here.subscribed(SHARE, client_id="one", qos=1)
    await here.say("a/1", b"1")
    await one.hear()
    await here.pass_time(2)
    two = await here.subscribed(SHARE, client_id="two", qos=1)
    one.lose()
    await answer(two, await two.hear())
    assert [] == listed(here)
    await here.say("a/2", b"2")
    sent = await two.hear()
    await here.pass_time(2)
    await answer(two, sent)
    assert [("two", "a/2", 2000, 1)] == listed(here)


async def test_the_list_is_bounded_and_has_the_worst():
    """O7: as many entries as are wanted, the latest first; a quicker one makes room."""
    here = world(top=2)
    delays = {"a/1": 3, "a/2": 1, "a/3": 2, "a/4": 0.6}
    peer = await here.subscribed("a/#", qos=1)
    for topic, seconds in delays.items():
        await here.say(topic, b"x")
        sent = await peer.hear()
        await here.pass_time(seconds)
        await answer(peer, sent)
    assert [("s", "a/1", 3000, 1), ("s", "a/3", 2000, 1)] == listed(here)
    assert 4 == here.slow.total
    for seconds in (0.5, 0.6) * 9:  # the latest measurement counts, and the heap is bounded
        await here.say("a/1", b"x")
        sent = await peer.hear()
        await here.pass_time(seconds)
        await answer(peer, sent)
    assert [("s", "a/3", 2000, 1), ("s", "a/1", 600, 19)] == listed(here)
    assert len(here.slow._least) <= 8


async def test_a_storm_leaves_no_more_to_tell_than_there_is():
    """O7: what comes and goes between two looks is told to nobody, and not kept."""
    here = world(top=2)
    watcher = await here.subscribed(f"{PATH}/#", client_id="w")
    peer = await here.subscribed("a/#", qos=1)
    for number in range(9):  # each is slower than those before, and all within one look
        await here.say(f"a/{number}", b"x")
        sent = await peer.hear()
        here.time += 0.6 + number / 10
        await answer(peer, sent)
        assert len(here.slow._news) <= 4
    await here.pass_time(1)
    assert ["s/a/7", "s/a/8"] == [
        name.removeprefix(f"{PATH}/") for name in topics(await watcher.hear())
    ]


async def test_no_list_measures_nothing():
    """O7: `top: 0`."""
    here = world(top=0)
    peer = await here.subscribed("a/#", qos=1)
    await here.say("a/b", b"x")
    sent = await peer.hear()
    await here.pass_time(9)
    await answer(peer, sent)
    assert (0, None) == (here.slow.total, peer.client.timed)


async def late(here, peer, topic="a/b"):
    """Have a client acknowledge a message late."""
    await here.say(topic, b"x")
    sent = await peer.hear()
    await here.pass_time(0.8)
    await answer(peer, sent)


async def test_rows_as_they_come_and_go():
    """O7: watched over MQTT like sessions; expired after a while, forgotten by administrators."""
    here = world(expire_seconds=30)
    watcher = await here.subscribed(f"{PATH}/#", client_id="w")
    peer = await here.subscribed("a/#", client_id="x+y", qos=1)
    await late(here, peer)
    await here.pass_time(1)
    (told,) = await watcher.hear()
    row = json.loads(told.payload)
    assert (f"{PATH}/x%2By/a/b", "slow") == (told.topic, user(told, "event"))
    facts = ("client_id", "topic", "filter", "qos", "measure", "latency_ms", "worst_ms", "count")
    assert ["x+y", "a/b", "a/#", 1, "whole", 800, 800, 1] == [row[name] for name in facts]
    resource = here.kernel.resource(told.topic, OTHER)
    assert row == await resource.get()
    await here.pass_time(30)
    (gone,) = await watcher.hear()
    assert (told.topic, b"", "forgotten") == (gone.topic, gone.payload, user(gone, "event"))
    assert here.slow._look not in [timer.call for timer in here.loop.due()]
    for topic in ("a/1", "a/2", "a/3"):
        await late(here, peer, topic)
    await here.kernel.resource(f"{PATH}/x%2By/a/1", OTHER).delete()
    assert ["a/2", "a/3"] == sorted(item[1] for item in listed(here))
    with pytest.raises(Error, match="not in the list"):
        await here.kernel.resource(f"{PATH}/x%2By/a/1", OTHER).delete()
    await here.kernel.resource(f"{PATH}/", OTHER).delete()
    assert [] == listed(here)


async def test_parts_of_the_server_are_not_listed():
    """O7: it is about clients; a bridge tells of itself."""
    here = world(Measure.INTERNAL)
    stream = here.kernel.open_stream("a/b", SERVER)
    await here.turn()
    stream.take(10)
    here.writer.hold()
    here.kernel.submit(Event("a/b", PUT, b"x", None, 1, True), OTHER)
    await here.turn()
    await here.pass_time(9)
    here.writer.release()
    await here.turn()
    assert stream.take(10)
    assert [] == listed(here)
