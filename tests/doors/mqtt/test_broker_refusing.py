"""Refusing connections with an answer (D6): little is read or kept, and not for long."""

import pytest

from mqtt_server import VERSIONS, Transport
from rowcast.core.limits import REFUSED_CONNECTIONS_MAX, REFUSED_PACKET_BYTES_MAX, REFUSED_SECONDS
from rowcast.doors.mqtt.connections.guard import Refusal
from rowcast.doors.mqtt.connections.rejections import Rejections
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connack, Connect, Pingreq, Publish, Subscribe, Subscription
from rowcast.mqtt.reasons import Reason
from virtual import VirtualLoop

FULL = Refusal(Reason.QUOTA_EXCEEDED, "the server has as many connections as it takes")


class Clock:
    """What a loop is made of here: time, no callbacks of a turn and no tasks."""

    call_soon = create_task = None


@pytest.fixture
def loop():
    return VirtualLoop(Clock())


@pytest.fixture
def refusals(loop):
    return Rejections(loop, tell_nobody)


def tell_nobody(*_):
    """Hear of a refusal."""


def refuse(refusals, refusal=FULL):
    transport = Transport()
    return refusals.refuse(transport, "10.0.0.1", refusal), transport


def answer(transport, version=5):
    return Connection("client", version=version).receive(b"".join(transport.sent))


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_is_told(refusals, version):
    """D6: 0x97 in MQTT 5, return code 3 before; then closed, after what was written."""
    refused, transport = refuse(refusals)
    refused.data_received(encode(Connect(version, "c"), version))
    (connack,) = answer(transport, version)
    reason = Reason.QUOTA_EXCEEDED if version == 5 else Reason.SERVER_UNAVAILABLE
    assert (reason, True, False) == (connack.reason, transport.closed, transport.aborted)
    if version == 5:
        assert {"reason_string": FULL.message} == connack.properties
    else:
        assert b"\x20\x02\x00\x03" == b"".join(transport.sent)


@pytest.mark.parametrize(
    ("reason", "code"),
    [(Reason.BANNED, 5), (Reason.CONNECTION_RATE_EXCEEDED, 3), (Reason.USE_ANOTHER_SERVER, 3)],
)
def test_return_codes_of_other_reasons(refusals, reason, code):
    refused, transport = refuse(refusals, Refusal(reason, "no"))
    refused.data_received(encode(Connect(4, "c"), 4))
    assert bytes((0x20, 2, 0, code)) == b"".join(transport.sent)


def test_byte_by_byte(refusals):
    """The whole CONNECT is taken first: an answer before would be lost in a reset."""
    refused, transport = refuse(refusals)
    data = encode(Connect(5, "c", username="u", password=b"p"), 5)
    for byte in data[:-1]:
        refused.data_received(bytes((byte,)))
    assert [] == transport.sent
    refused.data_received(data[-1:])
    assert [Reason.QUOTA_EXCEEDED] == [packet.reason for packet in answer(transport)]


def test_what_follows_is_ignored(refusals):
    """MQTT 5, 3.1.4: a client need not wait for CONNACK."""
    refused, transport = refuse(refusals)
    more = encode(Subscribe(1, (Subscription("#"),)), 5) + encode(Publish("a", b"x"), 5)
    refused.data_received(encode(Connect(5, "c"), 5) + more)
    refused.data_received(encode(Pingreq(), 5) + b"\xff\xff\xff\xff\xff")
    assert [Connack] == [type(packet) for packet in answer(transport)]


def test_another_version_is_told_so(refusals):
    """D9, MQTT-3.1.2-2."""
    refused, transport = refuse(refusals)
    refused.data_received(b"\x10\x0c\x00\x04MQTT\x09\x02\x00\x00\x00\x00")
    assert ([b"\x20\x03\x00\x84\x00"], True) == (transport.sent, transport.closed)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        encode(Pingreq(), 5),
        encode(Connect(5, "c" * REFUSED_PACKET_BYTES_MAX), 5)[:20],
    ],
    ids=["http", "ping", "too long"],
)
def test_anything_else_is_closed(refusals, data):
    refused, transport = refuse(refusals)
    refused.data_received(data)
    assert ([], True) == (transport.sent, transport.closed)


def test_silence_is_short(refusals, loop):
    """D6, D7: less than an accepted connection has."""
    refused, transport = refuse(refusals)
    refused.data_received(b"\x10")
    loop.advance(REFUSED_SECONDS + 0.1)
    assert transport.aborted
    refused.connection_lost(None)
    assert (0, []) == (len(refusals), loop.due())


def test_only_so_many_are_answered(refusals, loop):
    """D6: those beyond are closed at once, and there is room again when some are gone."""
    some = [refuse(refusals)[0] for _ in range(REFUSED_CONNECTIONS_MAX)]
    nobody, transport = refuse(refusals)
    assert (None, True, 1) == (nobody, transport.aborted, refusals.unanswered)
    some[0].connection_lost(None)
    assert refuse(refusals)[0] is not None
    assert REFUSED_CONNECTIONS_MAX == len(refusals) == len(loop.due())


def test_where_else_to_go(loop):
    """D46: Server Reference, only with the reasons that it is for."""
    elsewhere = Rejections(loop, tell_nobody, "other.example:1883")
    refused, transport = refuse(elsewhere, Refusal(Reason.USE_ANOTHER_SERVER, "full"))
    refused.data_received(encode(Connect(5, "c"), 5))
    (connack,) = answer(transport)
    assert "other.example:1883" == connack.properties["server_reference"]
    refused, transport = refuse(elsewhere)
    refused.data_received(encode(Connect(5, "c"), 5))
    assert "server_reference" not in answer(transport)[0].properties


@pytest.mark.parametrize(
    "asked", [{"request_problem_information": 0}, {"maximum_packet_size": 20}], ids=str
)
def test_no_more_is_said_than_is_wanted(refusals, asked):
    """MQTT-3.1.2-29, MQTT-3.2.2-19."""
    refused, transport = refuse(refusals)
    refused.data_received(encode(Connect(5, "c", properties=asked), 5))
    assert [Connack(False, Reason.QUOTA_EXCEEDED)] == answer(transport)


def test_a_full_socket_is_no_matter(refusals):
    refused, transport = refuse(refusals)
    refused.pause_writing()
    refused.resume_writing()
    assert transport.reading
