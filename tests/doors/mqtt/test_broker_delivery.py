"""Delivery: windows, slow readers, fairness; what is logged is never lost."""

import pytest

from mqtt_server import Puback, payloads, topics, user, users
from rowcast.core import limits
from rowcast.core.events import MESSAGE, Event
from rowcast.core.limits import MQTT_FLUSH_EVENTS, SUBSCRIPTION_QUEUE_EVENTS_MAX
from rowcast.mqtt.window import PACKET_ID_MAX

MANY = SUBSCRIPTION_QUEUE_EVENTS_MAX + 500


async def numbered(world, count, topic="Dog/1", first=0):
    """Put a record many times, each time with another number."""
    for number in range(first, first + count):
        await world.put(topic, b'{"age":%d}' % number)


def ages(packets):
    return [int(payload[7:-1]) for payload in payloads(packets)]


# -- the window ----------------------------------------------------------------------------------


@pytest.mark.parametrize("maximum", [1, 3])
async def test_never_more_in_flight_than_the_client_takes(world, maximum):
    """D19, D22, MQTT-3.3.4-7, MQTT-4.9.0-2: the next goes as soon as there is room."""
    peer = await world.connected("s", properties={"receive_maximum": maximum})
    await peer.subscribe("Dog/#", qos=1)
    await numbered(world, 10)
    came = []
    flying = await peer.hear()
    while flying:
        came += ages(flying)
        assert len(peer.client.session.window) == len(flying) <= maximum
        flying = await peer.ask(*(Puback(item.packet_id) for item in flying))
    assert list(range(10)) == came


async def test_one_acknowledgement_makes_room_for_one(world):
    """D22: it does not wait for the whole window."""
    peer = await world.connected("s", properties={"receive_maximum": 2})
    await peer.subscribe("Dog/#", qos=1)
    await numbered(world, 4)
    first, second = await peer.hear()
    assert [2] == ages(await peer.ask(Puback(second.packet_id)))
    assert [3] == ages(await peer.ask(Puback(first.packet_id)))


async def test_a_full_window_is_pending(world):
    """D24: what waits and what is in flight."""
    peer = await world.connected("s", properties={"receive_maximum": 2})
    await peer.subscribe("Dog/#", qos=1)
    await numbered(world, 5)
    await peer.hear()
    assert 5 == peer.client.session.pending


async def test_qos_0_needs_no_window(world):
    """MQTT-4.9.0-2 is about QoS 1 and 2."""
    peer = await world.connected("s", properties={"receive_maximum": 1})
    await peer.subscribe("Dog/#")
    await numbered(world, 5)
    assert [0, 1, 2, 3, 4] == ages(await peer.hear())


async def test_identifiers_wrap_and_never_collide(world):
    """D21, MQTT-2.2.1-3: one that is still in flight is passed over."""
    peer = await world.subscribed("a", client_id="s", qos=1)
    await world.say("a", b"")
    (first,) = await peer.hear()
    peer.client.session.window.latest = PACKET_ID_MAX - 1
    for _ in range(3):
        await world.say("a", b"")
    assert [1, PACKET_ID_MAX, 2, 3] == [
        first.packet_id,
        *(item.packet_id for item in await peer.hear()),
    ]


async def test_an_unknown_acknowledgement_is_ignored(world):
    """A late or repeated PUBACK is no mistake."""
    peer = await world.subscribed("a", qos=1)
    assert ([], False) == (await peer.ask(Puback(9), Puback(9)), peer.closed)


async def test_an_acknowledgement_that_refuses_ends_the_flight(world):
    """MQTT-4.4.0-2."""
    peer = await world.connected("s", properties={"receive_maximum": 1})
    await peer.subscribe("Dog/#", qos=1)
    await numbered(world, 2)
    (first,) = await peer.hear()
    assert [1] == ages(await peer.ask(Puback(first.packet_id, 0x87)))


# -- size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_the_client_does_not_take_counts_as_sent(world, qos):
    """MQTT-3.1.2-24, MQTT-3.1.2-25: exactly its Maximum Packet Size is still sent."""
    peer = await world.connected("s", properties={"maximum_packet_size": 60})
    await peer.subscribe("a", qos=qos)
    overhead = 2 + 3 + 1 + 2 * qos
    for size in (61 - overhead, 60 - overhead):
        await world.say("a", b"x" * size)
    assert [60 - overhead] == [len(payload) for payload in payloads(await peer.hear())]
    assert (1, 60) == (world.broker.deliveries.dropped_large, len(peer.transport.sent[-1]))


async def test_a_mark_obeys_it_too(world):
    peer = await world.connected("s", properties={"maximum_packet_size": 40})
    await peer.subscribe("a", properties=users(("seq", "")))
    assert ([], 1) == (peer.later, world.broker.deliveries.dropped_large)


async def test_suback_is_cut_or_the_connection_ends(world):
    """MQTT-3.1.2-24, MQTT-3.9.2-1."""
    peer = await world.connected("s", properties={"maximum_packet_size": 24})
    assert (0x8F,) == await peer.subscribe("a/#/b")
    peer.send_bytes(b"\x82\x80\x01\x00\x07\x00" + b"\x00\x01a\x00" * 31 + b"\x00")
    await world.turn()
    assert peer.closed


# -- slow readers --------------------------------------------------------------------------------


async def test_a_stopped_reader_is_neither_written_to_nor_read(world):
    """Bad input, D22."""
    peer = await world.subscribed("#")
    peer.client.pause_writing()
    await world.say("a", b"x")
    assert ([], False) == (await peer.hear(), peer.transport.reading)
    peer.client.resume_writing()
    assert ([b"x"], True) == (payloads(await peer.hear()), peer.transport.reading)


@pytest.mark.slow
async def test_a_slow_reader_loses_nothing_that_is_logged(world):
    """D22: its queue overflows, and it goes on from the log."""
    peer = await world.subscribed("Dog/#", qos=1)
    peer.client.pause_writing()
    await numbered(world, MANY)
    session = peer.client.session
    assert session.subscription.waiting <= SUBSCRIPTION_QUEUE_EVENTS_MAX
    peer.client.resume_writing()
    came = []
    while flying := await peer.hear():
        came += ages(flying)
        peer.send(*(Puback(item.packet_id) for item in flying))
    assert (list(range(MANY)), 1) == (came, session.subscription.fallbacks)


async def test_what_is_not_logged_is_dropped_and_counted(plain_world):
    """D22: QoS 0 on an open topic; a client that asked is told by a mark."""
    world = plain_world
    plain = await world.subscribed("#", client_id="plain")
    asking = await world.subscribed("#", client_id="asking", properties=users(("seq", "")))
    asking.heard()
    for peer in (plain, asking):
        peer.client.pause_writing()
    for _ in range(MANY):
        world.kernel.submit(Event("a", MESSAGE, b"x"), peer.client.caller)
    for peer in (plain, asking):
        assert 500 == peer.client.session.subscription.losses.total
        peer.client.resume_writing()
    assert SUBSCRIPTION_QUEUE_EVENTS_MAX == len(payloads(await plain.hear()))
    *messages, gap = await asking.hear()
    assert (SUBSCRIPTION_QUEUE_EVENTS_MAX, "$gap/0") == (len(messages), gap.topic)
    assert b'"count":500' in gap.payload


@pytest.mark.heavy
async def test_the_healthy_do_not_wait_for_the_stopped(world):
    """D22: one that does not read costs the others nothing."""
    stopped = await world.subscribed("#", client_id="stopped")
    healthy = await world.subscribed("#", client_id="healthy")
    stopped.client.pause_writing()
    sender = await world.connected()
    for number in range(MANY):
        sender.publish("a", b"%d" % number)
    assert MANY == len(payloads(await healthy.hear()))


async def test_a_burst_beyond_the_queue_is_written_at_once(world):
    """D23: one turn may bring more than the queue holds; a reader that can take it does."""
    peer = await world.subscribed("a")
    for number in range(MANY):
        world.kernel.submit(Event("a", MESSAGE, b"%d" % number), peer.client.caller)
    got = [int(payload) for payload in payloads(await peer.hear())]
    assert (list(range(MANY)), 0) == (got, peer.client.session.subscription.losses.total)


async def test_others_get_a_turn(plain_world):
    """One client's backlog is divided among turns of the loop."""
    world = plain_world
    peer = await world.subscribed("a")
    for _ in range(MQTT_FLUSH_EVENTS + 1):
        world.kernel.submit(Event("a", MESSAGE, b"x"), peer.client.caller)
    peer.client.flush()
    assert MQTT_FLUSH_EVENTS == len(peer.heard())
    assert 1 == len(await peer.hear())


async def test_one_write_for_one_turn(world):
    """D11, D64: acknowledgements and messages of a turn go out together."""
    peer = await world.subscribed("a", qos=1)
    before = len(peer.transport.sent)
    for number in range(1, 6):
        peer.publish("a", b"x", qos=1, packet_id=number)
    await world.turn()
    assert before + 1 == len(peer.transport.sent)
    assert 10 == len(peer.heard())


async def test_memory_of_a_client_that_never_acknowledges(plain_world):
    """Bad input: what is in flight holds its number, not its payload."""
    world = plain_world
    peer = await world.subscribed("a", qos=1)
    await world.say("a", b"x" * 1_000)
    await peer.hear()
    assert [0] == [flight.item for _, flight in peer.client.session.window]


async def test_counts(world):
    """F17, F33: bytes and packets as on the wire; kept when the connection is gone."""
    peer = await world.subscribed("a")
    for _ in range(3):
        await world.say("a", b"")
    await peer.hear()
    counted = world.broker.tally.of(peer.client)
    assert (2, 3) == (counted.packets_in, counted.publishes_out)
    peer.lose()
    total = world.broker.tally.look()
    assert (2, 3) == (total.packets_in, total.publishes_out)


async def test_a_failed_read_of_the_log_ends_the_connection(world):
    """D8: rather than a hole in what it is told."""
    await world.put("Dog/1", b"{}")
    peer = await world.connected()

    def broken(*_arguments):
        raise OSError("the disk is gone")

    world.store.scan = broken
    await peer.subscribe("Dog/#")
    (answer,) = peer.later
    assert (0x80, True) == (answer.reason, peer.closed)
    assert limits.MQTT_FLUSH_EVENTS == MQTT_FLUSH_EVENTS
    assert (None, []) == (user(answer, "seq"), topics(peer.later))
