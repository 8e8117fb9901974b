"""Who counts as a subscriber of a topic table: sessions, however they come and go (X5, F10)."""

import pytest

from mqtt_server import Puback, Pubrec, Unsubscribe
from rowcast.core.topic_tables import TopicRoot
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.mqtt.reasons import Reason

LASTING = {"clean_start": False, "properties": {"session_expiry_interval": 60}}


def count(world, level="home"):
    return world.topic_tables.subscribers(TopicRoot(level))


async def test_a_client_that_is_lost_counts_no_more(world):
    """X5: without UNSUBSCRIBE too; wildcards never do (F29)."""
    peer = await world.connected()
    await peer.subscribe("home/a", "home/b", "home/a", "home/#")
    assert 2 == count(world)
    peer.lose()
    await world.turn()
    assert 0 == count(world)


async def test_unsubscribing_what_one_never_had_counts_nothing(world):
    """X5: never below zero."""
    peer = await world.connected()
    await peer.subscribe("home/a")
    await peer.ask(Unsubscribe(3, ("home/b", "home/a", "home/a")))
    await peer.ask(Unsubscribe(4, ("home/a",)))
    assert 0 == count(world)
    await peer.subscribe("home/a")
    assert 1 == count(world)


@pytest.mark.parametrize("filters", [("home/a",), ("$share/g/home/a",)])
async def test_a_session_that_is_away_counts_until_it_ends(world, filters):
    """X5, F31: also after a kill of the server."""
    peer = await world.connected("d", **LASTING)
    await peer.subscribe(*filters, qos=1)
    peer.lose()
    await world.turn()
    assert 1 == count(world)
    other = await world.killed()
    assert 1 == count(other)
    again = await other.connected("d", **LASTING)
    await again.subscribe(*filters, qos=0)
    assert 1 == count(other)
    again.lose()
    await other.turn()
    await other.pass_time(61)
    await other.turn()
    assert (0, None) == (count(other), other.broker.sessions.get("d"))


async def test_a_session_that_begins_anew_has_nothing_of_the_old_one(world):
    """X5: CleanStart ends it with its filters."""
    peer = await world.connected("d", **LASTING)
    await peer.subscribe("home/a", "home/b", qos=1)
    peer.lose()
    await world.turn()
    assert 2 == count(world)
    await world.connected("d")
    assert 0 == count(world)


@pytest.mark.parametrize(("qos", "answer"), [(1, Puback), (2, Pubrec)])
async def test_beyond_the_cap_a_client_loses_a_message_and_not_its_connection(world, qos, answer):
    """F32: before MQTT 5 too, where it would send that message again at once, and nothing else."""
    world.topic_tables.settings = TopicSettings(tables_max=1)
    peer = await world.connected(version=4)
    for number, topic in enumerate(("home/a", "barn/a", "home/b"), 1):
        peer.publish(topic, b"1", qos, False, number)
    answers = await peer.hear()
    assert [(answer, number) for number in (1, 2, 3)] == [
        (type(packet), packet.packet_id) for packet in answers
    ]
    assert (False, 1) == (peer.closed, world.broker.refusals)


async def test_beyond_the_cap_mqtt_5_is_told_why(world):
    """F32."""
    world.topic_tables.settings = TopicSettings(tables_max=1)
    peer = await world.connected()
    peer.publish("home/a", b"1", 1, False, 1)
    peer.publish("barn/a", b"1", 1, False, 2)
    refused = (await peer.hear())[-1]
    assert (2, Reason.QUOTA_EXCEEDED) == (refused.packet_id, refused.reason)
    assert "topics.max_tables" in refused.properties["reason_string"]
