"""Rewritten topics, subscriptions at connect, exclusive ones: through whole clients (D53, D54)."""

import pytest

from mqtt_server import (
    VERSIONS,
    Connect,
    MqttServer,
    Publish,
    Subscription,
    Unsuback,
    Unsubscribe,
    payloads,
    topics,
)
from rowcast.core.errors import Code, Error
from rowcast.doors.mqtt.packets.rewrite import AutoSubscriptions, Rewriting, make_rule
from rowcast.mqtt.packets import Puback, Pubrec, Will
from rowcast.mqtt.reasons import Reason

LASTING = {"clean_start": False, "properties": {"session_expiry_interval": 3600}}
REWRITING = Rewriting(
    (
        make_rule("publish", "up/#", "^up/(.+)$", "from/${clientid}/$1"),
        make_rule("subscribe", "down/#", "^down/(.+)$", "to/${clientid}/$1"),
        make_rule("all", "old/#", "^old/(.*)$", "new/$1"),
        make_rule("all", "bad/#", "^bad/(.*)$", "$1"),
    )
)


@pytest.fixture
async def rewriting():
    world = MqttServer(rewriting=REWRITING)
    yield world
    for peer in world.peers:
        peer.lose()
    await world.stop()
    await world.turn()


# -- rewriting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_publish_goes_elsewhere(rewriting, version, qos):
    """D54."""
    watcher = await rewriting.subscribed("#")
    peer = await rewriting.connected("device-1", version)
    peer.publish("up/temperature", b"20", qos)
    peer.publish("other", b"", qos, packet_id=2)
    assert ["from/device-1/temperature", "other"] == topics(await watcher.hear())


async def test_a_record_is_written_elsewhere(rewriting):
    """D54, D49."""
    peer = await rewriting.connected("c")
    peer.publish("old/1", b"x", 1, retain=True)
    await peer.hear()
    reader = await rewriting.subscribed("#", client_id="r")
    assert ["new/1"] == topics(reader.later)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_subscription_means_another_topic(rewriting, version):
    """D54: what is delivered has its real topic, and UNSUBSCRIBE is rewritten alike."""
    peer = await rewriting.subscribed("down/#", "old/+", client_id="device-1", version=version)
    for topic in ("to/device-1/a", "to/device-2/a", "new/1", "down/a"):
        await rewriting.say(topic, b"")
    assert ["to/device-1/a", "new/1"] == topics(await peer.hear())
    (answer,) = await peer.ask(Unsubscribe(1, ("down/#", "old/+")))
    assert answer == (Unsuback(1, (Reason.SUCCESS,) * 2) if version == 5 else Unsuback(1))
    await rewriting.say("new/1", b"")
    assert [] == await peer.hear()


async def test_a_will_goes_elsewhere(rewriting):
    """D54, D31."""
    watcher = await rewriting.subscribed("#")
    peer = await rewriting.connected("device-1", will=Will("up/gone", b"bye"))
    peer.lose()
    assert ["from/device-1/gone"] == topics(await watcher.hear())


@pytest.mark.parametrize(("qos", "answer"), [(1, Puback), (2, Pubrec)])
async def test_a_topic_that_cannot_be(rewriting, qos, answer):
    """D54: what came out is checked again; only that message is refused (0x90)."""
    peer = await rewriting.connected("c")
    (heard,) = await peer.ask(Publish("bad/", b"", qos, packet_id=1))
    assert (answer, Reason.TOPIC_NAME_INVALID) == (type(heard), heard.reason)
    assert not peer.closed


@pytest.mark.parametrize("client_id", ["a/b", "+", "#"])
async def test_a_client_id_that_would_be_a_wildcard(rewriting, client_id):
    """D54: it gets nobody else's topics."""
    peer = await rewriting.connected(client_id)
    assert (Reason.TOPIC_FILTER_INVALID, 0) == await peer.subscribe("down/x", "plain")
    (heard,) = await peer.ask(Publish("up/x", b"", 1, packet_id=1))
    assert Reason.TOPIC_NAME_INVALID == heard.reason


async def test_a_will_that_cannot_be(rewriting):
    peer = rewriting.peer()
    (connack,) = await peer.ask(Connect(5, "a/b", will=Will("up/gone", b"")))
    assert (Reason.TOPIC_NAME_INVALID, True) == (connack.reason, peer.closed)


# -- subscriptions at connect ----------------------------------------------------------------------


@pytest.fixture
async def automatic():
    wanted = (
        Subscription("to/${clientid}/#", 1),
        Subscription("news", 0, retain_as_published=True),
        Subscription("$ignored/${username}"),
        Subscription("Secret/1"),
    )
    world = MqttServer(auto_subscriptions=AutoSubscriptions(wanted))
    yield world
    for peer in world.peers:
        peer.lose()
    await world.stop()
    await world.turn()


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_is_subscribed_when_it_connects(automatic, version):
    """D54: each to its own, and to what is current."""
    await automatic.put("to/c/1", b"kept")
    peer = await automatic.connected("c", version)
    await automatic.say("to/c/2", b"mine")
    await automatic.say("to/d/2", b"not mine")
    await automatic.say("news", b"for all")
    heard = await peer.hear()
    assert [b"mine", b"for all"] == payloads(heard)
    assert [1, 0] == [packet.qos for packet in heard]


async def test_a_session_that_goes_on_keeps_what_it_has(automatic):
    """D54: what it unsubscribed from stays so; a new session begins anew."""
    peer = await automatic.connected("c", **LASTING)
    await peer.ask(Unsubscribe(1, ("news",)))
    peer.lose()
    peer = await automatic.connected("c", **LASTING)
    await automatic.say("news", b"")
    await automatic.say("to/c/1", b"")
    assert ["to/c/1"] == topics(await peer.hear())
    peer.lose()
    peer = await automatic.connected("c")
    await automatic.say("news", b"")
    assert ["news"] == topics(await peer.hear())


async def test_a_name_that_cannot_stand_in_a_topic(automatic):
    """D54: the client connects, without that subscription."""
    peer = await automatic.connected("+")
    await automatic.say("to/c/1", b"")
    await automatic.say("news", b"")
    assert ["news"] == topics(await peer.hear())


# -- exclusive subscriptions -----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_one_client_at_a_time(world, version):
    """D53: 0x97 for the second one; the plain topic is everybody's."""
    first = await world.connected("first", version)
    second = await world.connected("second", version)
    assert (1,) == await first.subscribe("$exclusive/a/b", qos=1)
    refused = Reason.QUOTA_EXCEEDED if version == 5 else Reason.UNSPECIFIED_ERROR
    assert (refused,) == await second.subscribe("$exclusive/a/b")
    assert (0,) == await second.subscribe("a/b")
    second.publish("a/b", b"x", 1)
    heard = await first.hear()
    assert (["a/b"], ["a/b"]) == (topics(heard), topics(await second.hear()))


@pytest.mark.parametrize("text", ["$exclusive/a", "a"])
async def test_it_is_free_when_the_first_unsubscribes(world, text):
    """D53: with the prefix or without, it is one subscription."""
    first, second = await world.connected("first"), await world.connected("second")
    await first.subscribe("$exclusive/a")
    assert [Unsuback(1, (Reason.SUCCESS,))] == await first.ask(Unsubscribe(1, (text,)))
    assert (0,) == await second.subscribe("$exclusive/a")
    assert (Reason.QUOTA_EXCEEDED,) == await first.subscribe("$exclusive/a")


async def test_it_is_free_when_the_session_ends(world):
    """D53."""
    first, second = await world.connected("first"), await world.connected("second")
    await first.subscribe("$exclusive/a", "$exclusive/b")
    first.lose()
    assert (0, 0) == await second.subscribe("$exclusive/a", "$exclusive/b")


async def test_the_newest_subscribe_counts(world):
    """D53: who asks for it again without the prefix gives it up."""
    first, second = await world.connected("first"), await world.connected("second")
    assert (0, 0, 1) == await first.subscribe("$exclusive/a", "$exclusive/a", Subscription("a", 1))
    assert (0,) == await second.subscribe("$exclusive/a")


async def test_wildcards_exclude_only_their_like(world):
    """D53: as in EMQX."""
    first, second = await world.connected("first"), await world.connected("second")
    await first.subscribe("$exclusive/a/+")
    assert (0, Reason.QUOTA_EXCEEDED) == await second.subscribe("$exclusive/a/b", "$exclusive/a/+")


@pytest.mark.parametrize("text", ["$exclusive/", "$exclusive/a/#/b"])
async def test_what_is_no_filter(world, text):
    peer = await world.connected()
    assert (Reason.TOPIC_FILTER_INVALID,) == await peer.subscribe(text)
    assert (0, False) == (len(world.broker.exclusives), peer.closed)


async def test_what_is_refused_is_not_held(world, monkeypatch):
    """D53: nobody holds what it may not read."""
    first, second = await world.connected("first"), await world.connected("second")

    def refuse(*_arguments, **_options):
        raise Error(Code.DENIED, "no")

    with monkeypatch.context() as patched:
        patched.setattr(world.kernel, "watch", refuse)
        assert (Reason.NOT_AUTHORIZED,) == await first.subscribe("$exclusive/a")
    assert (0,) == await second.subscribe("$exclusive/a")


async def test_it_is_held_while_the_client_is_away(world):
    """D53, D27: over the connection, and over the server."""
    first = await world.connected("first", **LASTING)
    await first.subscribe("$exclusive/a", "$exclusive/b")
    await first.ask(Unsubscribe(1, ("$exclusive/b",)))
    first.lose()
    second = await world.connected("second")
    assert (Reason.QUOTA_EXCEEDED, 0) == await second.subscribe("$exclusive/a", "$exclusive/b")
    later = await world.killed(0)
    second = await later.connected("second")
    assert (Reason.QUOTA_EXCEEDED, 0) == await second.subscribe("$exclusive/a", "$exclusive/b")
    await later.pass_time(3601)
    assert (0,) == await second.subscribe("$exclusive/a")
