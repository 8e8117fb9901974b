"""Writing: what a version cannot say, what does not fit, and the halves of a PUBLISH."""

import pytest
from packet_row import wire
from packets import CASES, case_id
from peers import decode

from rowcast.core.errors import Code, Error
from rowcast.mqtt.encode import encode, publish_head_tail
from rowcast.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
)
from rowcast.mqtt.properties import PROPERTIES, WILL, write_properties
from rowcast.mqtt.reasons import REASONS, PacketType, Reason, return_code
from rowcast.mqtt.wire import Cursor, varint

PUBLISHES = [case for case in CASES if isinstance(case[0].packet, Publish)]


@pytest.mark.parametrize(("row", "version"), PUBLISHES, ids=case_id)
def test_head_and_tail(row, version):
    packet = row.packet
    head, tail = publish_head_tail(
        version,
        packet.topic,
        packet.payload,
        packet.qos,
        packet.retain,
        packet.dup,
        packet.properties,
    )
    packet_id = packet.packet_id.to_bytes(2, "big") if packet.qos else b""
    assert head + packet_id + tail == row.data


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (Puback(1, Reason.NOT_AUTHORIZED, {"reason_string": "no"}), Puback(1)),
        (Publish("a", b"x", properties={"content_type": "t"}), Publish("a", b"x")),
        (Disconnect(Reason.SERVER_BUSY, {"reason_string": "r"}), Disconnect()),
        (Unsuback(1, (Reason.NO_SUBSCRIPTION_EXISTED,)), Unsuback(1)),
        (
            Suback(1, (Reason.NOT_AUTHORIZED, Reason.GRANTED_QOS_1), {"reason_string": "r"}),
            Suback(1, (Reason.UNSPECIFIED_ERROR, Reason.GRANTED_QOS_1)),
        ),
        (
            Subscribe(1, (Subscription("a", 1, True, True, 2),), {"subscription_identifier": 1}),
            Subscribe(1, (Subscription("a", 1),)),
        ),
        (
            Connack(False, Reason.BANNED, {"reason_string": "r"}),
            Connack(False, Reason.NOT_AUTHORIZED),
        ),
        (Connack(False, Reason.SERVER_BUSY), Connack(False, Reason.SERVER_UNAVAILABLE)),
    ],
)
def test_older_versions_hear_the_nearest(version, said, heard):
    assert decode(encode(said, version), version) == heard


def test_3_1_has_no_session_present():
    assert encode(Connack(True), 3) == wire("20 02 00 00")


def test_every_refusal_has_a_return_code():
    """3.1.1, table 3.1."""
    codes = {reason: return_code(reason) for reason in REASONS[PacketType.CONNACK].values()}
    assert codes[Reason.SUCCESS] == 0
    assert all(1 <= code <= 5 for reason, code in codes.items() if reason)


@pytest.mark.parametrize(
    ("packet", "code"),
    [
        (Publish("t" * 65_536, b""), Code.TOO_LARGE),
        (Publish("a\0", b""), Code.INVALID),
        (Publish("\ud800", b""), Code.INVALID),
        (Connect(4, "c", password=bytes(65_536), username="u"), Code.TOO_LARGE),
        (Puback(1, Reason.SUCCESS, {"content_type": "t"}), Code.INVALID),
        (Puback(1, Reason.SUCCESS, {"colour": "red"}), Code.INVALID),
        (Connack(properties={"receive_maximum": 0}), Code.INVALID),
        (Connack(properties={"server_keep_alive": 65_536}), Code.INVALID),
        (Publish("a", b"", properties={"subscription_identifier": (0,)}), Code.INVALID),
    ],
)
def test_what_cannot_be_written_is_refused(packet, code):
    with pytest.raises(Error) as caught:
        encode(packet, 5)
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (2_097_151, "ffff7f"),
        (2_097_152, "80808001"),
        (268_435_455, "ffffff7f"),
    ],
)
def test_variable_byte_integers(number, data):
    """MQTT 5, table 1-1."""
    raw = wire(data)
    assert varint(number) == raw
    assert Cursor(raw, 0, len(raw)).varint() == number


def test_a_number_too_great_for_the_length():
    with pytest.raises(Error) as caught:
        varint(268_435_456)
    assert caught.value.code is Code.TOO_LARGE


def test_no_properties_are_one_byte():
    assert write_properties(None, WILL) == write_properties({}, WILL) == b"\0"


def test_the_table_of_properties_is_whole():
    """MQTT 5, table 2-4."""
    assert len(PROPERTIES) == 27
    assert len({item.identifier for item in PROPERTIES}) == len({item.name for item in PROPERTIES})
