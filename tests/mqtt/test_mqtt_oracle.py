"""MQTT 5 as another codec reads and writes it: the package ``mqtt5`` shares no line with ours."""

from dataclasses import replace
from random import Random

import mqtt5
import pytest
from fuzz_bytes import MUTATIONS, change, packet, varint
from hypothesis import given, settings
from packet_row import Row
from packets import ROWS
from peers import decode
from random_packets import alone, to_client, to_server

from amounts import amount
from rowcast.core.plain_value import PlainValue
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect, Disconnect, Publish, Subscribe, Will
from rowcast.mqtt.reasons import PacketType, Reason
from rowcast.mqtt.violations import Violation
from rowcast.mqtt.wire import remaining_length

THEIR_NAMES = {
    "assigned_client_identifier": "assigned_client_id",
    "maximum_packet_size": "max_packet_size",
    "maximum_qos": "max_qos",
    "reason_string": "reason_str",
    "receive_maximum": "receive_max",
    "request_problem_information": "request_problem_info",
    "request_response_information": "request_response_info",
    "response_information": "response_info",
    "subscription_identifier_available": "subscription_id_available",
    "topic_alias_maximum": "topic_alias_max",
    "user_property": "user_properties",
}
DEFAULTS = {
    "receive_maximum": 65_535,
    "request_problem_information": 1,
    "request_response_information": 0,
    "session_expiry_interval": 0,
    "topic_alias_maximum": 0,
    "payload_format_indicator": 0,
    "will_delay_interval": 0,
    "maximum_qos": 2,
    "retain_available": 1,
    "wildcard_subscription_available": 1,
    "subscription_identifier_available": 1,
    "shared_subscription_available": 1,
}
"""What the other codec leaves out when it writes, because saying nothing means the same."""
AUTH_OF_SUCCESS = bytes((0xF0, 0))

# It refuses an AUTH that leaves success out (MQTT 5, 3.15.2.1 allows it).
VERSION_5 = [row for row in ROWS if 5 in row.versions and row.name != "auth 5 of success"]
EACH = pytest.mark.parametrize("row", VERSION_5, ids=lambda row: row.name)


def theirs(row: Row):
    packet, size = mqtt5.read(memoryview(row.data))
    assert size == len(row.data)
    return packet


def plain(value: object) -> object:
    """Bring both codecs' values to one form."""
    return tuple(value) if isinstance(value, list) else value


def check_properties(properties: dict | None, other: object) -> None:
    for name, value in (properties or {}).items():
        their_name = THEIR_NAMES.get(name, name)
        if name == "subscription_identifier":
            their_name = "subscription_ids" if isinstance(value, tuple) else "subscription_id"
        assert (name, plain(getattr(other, their_name))) == (name, value)


@EACH
def test_it_reads_the_same_properties(row):
    other = theirs(row)
    check_properties(getattr(row.packet, "properties", None), other)
    will = getattr(row.packet, "will", None)
    if isinstance(will, Will):
        check_properties(will.properties, other.will)


@EACH
def test_it_reads_the_same_numbers(row):
    other = theirs(row)
    if hasattr(row.packet, "reason"):
        assert int(other.reason_code) == row.packet.reason
    if hasattr(row.packet, "reasons"):
        assert tuple(map(int, other.reason_codes)) == row.packet.reasons
    assert (getattr(other, "packet_id", 0) or 0) == getattr(row.packet, "packet_id", 0)


def without_properties(packet):
    if not isinstance(packet, PlainValue):
        return replace(packet, properties=None)
    fields = {name: getattr(packet, name) for name in packet.FIELDS}
    return type(packet)(**fields | {"properties": None})


def meaning(packet):
    """Return a packet in a form in which saying nothing and saying the default are the same."""
    properties = getattr(packet, "properties", None) or {}
    will = getattr(packet, "will", None)
    plain = without_properties(packet) if hasattr(packet, "properties") else packet
    if isinstance(will, Will):
        plain = replace(plain, will=replace(will, properties=None))
    kept = {name: value for name, value in properties.items() if DEFAULTS.get(name) != value}
    return plain, kept, meaning(will)[1] if isinstance(will, Will) else None


@EACH
def test_it_writes_what_we_read(row):
    assert meaning(decode(theirs(row).write(), 5)) == meaning(row.packet)


@pytest.mark.slow
@settings(max_examples=amount(long=300, short=75), deadline=None)
@given(to_server(5) | to_client(5) | alone(5))
def test_any_packet_comes_back_through_it(packet):
    """What we write it reads, and what it writes we read, with nothing lost on the way."""
    data = encode(packet, 5)
    unknown = isinstance(packet, Disconnect) and packet.reason is Reason.BAD_AUTHENTICATION_METHOD
    if data == AUTH_OF_SUCCESS or unknown:
        return  # the second stands in the specification's table of reasons, and not in theirs
    other, size = mqtt5.read(memoryview(data))
    assert size == len(data)
    assert meaning(decode(other.write(), 5)) == meaning(packet)


def accepted(seed):
    """Return the bytes of a damaged packet and what we make of it; None if we refuse it."""
    rng = Random(seed)
    data = change(rng, packet(rng, 5, rng.choice(list(PacketType))), rng.choice(MUTATIONS))
    try:
        size, start = remaining_length(data, 1) if len(data) > 1 else (-1, 0)
        whole = size >= 0 and start + size == len(data)
        if not whole or data == AUTH_OF_SUCCESS or varint(size) != data[1:start]:
            return None
        return data, decode(data, 5)
    except Violation:
        return None


@pytest.mark.heavy
def test_it_takes_what_we_take():
    """D61: of damaged packets none is taken here that it refuses, and both mean the same."""
    cases = [case for seed in range(6_000) if (case := accepted(seed)) is not None]
    assert len(cases) > 500
    for data, ours in cases:
        other, _ = mqtt5.read(memoryview(data))
        assert meaning(decode(other.write(), 5)) == meaning(ours)


@pytest.mark.parametrize(
    "row", [row for row in VERSION_5 if isinstance(row.packet, Publish)], ids=lambda row: row.name
)
def test_publish(row):
    other, packet = theirs(row), row.packet
    assert (other.topic, other.payload, int(other.qos), other.retain, other.duplicate) == (
        packet.topic,
        packet.payload,
        packet.qos,
        packet.retain,
        packet.dup,
    )


@pytest.mark.parametrize(
    "row", [row for row in VERSION_5 if isinstance(row.packet, Connect)], ids=lambda row: row.name
)
def test_connect(row):
    other, packet = theirs(row), row.packet
    assert (
        other.client_id,
        other.clean_start,
        other.keep_alive,
        other.username,
        other.password,
        other.will is None,
    ) == (
        packet.client_id,
        packet.clean_start,
        packet.keep_alive_seconds,
        packet.username,
        packet.password,
        packet.will is None,
    )


@pytest.mark.parametrize(
    "row", [row for row in VERSION_5 if isinstance(row.packet, Subscribe)], ids=lambda row: row.name
)
def test_subscribe(row):
    assert [
        (
            item.pattern,
            int(item.max_qos),
            item.no_local,
            item.retain_as_published,
            int(item.retain_handling),
        )
        for item in theirs(row).topic_filters
    ] == [
        (
            item.filter,
            item.qos,
            item.no_local,
            item.retain_as_published,
            item.retain_handling,
        )
        for item in row.packet.subscriptions
    ]
