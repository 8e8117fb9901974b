"""The packet table, both ways, in pieces and beside its neighbours (D12)."""

import pytest
from packets import CASES, ROWS, case_id
from peers import decode, peer_for

from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Pingreq, Pingresp
from rowcast.mqtt.reasons import PacketType
from rowcast.mqtt.violations import Violation
from rowcast.mqtt.wire import remaining_length, varint

EACH = pytest.mark.parametrize(("row", "version"), CASES, ids=case_id)
SHORT = pytest.mark.parametrize(
    ("row", "version"), [case for case in CASES if len(case[0].data) < 1000], ids=case_id
)


@EACH
def test_writes_the_bytes(row, version):
    assert encode(row.packet, version) == row.data


@EACH
def test_reads_the_packet(row, version):
    assert decode(row.data, version) == row.packet


@EACH
def test_a_connection_gives_the_packet(row, version):
    assert peer_for(row, version).receive(row.data) == [row.received or row.packet]


@SHORT
def test_byte_at_a_time(row, version):
    peer = peer_for(row, version)
    received = [packet for byte in row.data for packet in peer.receive(bytes((byte,)))]
    assert received == [row.received or row.packet]


@SHORT
def test_every_prefix_waits_for_the_rest(row, version):
    for size in range(len(row.data)):
        peer = peer_for(row, version)
        assert peer.receive(row.data[:size]) == []
        assert peer.receive(row.data[size:]) == [row.received or row.packet]


@SHORT
def test_every_truncation_is_refused_or_is_a_packet_of_its_own(row, version):
    """Every shorter Remaining Length, and one byte too many (D61)."""
    size, start = remaining_length(row.data, 1)
    for shorter in (*range(size), size + 1):
        body = (row.data[start:] + b"\0")[:shorter]
        received = peer_for(row, version).receive(row.data[:1] + varint(shorter) + body)
        assert len(received) == 1
        if not isinstance(received[0], Violation):
            assert decode(encode(received[0], version), version) == received[0]


@EACH
def test_the_next_packet_is_read_too(row, version):
    peer = peer_for(row, version)
    name = row.name.split()[0]
    ping = encode(Pingreq() if row.to == "server" else Pingresp(), version)
    received = peer.receive(row.data + ping)
    assert received[0] == (row.received or row.packet)
    if name == "disconnect" or peer.closed:
        return
    assert received[1:] == [Pingreq() if row.to == "server" else Pingresp()]


@EACH
def test_a_packet_known_before_is_read_the_same(row, version):
    peer = peer_for(row, version)
    if row.packet.TYPE in {PacketType.CONNECT, PacketType.CONNACK, PacketType.DISCONNECT}:
        return
    assert peer.receive(row.data * 3) == [row.received or row.packet] * 3


def test_the_table_has_every_type_and_every_version():
    assert {row.packet.TYPE for row in ROWS} == set(PacketType)
    assert {version for _, version in CASES} == {3, 4, 5}


def test_names_are_unique():
    assert len({row.name for row in ROWS}) == len(ROWS)
