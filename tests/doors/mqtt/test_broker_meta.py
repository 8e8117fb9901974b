"""Where a message is from, in MQTT 5, for those who ask (A17)."""

import pytest

from mqtt_server import EPOCH, topics, user, users
from rowcast.core.clock import milliseconds_of
from rowcast.core.events import MESSAGE, Event
from rowcast.mqtt.reasons import Reason

META = users(("meta", "true"))
NAMES = ("_seq", "_ts", "_version", "_origin", "_client", "_op")


def told(packet):
    return {name: user(packet, name) for name in NAMES if user(packet, name) is not None}


def expected(event, kind):
    return {
        "_seq": str(event.seq), "_ts": str(milliseconds_of(event.version)), "_origin": EPOCH,
        "_version": str(event.version), "_client": event.client, "_op": kind,
    }  # fmt: skip


@pytest.mark.parametrize("where", ["connect", "subscribe"])
@pytest.mark.parametrize("topic", ["Dog/1", "home/temp"])
async def test_a17_a_client_that_asks_is_told(world, where, topic):
    """A17: of what is retained and of what comes; undeclared topics too."""
    event = await world.put(topic, b"{}", client="ann")
    peer = await world.connected(properties=META if where == "connect" else None)
    await peer.subscribe(topic, properties=META if where == "subscribe" else None)
    [kept] = peer.later
    assert expected(event, "put") == told(kept)
    after = await world.put(topic, b'{"age":1}', client="ben")
    [came] = await peer.hear()
    assert expected(after, "put") == told(came)


async def test_a17_who_does_not_ask_is_told_nothing(world):
    await world.put("home/temp", b"{}")
    peer = await world.connected()
    await peer.subscribe("home/temp")
    assert [{}] == [told(item) for item in peer.later]


async def test_a17_of_what_is_not_logged_there_is_less_to_tell(world):
    """It has no number; the publisher's own user properties stay before ours."""
    peer = await world.connected()
    await peer.subscribe("$SYS/broker/x", properties=META)
    event = Event("$SYS/broker/x", MESSAGE, b"1", client="server")
    event.properties = {"user_property": [["a", "b"]]}
    world.kernel.committer.publish_unlogged(event)
    await world.turn()
    [came] = await peer.hear()
    assert ("b", "message", None) == (user(came, "a"), user(came, "_op"), user(came, "_seq"))


async def test_a17_a_filter_may_be_without_it_and_a_wrong_word_is_refused(world):
    peer = await world.connected(properties=META)
    assert (Reason.SUCCESS,) == await peer.subscribe("Dog/+", properties=users(("meta", "false")))
    await world.put("Dog/1", b"{}")
    assert [{}] == [told(item) for item in await peer.hear()]
    for name in ("meta", "gaps", "commits"):
        reasons = await peer.subscribe("Dog/#", properties=users((name, "some")))
        assert (name, (Reason.IMPLEMENTATION_SPECIFIC_ERROR,)) == (name, reasons)


async def test_a17_a_durable_session_goes_on_with_it_after_a_kill(world):
    options = {"clean_start": False, "properties": {"session_expiry_interval": 100}}
    peer = await world.connected("d", **options)
    await peer.subscribe("Dog/+", qos=1, properties=META)
    peer.lose()
    event = await world.put("Dog/1", b"{}")
    again = await (await world.killed()).connected("d", **options)
    came = [*again.later, *await again.hear()]
    assert ["Dog/1"] == topics(came)
    assert expected(event, "put") == told(came[0])
