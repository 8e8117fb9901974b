"""Topic Aliases towards a peer: a client that keeps so many always knows the topic (D42)."""

import mqtt5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import client
from random_packets import publishes

from amounts import amount
from rowcast.core.limits import MQTT_ALIAS_IDLE_FACTOR, MQTT_ALIASES_SENT_MAX
from rowcast.mqtt.aliases import Aliases, alias_frame, alias_parts
from rowcast.mqtt.encode import encode, publish_head_tail
from rowcast.mqtt.packets import Publish


def use(aliases, topic):
    """Send a message; return its alias and whether the topic may be left out."""
    number = aliases.find(topic)
    return (number, True) if number else (aliases.assign(topic), False)


def numbers(aliases, *topics):
    return [use(aliases, topic)[0] for topic in topics]


def test_the_first_topics_get_the_first_numbers():
    aliases = Aliases(2)
    assert [use(aliases, topic) for topic in "aabbab"] == [
        (1, False), (1, True), (2, False), (2, True), (1, True), (2, True),
    ]  # fmt: skip


@pytest.mark.parametrize(("announced", "used"), [(0, 0), (1, 1), (65_535, MQTT_ALIASES_SENT_MAX)])
def test_no_number_is_over_the_maximum(announced, used):
    """MQTT-3.1.2-26, MQTT-3.1.2-27, MQTT-3.3.2-11; and it is bounded."""
    aliases = Aliases(announced)
    given_out = numbers(aliases, *(f"t{number}" for number in range(1_000)))
    assert (aliases.maximum, max(given_out), len(aliases._known)) == (used, used, used)


def test_a_topic_more_than_there_are_numbers_takes_none_away():
    """Else, in turn, each would take the number of the one that comes next."""
    aliases = Aliases(2)
    assert numbers(aliases, *"abc" * 50) == [1, 2, 0] * 50


def test_a_number_that_is_not_used_goes_to_another_topic():
    aliases = Aliases(2)
    numbers(aliases, "a", "b")
    idle = 2 * MQTT_ALIAS_IDLE_FACTOR
    assert numbers(aliases, *"b" * idle, "c") == [2] * idle + [1]
    assert [use(aliases, "c"), use(aliases, "b"), use(aliases, "a")] == [
        (1, True), (2, True), (0, False),
    ]  # fmt: skip


def test_what_was_not_sent_is_forgotten():
    """Its number is free again, and is given to one topic only."""
    aliases = Aliases(3)
    numbers(aliases, "a", "b")
    aliases.forget("a")
    assert numbers(aliases, "c", "d", "e") == [1, 3, 0]


SIZES = [0, 1, 100, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 130, 16_370, 16_380, 16_390]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("known", [False, True])
def test_the_bytes_are_those_of_a_packet_with_the_alias(qos, size, known):
    """At every length at which the Remaining Length or the Property Length takes a byte more."""
    for given_ in (None, {"content_type": "x" * size}):
        payload = b"x" * size if given_ is None else b"p"
        shared = publish_head_tail(5, "a/b", payload, qos, True, False, given_)
        wanted = publish_head_tail(
            5, "" if known else "a/b", payload, qos, True, False,
            {"topic_alias": 7, **(given_ or {})},
        )  # fmt: skip
        assert alias_parts(shared, 7, known=known) == wanted
        if not qos:
            assert alias_frame(b"".join(shared), 7, known=known) == b"".join(wanted)


def written(packet, number, known):
    """Return a packet's bytes with an alias."""
    head, tail = publish_head_tail(
        5, packet.topic, packet.payload, packet.qos, packet.retain, packet.dup, packet.properties
    )
    if not packet.qos:
        return alias_frame(head + tail, number, known=known)
    head, tail = alias_parts((head, tail), number, known=known)
    return head + packet.packet_id.to_bytes(2, "big") + tail


@pytest.mark.slow
@settings(max_examples=amount(long=100, short=25), deadline=None)
@given(st.integers(0, 5), st.lists(publishes(5), max_size=20))
def test_a_client_gets_back_every_topic(maximum, packets):
    """MQTT 5, 3.3.2.3.4: our own client, which refuses an alias over its maximum or not set."""
    aliases, reader = Aliases(maximum), client(5)
    reader.topic_alias_maximum = maximum
    received = []
    for packet in packets:
        number, known = use(aliases, packet.topic)
        data = written(packet, number, known) if number else encode(packet, 5)
        received += reader.receive(data)
    assert received == packets


@pytest.mark.heavy
@settings(max_examples=50, deadline=None)
@given(publishes(5), st.integers(1, 65_535), st.booleans())
def test_another_codec_reads_the_same_alias(packet, number, known):
    other, _ = mqtt5.read(memoryview(written(packet, number, known)))
    assert (other.topic_alias, other.topic, bytes(other.payload)) == (
        number,
        "" if known else packet.topic,
        packet.payload,
    )


def test_a_long_topic_is_left_out():
    whole = encode(Publish("t" * 300, b"x"), 5)
    assert len(alias_frame(whole, 1, known=True)) == len(whole) - 300 + 3 - 1
