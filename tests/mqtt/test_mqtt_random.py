"""Random packets, bytes and cuts: nothing is lost and nothing but a Violation escapes (D61)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packets import ROWS
from peers import client, decode, peer_for, server
from random_packets import alone, to_client, to_server, with_version

from amounts import amount
from rowcast.mqtt.encode import encode
from rowcast.mqtt.properties import _BY_NAME
from rowcast.mqtt.violations import Violation

pytestmark = pytest.mark.slow

FEW = settings(max_examples=amount(long=150, short=37), deadline=None)
MANY = settings(max_examples=amount(long=300, short=75), deadline=None)


@FEW
@given(with_version(lambda version: to_server(version) | to_client(version) | alone(version)))
def test_any_packet_comes_back(case):
    version, packet = case
    assert decode(encode(packet, version), version) == packet


def cut(data, cuts):
    """Cut bytes at the given places."""
    ends = sorted({min(place, len(data)) for place in cuts} | {len(data)})
    start = 0
    for end in ends:
        yield data[start:end]
        start = end


@FEW
@given(
    with_version(lambda version: st.lists(to_server(version), max_size=8)),
    st.lists(st.integers(0, 600), max_size=10),
)
def test_a_server_reads_the_same_however_it_is_cut(case, cuts):
    version, packets = case
    data = b"".join(encode(packet, version) for packet in packets)
    connection = server(version)
    assert [item for piece in cut(data, cuts) for item in connection.receive(piece)] == packets


@FEW
@given(
    with_version(lambda version: st.lists(to_client(version), max_size=8)),
    st.lists(st.integers(0, 600), max_size=10),
)
def test_a_client_reads_the_same_however_it_is_cut(case, cuts):
    version, packets = case
    data = b"".join(encode(packet, version) for packet in packets)
    connection = client(version)
    assert [item for piece in cut(data, cuts) for item in connection.receive(piece)] == packets


def check_output(connection, data, cuts=()):
    """Whatever comes in, packets come out, and at most one violation, at the end."""
    received = [item for piece in cut(data, cuts) for item in connection.receive(piece)]
    assert not any(isinstance(item, Violation) for item in received[:-1])
    if received and isinstance(received[-1], Violation):
        assert connection.closed
    for item in received:
        for name in getattr(item, "properties", None) or {}:
            assert name in _BY_NAME
    return [str(item) for item in received]


@MANY
@given(
    st.sampled_from((0, 3, 4, 5)),
    st.binary(max_size=64),
    st.lists(st.integers(0, 64), max_size=4),
)
def test_random_bytes_never_raise(version, data, cuts):
    assert check_output(server(version), data) == check_output(server(version), data, cuts)


@FEW
@given(st.sampled_from((3, 4, 5)), st.binary(max_size=64))
def test_random_bytes_never_raise_in_a_client(version, data):
    check_output(client(version), data)
    check_output(client(version, connected=False), data)


@MANY
@given(
    st.sampled_from([(row, version) for row in ROWS for version in row.versions]),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), min_size=1, max_size=3),
    st.lists(st.integers(0, 80), max_size=3),
)
def test_damaged_packets_never_raise(case, changes, cuts):
    row, version = case
    data = bytearray(row.data)
    for place, value in changes:
        data[place % len(data)] = value
    whole = check_output(peer_for(row, version), bytes(data))
    assert check_output(peer_for(row, version), bytes(data), cuts) == whole


@MANY
@given(
    st.sampled_from((3, 4, 5)),
    st.binary(max_size=24),
    st.sampled_from((0x30, 0x31, 0x32, 0x33, 0x34, 0x3A, 0x3D)),
    st.integers(0, 30),
)
def test_the_quick_way_and_the_careful_way_agree(version, rest, first, size):
    """A PUBLISH whose topic is remembered is read in place; one whose topic is new is not."""
    data = bytes((first, size)) + b"\x00\x01a" + rest
    known = check_output(server(version, topics={b"a": "a"}), data)
    assert known == check_output(server(version), data)
