"""What the specification forbids is found, gets its reason, and ends the connection (D12)."""

import pytest
from breaches import BREACHES, Breach, reader
from packet_row import wire
from peers import breach, server

from rowcast.core.errors import Code
from rowcast.mqtt.violations import UnsupportedVersion

EACH = pytest.mark.parametrize("row", BREACHES, ids=lambda row: f"{row.name} [{row.clause}]")


@EACH
def test_reason(row: Breach):
    received = reader(row).receive(row.data)
    assert [item.reason for item in received] == [row.reason]


@EACH
def test_the_same_byte_at_a_time(row: Breach):
    peer = reader(row)
    received = [item for byte in row.data for item in peer.receive(bytes((byte,)))]
    assert [item.reason for item in received] == [row.reason]


@EACH
def test_nothing_is_taken_afterwards(row: Breach):
    peer = reader(row)
    peer.receive(row.data)
    assert peer.closed
    assert peer.receive(row.data) == []


@EACH
def test_the_sentence_is_one(row: Breach):
    violation = breach(reader(row).receive(row.data))
    assert violation.code is Code.INVALID
    assert violation.message[0].isalnum()
    assert violation.message.endswith(".")
    assert violation.__traceback__ is None


def test_names_are_unique():
    assert len({row.name for row in BREACHES}) == len(BREACHES)


def test_a_violation_shows_its_reason():
    violation = breach(server().receive(wire("00")))
    assert repr(violation).startswith("Violation(MALFORMED_PACKET, 'Packet type 0")


@pytest.mark.parametrize(
    ("name", "level", "connack"),
    [
        (b"MQTT", "06", wire("20 03 00 84 00")),
        (b"MQTT", "ff", wire("20 03 00 84 00")),
        (b"XMPP", "01", wire("20 03 00 84 00")),
        (b"MQTT", "03", wire("20 02 00 01")),
        (b"MQIsdp", "04", wire("20 02 00 01")),
        (b"MQIsdp", "05", wire("20 02 00 01")),
    ],
)
def test_an_unknown_version_is_answered_in_its_own_words(name, level, connack):
    """D9: 0x84 for the style of MQTT 5, 0x01 for the style of 3.1.1 (MQTT-3.1.2-2)."""
    body = wire(f"{len(name):04x}", name, level, "02 0000 0001", b"c")
    violation = breach(server().receive(bytes((0x10, len(body))) + body))
    assert isinstance(violation, UnsupportedVersion)
    assert violation.connack == connack
