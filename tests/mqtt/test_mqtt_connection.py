"""A connection: streams cut anywhere, legal moves, versions, aliases, limits."""

import pytest
from packet_row import wire
from peers import breach, client, decode, server

from rowcast.core.bounded import ClearedCache
from rowcast.mqtt.connection import LEGAL, Connection, State
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from rowcast.mqtt.reasons import PacketType, Reason
from rowcast.mqtt.violations import Violation

METHOD = {"authentication_method": "m"}


def test_every_state_has_its_legal_packets():
    assert set(LEGAL) == set(State)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_server_learns_the_version(version):
    """D9."""
    connection = server()
    assert connection.version == 0
    connection.receive(encode(Connect(version, "c"), version))
    assert connection.version == version


def test_packets_may_follow_connect_at_once():
    """MQTT 5, 3.1.4: a client need not wait for CONNACK."""
    frames = [Connect(4, "c"), Publish("a", b"x"), Pingreq()]
    connection = server()
    assert connection.receive(b"".join(encode(item, 4) for item in frames)) == frames


def test_only_auth_and_disconnect_until_the_method_is_done():
    """MQTT-3.1.2-30."""
    connection = server()
    connection.receive(encode(Connect(5, "c", properties=METHOD), 5))
    step = Auth(Reason.CONTINUE_AUTHENTICATION, METHOD)
    assert connection.receive(encode(step, 5)) == [step]
    connection.accept()
    assert connection.receive(encode(Pingreq(), 5) + encode(step, 5)) == [Pingreq(), step]


def test_accept_changes_nothing_without_a_method():
    connection = server(5)
    connection.accept()
    assert connection.state is State.SERVES


def test_authentication_of_a_client():
    connection = client(5, connected=False, method=True)
    step = Auth(Reason.CONTINUE_AUTHENTICATION, METHOD)
    frames = [step, Connack(), Auth(Reason.SUCCESS, METHOD), Pingresp()]
    assert connection.receive(b"".join(encode(item, 5) for item in frames)) == frames


def test_a_refusing_connack_ends_a_client():
    connection = client(4, connected=False)
    refusal = Connack(False, Reason.NOT_AUTHORIZED)
    assert connection.receive(encode(refusal, 4) + b"\xd0\x00") == [refusal]
    assert connection.closed


def test_nothing_counts_after_disconnect():
    """MQTT-3.14.4-1."""
    connection = server(4)
    assert connection.receive(wire("c000 e000 c000")) == [Pingreq(), Disconnect()]
    assert connection.closed
    assert connection.receive(wire("c000")) == []


def test_good_packets_before_a_breach_are_given():
    received = server(4).receive(wire("c000 3003 0001", b"a", "c100 c000"))
    assert received[:-1] == [Pingreq(), Publish("a", b"")]
    assert breach(received).reason is Reason.MALFORMED_PACKET


def test_a_chunk_cut_anywhere():
    frames = [
        Publish("a/b", b"x" * 70),
        Publish("a/b", b"y" * 200, 1, False, False, 3),
        Puback(9),
        Subscribe(5, (Subscription("a", 1),)),
        Publish("a/b", b"", 2, True, True, 4),
    ]
    chunk = b"".join(encode(item, 4) for item in frames)
    for cut in range(len(chunk) + 1):
        connection = server(4)
        assert connection.receive(chunk[:cut]) + connection.receive(chunk[cut:]) == frames


def test_a_large_packet_in_many_pieces():
    packet = Publish("a", bytes(1_000_000))
    frame = encode(packet, 4)
    connection = server(4)
    received = []
    for start in range(0, len(frame), 65_536):
        received += connection.receive(frame[start : start + 65_536])
    assert received == [packet]


def test_the_packet_limit_is_of_the_whole_packet():
    """MQTT-3.2.2-15, D58: header and all."""
    frame = encode(Publish("a", bytes(95)), 4)
    assert len(frame) == 100
    fits = server(4, packet_bytes_max=100)
    assert fits.receive(frame * 2) == [Publish("a", bytes(95))] * 2
    tight = server(4, packet_bytes_max=99)
    assert breach(tight.receive(frame)).reason is Reason.PACKET_TOO_LARGE


def test_the_packet_limit_holds_for_a_topic_seen_before():
    connection = server(4, packet_bytes_max=99)
    connection.receive(encode(Publish("a", b""), 4))
    assert breach(connection.receive(encode(Publish("a", bytes(95)), 4))).reason is (
        Reason.PACKET_TOO_LARGE
    )


def test_what_waits_is_bounded():
    """D61: never more than one packet of the allowed size."""
    connection = server(4, packet_bytes_max=1000)
    connection.receive(wire("30 e007 0001", b"a") + bytes(500))
    assert len(connection._buffer) <= 1000
    connection.receive(bytes(900))
    assert connection.closed
    assert len(connection._buffer) == 0


def test_a_padded_length_is_taken_before_5():
    """3.1.1 does not forbid it; devices that reserve four bytes for the length send it."""
    assert server(4).receive(wire("c0 808000 30 8300 0001", b"a")) == [Pingreq(), Publish("a", b"")]


@pytest.mark.parametrize(
    ("data", "packet"),
    [
        (wire("6a 02 0001"), Pubrel(1)),
        (wire("8a 06 0001 0001", b"a", "01"), Subscribe(1, (Subscription("a", 1),))),
        (wire("aa 05 0001 0001", b"a"), Unsubscribe(1, ("a",))),
        (wire("82 06 0001 0001", b"a", "f1"), Subscribe(1, (Subscription("a", 1),))),
    ],
)
def test_what_only_3_1_allows(data, packet):
    """3.1, 2.1 and 3.8: DUP on what is sent again; bits of the requested QoS that are not used."""
    assert server(3).receive(data) == [packet]


def test_3_1_does_not_use_the_flags_of_connack():
    """3.1, 3.2."""
    assert client(3, connected=False).receive(wire("20 02 ff 00")) == [Connack()]


@pytest.mark.parametrize(
    ("tail", "username", "password"),
    [(b"", None, None), (wire("0001", b"u"), "u", None), (wire("0001", b"u", "0000"), "u", b"")],
)
def test_3_1_may_leave_out_what_its_flags_promise(tail, username, password):
    """3.1, 3.1, User name flag: the remaining length takes precedence."""
    body = wire("0006", b"MQIsdp", "03 c3 0000 0001", b"c") + tail
    packet = Connect(3, "c", True, 0, username, password)
    assert server().receive(bytes((0x10, len(body))) + body) == [packet]


@pytest.mark.parametrize(
    ("data", "packet"),
    [
        (wire("40 04 0001 00 00"), Puback(1)),
        (wire("40 03 0001 00"), Puback(1)),
        (wire("e0 01 00"), Disconnect()),
        (wire("e0 02 00 00"), Disconnect()),
    ],
)
def test_longer_forms_of_5_mean_the_same(data, packet):
    """MQTT 5, 3.4.2.1 and 3.14.2.1."""
    assert server(5).receive(data) == [packet]


def test_the_longer_form_of_auth_means_the_same():
    """MQTT 5, 3.15.2.1."""
    assert client(5, method=True).receive(wire("f0 02 00 00")) == [Auth()]


def test_an_alias_stands_for_its_topic():
    """MQTT 5, 3.3.2.3.4."""
    connection = server(5)
    chunk = encode(Publish("a", b"1", properties={"topic_alias": 1}), 5)
    chunk += encode(Publish("", b"2", properties={"topic_alias": 1}), 5)
    chunk += encode(Publish("b", b"3", properties={"topic_alias": 1}), 5)
    chunk += encode(Publish("", b"4", properties={"topic_alias": 1, "content_type": "t"}), 5)
    assert connection.receive(chunk) == [
        Publish("a", b"1"),
        Publish("a", b"2"),
        Publish("b", b"3"),
        Publish("b", b"4", properties={"content_type": "t"}),
    ]


def test_an_alias_over_the_maximum():
    """MQTT-3.3.2-9, MQTT-3.3.2-10."""
    for maximum, expected in ((0, True), (4, True), (5, False)):
        connection = server(5)
        connection.topic_alias_maximum = maximum
        received = connection.receive(encode(Publish("a", b"", properties={"topic_alias": 5}), 5))
        refused = getattr(received[0], "reason", None) is Reason.TOPIC_ALIAS_INVALID
        assert refused == expected


def test_aliases_belong_to_one_connection():
    """MQTT-3.3.2-7."""
    server(5).receive(encode(Publish("a", b"", properties={"topic_alias": 1}), 5))
    received = server(5).receive(encode(Publish("", b"", properties={"topic_alias": 1}), 5))
    assert breach(received).reason is Reason.PROTOCOL_ERROR


def test_topics_are_remembered_for_all_connections():
    topics = ClearedCache(10)
    first, second = server(4, topics=topics), server(5, topics=topics)
    first.receive(encode(Publish("a/b", b""), 4))
    assert topics == {b"a/b": "a/b"}
    [packet] = second.receive(encode(Publish("a/b", b""), 5))
    assert packet.topic is topics[b"a/b"]


def test_long_topics_are_not_remembered():
    topics = ClearedCache(10)
    server(4, topics=topics).receive(encode(Publish("t" * 257, b""), 4))
    assert topics == {}


def test_remembered_topics_are_bounded():
    topics = ClearedCache(3)
    for topic in ("a", "b", "c", "new"):
        server(4, topics=topics).receive(encode(Publish(topic, b""), 4))
    assert topics == {b"new": "new"}


def test_an_empty_chunk():
    assert server(4).receive(b"") == []


def test_a_client_before_connack_with_a_method_takes_no_publish():
    connection = Connection("client", version=5, authentication=True)
    assert breach(connection.receive(wire("30"))).reason is Reason.PROTOCOL_ERROR


def test_the_sentence_names_what_is_expected():
    message = breach(server().receive(wire("30"))).message
    assert message == "PUBLISH must not be sent now: a server takes CONNECT here."


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("size", range(10))
@pytest.mark.parametrize("first", [0x30, 0x32, 0x3D])
def test_short_packets_of_a_known_topic_are_judged_alike(version, size, first):
    """The quick way, which knows the topic or not, and the careful way agree."""
    body = wire("0001", b"a", "0001", "00")[:size].ljust(size, b"x")
    frame = bytes((first, size)) + body
    known = server(version, topics={b"a": "a"}).receive(frame)
    unknown = server(version).receive(frame)
    assert [str(item) for item in known] == [str(item) for item in unknown]
    assert [str(item) for item in known] == [str(read_alone(frame, version))]


@pytest.mark.parametrize("raw", [b"a/+", b"#", b"a\0", b"\xff", b""])
def test_an_illegal_topic_is_judged_alike_and_not_remembered(raw):
    topics = ClearedCache(10)
    frame = wire("30", bytes((len(raw) + 3, 0, len(raw))), raw, b"x")
    received = server(4, topics=topics).receive(frame)
    assert [str(item) for item in received] == [str(read_alone(frame, 4))]
    assert breach(received)
    assert not topics


def read_alone(frame, version):
    """Return the packet, or the violation, that the careful reader of one packet makes of it."""
    try:
        return decode(frame, version)
    except Violation as violation:
        return violation


def test_publish_is_legal_where_a_session_is():
    states = {state for state in State if PacketType.PUBLISH in LEGAL[state]}
    assert states == {
        State.SERVES,
        State.SERVES_WITH_AUTH,
        State.USES_3,
        State.USES_5,
        State.USES_5_WITH_AUTH,
    }
