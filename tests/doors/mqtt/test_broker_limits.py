"""Limits and abuse, through whole clients: who is let in, how fast, how much (D6, D56-D58)."""

import asyncio

import pytest

from mqtt_server import (  # fmt: skip
    VERSIONS,
    Connack,
    Connect,
    Disconnect,
    MqttServer,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Subscribe,
    Subscription,
    Unsubscribe,
    payloads,
    topics,
)
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.limits import BAN_PEER_FACTOR
from rowcast.doors.mqtt.connections.guard import GuardSettings
from rowcast.doors.mqtt.connections.rates import RateSettings
from rowcast.mqtt.encode import encode
from rowcast.mqtt.reasons import Reason
from rowcast.reads.loop_turns import LoopTurns


class Password:
    """Believes who says ``right``."""

    def __init__(self, *, anonymous=False):
        self.anonymous = anonymous

    def at_once(self, peer, door, client_id):
        """Say that ``identify`` tells."""

    async def identify(self, shown):
        if self.anonymous and shown.username is None:
            return Caller("anonymous", ALL, "mqtt", peer=shown.peer)
        if shown.password != b"right":
            raise Error(Code.UNAUTHENTICATED, "no")
        return Caller("ann", ALL, "mqtt", peer=shown.peer)


@pytest.fixture
async def make():
    """Return what makes a world with settings; afterwards nothing of it is left running."""
    worlds = []

    def _make(**settings):
        worlds.append(MqttServer(**settings))
        return worlds[-1]

    yield _make
    for world in worlds:
        for peer in world.peers:
            peer.lose()
        await world.stop()
        await world.turn()
        guard = world.broker.guard
        assert (set(), 0, {}) == (world.broker.clients, guard.connections, guard._by_peer)
        assert ([], 0) == (world.loop.due(), len(world.broker.refused))


# -- connections -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_most_connections(make, version):
    """D6: CONNACK 0x97, before MQTT 5 return code 3; nothing else is told, nothing is kept."""
    world = make(guard=GuardSettings(connections_max=1))
    first = await world.connected("first")
    second = world.peer(version)
    connack = await second.connect("second")
    expected = Reason.QUOTA_EXCEEDED if version == 5 else Reason.SERVER_UNAVAILABLE
    assert (expected, True) == (connack.reason, second.closed)
    assert (1, 1) == (len(world.broker.clients), world.broker.connections)
    assert [Pingresp()] == await first.ask(Pingreq())
    first.lose()
    assert Reason.SUCCESS == (await world.peer(version).connect("third")).reason


async def test_a_peer_has_its_share(make):
    """D6."""
    world = make(guard=GuardSettings(connections_per_peer_max=1))
    await world.connected("a")
    assert Reason.QUOTA_EXCEEDED == (await world.peer().connect("b")).reason
    assert Reason.SUCCESS == (await world.peer(peer="127.0.0.2").connect("c")).reason


async def test_connects_in_one_second(make):
    """D57: 0x9F, and a second later again."""
    world = make(guard=GuardSettings(connects_per_second=2))
    reasons = [(await world.peer().connect(str(number))).reason for number in range(3)]
    assert [0, 0, Reason.CONNECTION_RATE_EXCEEDED] == reasons
    await world.pass_time(1)
    assert Reason.SUCCESS == (await world.peer().connect("again")).reason


async def test_nobody_is_let_in_while_stopping(make):
    world = make()
    await world.broker.stop()
    peer = world.peer()
    assert (None, True) == (peer.client, peer.transport.aborted)


# -- flapping and bans -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_flapping_client(make, version):
    """D56: N drops in T seconds, refused with 0x8A (before MQTT 5: 5) for B seconds, then again."""
    world = make(guard=GuardSettings(drops=3, within_seconds=60, ban_seconds=300))
    for _ in range(3):
        peer = world.peer(version)
        await peer.connect("flapper")
        peer.lose()
    connack = await world.peer(version).connect("flapper")
    assert (Reason.BANNED if version == 5 else Reason.NOT_AUTHORIZED) == connack.reason
    assert Reason.SUCCESS == (await world.peer(version).connect("other")).reason
    assert ["flapper"] == [ban.name for ban in world.broker.guard.bans]
    await world.pass_time(301)
    assert Reason.SUCCESS == (await world.peer(version).connect("flapper")).reason


async def test_a_goodbye_is_no_drop(make):
    """D56: a client that comes often and goes politely does not flap."""
    world = make(guard=GuardSettings(drops=2))
    for reason in (Reason.NORMAL_DISCONNECTION, Reason.DISCONNECT_WITH_WILL_MESSAGE) * 3:
        peer = await world.connected("polite")
        await peer.ask(Disconnect(reason))
        peer.lose()
    assert 0 == world.broker.guard.banned


async def test_two_that_fight_for_one_client_id(make):
    """D56: each takeover is a drop."""
    world = make(guard=GuardSettings(drops=3))
    for _ in range(4):
        await world.connected("twin")
        [peer.heard() for peer in world.peers]
    assert Reason.BANNED == (await world.peer().connect("twin")).reason


async def test_the_servers_own_end_is_nobodys_offence(make):
    world = make(guard=GuardSettings(drops=1))
    peer = await world.connected("c")
    stopping = asyncio.ensure_future(world.broker.stop())
    await peer.hear()
    await stopping
    assert 0 == world.broker.guard.banned


async def test_a_peer_that_flaps_is_refused_and_its_users_are_not(make):
    """D56, P3: who has no name is judged by what others without one did at its address."""
    world = make(guard=GuardSettings(drops=1), authenticator=Password(anonymous=True))
    for number in range(BAN_PEER_FACTOR):
        (await world.connected(f"c{number}")).lose()
    assert Reason.BANNED == (await world.peer().connect("c")).reason
    assert Reason.SUCCESS == (await world.peer(peer="10.0.0.2").connect("c")).reason
    ann = {"username": "ann", "password": b"right"}
    assert Reason.SUCCESS == (await world.peer().connect("c0", **ann)).reason


# -- rates -----------------------------------------------------------------------------------------


async def test_messages_are_slowed_down(make):
    """D57: nothing is lost; the socket is not read from until there is room again."""
    world = make(rates=RateSettings(messages=10))
    watcher = await world.subscribed("a/#")
    peer = await world.connected("p")
    for number in range(30):
        peer.publish(f"a/{number}", b"x")
    assert not peer.transport.reading
    assert [f"a/{number}" for number in range(30)] == topics(await watcher.hear())
    await world.pass_time(1.9)
    assert not peer.transport.reading
    await world.pass_time(0.2)
    assert (True, False) == (peer.transport.reading, peer.closed)


async def test_bytes_are_slowed_down_within_a_packet(make):
    """D57: half a packet counts too."""
    world = make(rates=RateSettings(bytes=1_000))
    peer = await world.connected("p")
    data = encode(Publish("a", b"x" * 5_000), 5)
    peer.send_bytes(data[:3_000])
    assert not peer.transport.reading
    await world.pass_time(2.2)
    assert peer.transport.reading


async def test_a_slowed_client_is_not_silent(make):
    """D30, D57: while it is not read from, its keep-alive is not judged."""
    world = make(rates=RateSettings(messages=1))
    peer = await world.connected("p", keep_alive_seconds=5)
    for _ in range(60):
        peer.publish("a")
    await world.pass_time(50)
    assert not peer.closed
    await world.pass_time(20)
    assert peer.closed


async def test_a_full_socket_wins_over_the_rate(make):
    """D57: reading begins again only when nothing stands against it."""
    world = make(rates=RateSettings(messages=1))
    peer = await world.connected("p")
    peer.publish("a")
    peer.publish("a")
    peer.client.pause_writing()
    await world.pass_time(5)
    assert not peer.transport.reading
    peer.client.resume_writing()
    assert peer.transport.reading


@pytest.mark.parametrize("version", VERSIONS)
async def test_too_fast_is_disconnected(make, version):
    """D57: 0x96, and what was over the rate is not taken."""
    world = make(rates=RateSettings(messages=10, disconnects=True))
    watcher = await world.subscribed("a")
    peer = await world.connected("p", version)
    peer.send(*(Publish("a", b"in") for _ in range(10)))
    assert not peer.closed
    answer = await peer.ask(Publish("a", b"over"))
    expected = [Reason.MESSAGE_RATE_TOO_HIGH] if version == 5 else []
    assert (True, expected) == (peer.closed, [packet.reason for packet in answer])
    assert [b"in"] * 10 == payloads(await watcher.hear())
    assert 1 == world.broker.throttled


async def test_a_steady_client_is_left_alone(make):
    world = make(rates=RateSettings(messages=10, bytes=10_000, disconnects=True))
    peer = await world.connected("p")
    for _ in range(100):
        await world.pass_time(0.1)
        assert [Puback(1)] == await peer.ask(Publish("a", b"", 1, packet_id=1))
    assert 0 == world.broker.throttled


async def test_subscribes_in_one_second(make):
    """D57: 0x97 for the filters that are too many, and only for them."""
    world = make(rates=RateSettings(subscribes=2))
    peer = await world.connected("p")
    quota = Reason.QUOTA_EXCEEDED
    assert (0, 0, quota) == await peer.subscribe("a", "b", "c")
    await world.pass_time(0.5)
    assert (0, quota) == await peer.subscribe("c", "d")


# -- what one client may have ----------------------------------------------------------------------


async def test_subscriptions_of_one_client(make):
    """D57: a filter that it has may be changed."""
    world = make(subscriptions_max=2)
    peer = await world.connected("p")
    assert (0, 0, Reason.QUOTA_EXCEEDED) == await peer.subscribe("a", "b", "c")
    assert (1,) == await peer.subscribe("a", qos=1)


async def turns_until_answered(peer, answers):
    """Return the answers, and how many turns of the loop, which others have too, they took."""
    turns, heard = 0, []
    while len(heard) < answers:
        await asyncio.sleep(0)
        turns += 1
        heard += peer.heard()
    return turns, [answer.reasons for answer in heard]


async def turns_until(condition):
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0)


@pytest.mark.heavy
async def test_k6_many_filters_leave_others_their_turns(make):
    """L11: in one SUBSCRIBE or in many, they are begun some at a time, and answered as asked."""
    world = make(subscriptions_max=1_450)
    peer = await world.connected("p")
    wanted = tuple(Subscription(f"a/{n}") for n in range(1_000))
    peer.send(Subscribe(1, wanted))
    turns, reasons = await turns_until_answered(peer, 1)
    assert (True, [(0,) * 1_000]) == (turns > 10, reasons)
    peer.send(*(Subscribe(n, (Subscription(f"b/{n}"),)) for n in range(1, 501)))
    turns, reasons = await turns_until_answered(peer, 500)
    assert [(0,)] * 450 + [(Reason.QUOTA_EXCEEDED,)] * 50 == reasons
    assert (True, 1_450) == (turns >= 500, world.kernel.bus.subscriptions)


async def test_many_filters_are_removed_some_at_a_time_and_answered_as_asked(make):
    world = make()
    world.kernel.turns = LoopTurns(slice_seconds=0)
    peer = await world.connected("p")
    peer.send(Subscribe(1, tuple(Subscription(f"a/{n}") for n in range(100))))
    await turns_until_answered(peer, 1)
    peer.send(Unsubscribe(2, (*(f"a/{n}" for n in range(100)), "b")))
    peer.send(Subscribe(3, (Subscription("c"),)))
    turns, reasons = await turns_until_answered(peer, 2)
    assert [(0,) * 100 + (Reason.NO_SUBSCRIPTION_EXISTED,), (0,)] == reasons
    assert (True, 1) == (turns >= 101, world.kernel.bus.subscriptions)


async def test_a_client_that_goes_while_its_filters_end_leaves_none(make):
    world = make()
    world.kernel.turns = LoopTurns(slice_seconds=0)
    peer = await world.connected("p")
    peer.send(Subscribe(1, tuple(Subscription(f"a/{n}") for n in range(100))))
    await turns_until_answered(peer, 1)
    peer.send(Unsubscribe(2, tuple(f"a/{n}" for n in range(100))))
    await turns_until(lambda: world.kernel.bus.subscriptions < 100)
    assert world.kernel.bus.subscriptions > 0
    peer.lose()
    await world.turn()
    assert 0 == world.kernel.bus.subscriptions


async def test_a_client_that_goes_while_its_filters_begin_leaves_none(make):
    world = make()
    peer = await world.connected("p")
    peer.send(Subscribe(1, tuple(Subscription(f"a/{n}") for n in range(1_000))))
    await turns_until(lambda: world.kernel.bus.subscriptions)
    assert world.kernel.bus.subscriptions < 1_000
    peer.lose()
    await world.turn()
    assert 0 == world.kernel.bus.subscriptions


async def test_messages_on_their_way(make):
    """D57: the client would take more."""
    world = make(inflight_max=2)
    peer = await world.subscribed("a", qos=1)
    for _ in range(5):
        await world.say("a", b"x")
    first = await peer.hear()
    assert 2 == len(first)
    assert 1 == len(await peer.ask(Puback(first[0].packet_id)))


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_packet_over_the_limit(make, version):
    """D58: 2 MB unless told otherwise; judged when its length is known, 0x95, the others stay."""
    world = make()
    most = world.broker.settings.packet_bytes_max
    assert 2 * 1024 * 1024 == most
    other = await world.connected("other")
    peer = await world.connected("p", version)
    head = len(encode(Publish("a", b""), version))
    frame = encode(Publish("a", b"x" * (most - head - 2)), version)
    assert most == len(frame)
    assert [] == await peer.ask(Publish("a", b"x" * (most - head - 2)))
    peer.send_bytes(encode(Publish("a", b"x" * (most - head - 1)), version)[:6])
    answer = await peer.hear()
    expected = [Reason.PACKET_TOO_LARGE] if version == 5 else []
    assert (True, expected) == (peer.closed, [packet.reason for packet in answer])
    assert [Pingresp()] == await other.ask(Pingreq())


async def test_a_connect_over_the_limit(make):
    """D58: its version is not known yet, so there is no word for it."""
    peer = make(packet_bytes_max=256).peer()
    assert ([], True) == (await peer.ask(Connect(5, "c" * 300)), peer.closed)


# -- keep-alive ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "told", "holds"), [(0, 60, 60), (61, 60, 60), (60, None, 60), (10, None, 10)]
)
async def test_the_longest_keep_alive(make, asked, told, holds):
    """MQTT-3.2.2-21: told as Server Keep Alive, and judged by."""
    world = make(keep_alive_seconds_max=60)
    peer = world.peer()
    connack = await peer.connect("c", keep_alive_seconds=asked)
    assert told == connack.properties.get("server_keep_alive")
    await world.pass_time(holds * 1.5 - 0.1)
    assert not peer.closed
    await world.pass_time(0.2)
    assert peer.closed


@pytest.mark.parametrize("version", [3, 4])
async def test_what_cannot_be_told_is_not_asked(make, version):
    """Before MQTT 5 there is no Server Keep Alive: the client's own holds (MQTT-3.1.2-22)."""
    world = make(keep_alive_seconds_max=60)
    peer = await world.connected(version=version, keep_alive_seconds=0)
    await world.pass_time(10_000)
    assert not peer.closed


async def test_any_keep_alive_without_a_limit(make):
    connack = await make().peer().connect("c", keep_alive_seconds=0)
    assert (Connack, None) == (type(connack), connack.properties.get("server_keep_alive"))


async def test_refusals_are_told_of_whoever_it_was(make):
    """O6: a wrong password, and who finds the door closed."""
    world = make(guard=GuardSettings(connections_max=1), authenticator=Password())
    told = []
    world.kernel.listeners.clients.append(
        lambda what, caller, **facts: told.append((what, caller, facts))
    )
    await world.peer().connect("guesser", username="ann", password=b"guess")
    [peer.lose() for peer in world.peers]
    await world.peer().connect("first", username="ann", password=b"right")
    await world.peer(peer="10.0.0.9").connect("second")
    refused = [(caller, facts["code"]) for what, caller, facts in told if what == "refused"]
    assert [("ann", "guesser", "127.0.0.1"), ("anonymous", "second", "10.0.0.9")] == [
        (caller.user, caller.client_id, caller.peer) for caller, _ in refused
    ]
    codes = [code for _, code in refused]
    assert [Reason.BAD_USER_NAME_OR_PASSWORD, Reason.QUOTA_EXCEEDED] == codes
