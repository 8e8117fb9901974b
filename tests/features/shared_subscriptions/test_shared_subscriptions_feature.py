"""The feature shared_subscriptions as a server has it or lacks it, also after a restart."""

import asyncio
from collections.abc import Callable

import pytest

from rowcast.mqtt.packets import Puback, Publish
from rowcast.mqtt.reasons import Reason
from rowcast.program.features import FEATURES
from serving import PATIENCE_SECONDS, application, features_without
from talking import Mqtt

OTHERS = features_without("shared_subscriptions")
KEPT = {"session_expiry_interval": 1_000}


async def talk(folder, features, call: Callable[[int], object]):
    """Run a server, and return what a conversation on its MQTT port has to say."""
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        application(folder, features=features) as running,
    ):
        return await asyncio.to_thread(call, running.mqtt_port)


@pytest.mark.parametrize("wanted", ["$share/g/a/#", "$queue/a/#"])
@pytest.mark.parametrize(
    ("version", "reason"), [(5, Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED), (4, 0x80)]
)
async def test_without_it_a_share_is_refused(tmp_path, wanted, version, reason):
    """MQTT 5, 3.2.2.3.13 and 3.9.3: CONNACK says so, too."""

    def ask(port):
        with Mqtt(port, version) as client:
            return client.connack.properties, client.subscribe(wanted).reasons

    offered, reasons = await talk(tmp_path, OTHERS, ask)
    assert [reason] == list(reasons)
    if version == 5:
        assert 0 == offered["shared_subscription_available"]


async def test_with_it_connack_is_silent(tmp_path):
    def ask(port):
        with Mqtt(port) as client:
            return client.connack.properties, client.subscribe("$share/g/a/#").reasons

    offered, reasons = await talk(tmp_path, FEATURES, ask)
    assert "shared_subscription_available" not in offered
    assert [1] == list(reasons)


def member(port, clean_start=False):
    return Mqtt(port, client_id="member", properties=KEPT, clean_start=clean_start)


def leave_one_open(port):
    """Leave a member behind that was sent a message and did not acknowledge it."""
    with member(port, clean_start=True) as client, Mqtt(port) as other:
        client.subscribe("$share/g/a/#")
        other.publish("a/1", b"1", retain=False)
        client.receive()
        client.cut()


def take(port):
    """Return what the member is given until the message that is published now."""
    heard = []
    with member(port) as client, Mqtt(port) as other:
        other.publish("a/2", b"2", retain=False)
        while b"2" not in heard:
            packet = client.receive()
            if isinstance(packet, Publish):
                heard.append(packet.payload)
                client.send(Puback(packet.packet_id))
        return client.connack.session_present, heard


async def test_groups_are_known_again_before_their_members(tmp_path):
    """What a member has open is its own, and is not assigned again (D36)."""
    await talk(tmp_path, FEATURES, leave_one_open)
    assert (True, [b"1", b"2"]) == await talk(tmp_path, FEATURES, take)


@pytest.mark.heavy
async def test_a_session_keeps_its_share_while_the_feature_is_absent(tmp_path, caplog):
    def look(port):
        with member(port) as client:
            return client.connack.session_present

    await talk(tmp_path, FEATURES, leave_one_open)
    assert await talk(tmp_path, OTHERS, look)
    assert "the shared subscriptions of 'member' are left out" in caplog.text
    _, heard = await talk(tmp_path, FEATURES, take)
    assert b"2" == heard[-1]
