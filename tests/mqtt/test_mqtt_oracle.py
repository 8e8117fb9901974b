"""MQTT 5 as another codec reads and writes it: the package ``mqtt5`` shares no line with ours."""

import mqtt5
import pytest
from packet_row import Row
from packets import ROWS
from peers import decode

from app.mqtt.packets import Connect, Publish, Subscribe, Will

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
DEFAULTS = {"receive_maximum": 65_535}
"""What the other codec leaves out when it writes, because saying nothing means the same."""

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


@EACH
def test_it_writes_what_we_read(row):
    def spare(packet):
        properties = getattr(packet, "properties", None) or {}
        kept = {name: value for name, value in properties.items() if DEFAULTS.get(name) != value}
        return repr(packet).split("properties=")[0], kept

    assert spare(decode(theirs(row).write(), 5)) == spare(row.packet)


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
