"""What is counted of a connection: bytes and packets as on the wire, messages, payloads."""

import pytest

from mqtt_server import (
    Connect,
    MqttServer,
    Peer,
    Pingreq,
    Puback,
    Publish,
    Subscribe,
    Subscription,
    users,
)
from rowcast.mqtt.encode import encode

VERSIONS = (4, 5)


class Ear:
    """Remembers what it heard."""

    def __init__(self):
        self.heard = []

    def on_connect(self, client_id):
        self.heard.append(("connect", client_id))

    def on_disconnect(self, client_id):
        self.heard.append(("disconnect", client_id))

    def on_subscribe(self, client_id, topics):
        self.heard.append(("subscribe", client_id, topics))

    def on_unsubscribe(self, client_id, topics):
        self.heard.append(("unsubscribe", client_id, topics))

    def changed(self):
        """Ignore other changes."""

    def traffic(self):
        """Ignore that there was some."""

    def taken(self):
        heard, self.heard = self.heard, []
        return heard


@pytest.fixture
async def world():
    return MqttServer()


@pytest.fixture
def ear(world):
    ear = Ear()
    world.kernel.listeners.mqtt.append(ear)
    return ear


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_comes_in(world, version):
    """F17: packets of any kind, and of PUBLISH the payload, whatever way it was read."""
    packets = [
        Connect(version, "c"),
        Publish("a", b"12345"),
        Publish("a", b""),
        Publish("a", b"123", 1, False, False, 7),
        Pingreq(),
        Publish("b/c", b"1" * 300, properties=users(("x", "y")) if version == 5 else None),
    ]
    data = b"".join(encode(packet, version) for packet in packets)
    peer = world.peer(version)
    peer.send_bytes(data[:20])
    await world.turn()
    peer.send_bytes(data[20:])
    await world.turn()
    counted = world.broker.tally.of(peer.client)
    assert (len(data), 6) == (counted.bytes_in, counted.packets_in)
    assert (4, 308) == (counted.publishes_in, counted.payload_in)


async def test_what_came_before_a_breach_is_counted(world):
    """Bad input: a packet that is none ends the connection, and hides nothing."""
    peer = await world.connected("c", 4)
    data = encode(Publish("a", b"12"), 4) * 3
    peer.send_bytes(data + b"\xf0\x00")
    await world.turn()
    counted = world.broker.tally.of(peer.client)
    assert (3, 6) == (counted.publishes_in, counted.payload_in)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_goes_out(world, version, qos):
    """F17: bytes as on the wire; a payload in the form that the client gets."""
    peer = await world.connected("c", version)
    await peer.subscribe("a", "Dog/1", qos=qos)
    for number in range(3):
        await world.say("a", b"x" * number)
    await world.put("Dog/1", b'{"name":"Rex"}')
    packets = await peer.hear()
    payload_bytes = sum(len(packet.payload) for packet in packets)
    assert payload_bytes > 3
    counted = world.broker.tally.of(peer.client)
    assert (4, payload_bytes) == (counted.publishes_out, counted.payload_out)
    assert sum(map(len, peer.transport.sent)) == counted.bytes_out
    assert 2 + 4 == counted.packets_out


async def test_a_payload_is_counted_in_the_form_that_is_sent(world):
    """D47: CBOR for one client, JSON for another."""
    plain = await world.subscribed("Dog/#", client_id="a")
    other = await world.subscribed(
        "Dog/#", client_id="b", connect={"properties": users(("accept", "application/cbor"))}
    )
    await world.put("Dog/1", b'{"name":"Rex","age":3}')
    sizes = [len((await peer.hear())[0].payload) for peer in (plain, other)]
    assert sizes[0] > sizes[1]
    assert sizes == [world.broker.tally.of(peer.client).payload_out for peer in (plain, other)]


async def test_all_connections_together(world):
    """Those that are gone too; and the total is told once for each look."""
    peers = [await world.connected(f"c{number}", 4) for number in range(3)]
    for peer in peers:
        peer.publish("a", b"1234")
    peers[0].lose()
    await world.turn()
    total = world.broker.tally.look()
    assert (3, 12, 6) == (total.publishes_in, total.payload_in, total.packets_in)
    assert sum(len(data) for peer in peers for data in peer.transport.sent) == total.bytes_out
    peers[1].publish("a", b"12")
    assert 14 == world.broker.tally.look().payload_in


async def test_traffic_is_told_once_between_two_looks(world):
    """So that counting costs a busy connection nothing but the numbers."""
    calls = []
    ear = Ear()
    ear.traffic = lambda: calls.append(1)
    world.kernel.listeners.mqtt.append(ear)
    peer = await world.connected("c", 4)
    for _ in range(5):
        peer.publish("a", b"")
        await world.turn()
    assert [1] == calls
    world.broker.tally.look()
    peer.publish("a", b"")
    assert [1, 1] == calls


async def test_flights_that_are_sent_again_count_again(world):
    """D18: they are on the wire a second time."""
    peer = await world.connected("c", 5, properties={"session_expiry_interval": 100})
    await peer.subscribe("a", qos=1)
    await world.say("a", b"12345")
    await peer.hear()
    peer.lose()
    again = await world.connected(
        "c", 5, clean_start=False, properties={"session_expiry_interval": 100}
    )
    await again.hear()
    counted = world.broker.tally.of(again.client)
    assert (1, 5) == (counted.publishes_out, counted.payload_out)


async def test_who_comes_and_goes(world, ear):
    peer = await world.connected("c")
    peer.lose()
    await world.turn()
    assert [("connect", "c"), ("disconnect", "c")] == ear.taken()


async def test_filters_are_told_once(world, ear):
    """F10, X5: however often it is asked for, and whether it ends alone or with its session."""
    peer = await world.connected("c")
    for filters in (("a", "b/#"), ("a",), ("$share/g/x",), ("$share/g/x",)):
        await peer.subscribe(*filters)
    ear.heard = [item for item in ear.heard if item[0] != "connect"]
    wanted = [("subscribe", "c", text) for text in ("a", "b/#", "$share/g/x")]
    assert wanted == ear.taken()
    peer.lose()
    await world.turn()
    assert [item for item in ear.taken() if item[0] == "unsubscribe"] == [
        ("unsubscribe", "c", text) for text in ("a", "b/#", "$share/g/x")
    ]


async def test_filters_of_a_session_that_waits_stay(world, ear):
    """F31: they are told of again only by a server that was started anew."""
    options = {"properties": {"session_expiry_interval": 100}}
    peer = await world.connected("c", 5, **options)
    await peer.ask(Subscribe(1, (Subscription("a", 1), Subscription("$share/g/x", 1)), None))
    peer.lose()
    await world.turn()
    assert [] == [item for item in ear.taken() if item[0] == "unsubscribe"]
    back = await world.connected("c", 5, clean_start=False, **options)
    assert [("connect", "c")] == ear.taken()
    back.lose()
    await world.turn()
    ear.taken()
    await world.pass_time(101)
    assert [("unsubscribe", "c", "a"), ("unsubscribe", "c", "$share/g/x")] == ear.taken()
    assert 1 == world.broker.ended


async def test_a_take_over_is_a_connection_less_and_one_more(world, ear):
    """D29."""
    first = await world.connected("c")
    second = await world.connected("c")
    await first.hear()
    assert [("connect", "c"), ("disconnect", "c"), ("connect", "c")] == ear.taken()
    assert isinstance(second, Peer)


async def test_an_acknowledgement_is_a_packet(world):
    peer = await world.subscribed("a", qos=1)
    await world.say("a", b"")
    before = world.broker.tally.of(peer.client).packets_in
    (message,) = await peer.hear()
    await peer.ask(Puback(message.packet_id))
    assert before + 1 == world.broker.tally.of(peer.client).packets_in
