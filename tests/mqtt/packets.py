"""The packet table: every packet that the codec is proved with, as a value and as bytes.

A row is what one specification clause looks like on the wire. It feeds the round trips, the partial reads,
the comparison with another codec and the benchmark; a new packet or property needs a row here, not a test.
"""

from dataclasses import dataclass

from app.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from app.mqtt.reasons import Reason


@dataclass(frozen=True)
class Row:
    """One packet: its value, its bytes, the versions that write it so, and the clause."""

    name: str
    packet: Packet
    data: bytes
    versions: tuple[int, ...]
    clause: str
    to: str = "server"
    """The side that receives it."""
    received: Packet | None = None
    """What a connection makes of it, when that is not ``packet`` (Topic Alias)."""


def wire(*parts: str | bytes) -> bytes:
    """Join hexadecimal text and literal bytes."""
    return b"".join(bytes.fromhex(part) if isinstance(part, str) else part for part in parts)


USER = (("k", "v"), ("k", "w"))
V3 = (3, 4)
ALL = (3, 4, 5)

CONNECT = [
    Row(
        "connect 3.1",
        Connect(3, "c", True, 60),
        wire("10 0f 0006", b"MQIsdp", "03 02 003c", "0001", b"c"),
        (3,),
        "3.1, 3.1",
    ),
    Row(
        "connect 3.1 with a name over 23 characters",
        Connect(3, "a" * 24, False, 0),
        wire("10 26 0006", b"MQIsdp", "03 00 0000", "0018", b"a" * 24),
        (3,),
        "3.1, 3.1",
    ),
    Row(
        "connect 3.1 with will, user name and password",
        Connect(3, "c", False, 1, "u", b"p", Will("w", b"gone", 1, True)),
        wire(
            "10 1e 0006", b"MQIsdp", "03 ec 0001", "0001", b"c",
            "0001", b"w", "0004", b"gone", "0001", b"u", "0001", b"p",
        ),
        (3,),
        "3.1, 3.1",
    ),
    Row(
        "connect 3.1.1",
        Connect(4, "c", True, 60),
        wire("10 0d 0004", b"MQTT", "04 02 003c", "0001", b"c"),
        (4,),
        "3.1.1, 3.1",
    ),
    Row(
        "connect 3.1.1 with an empty name",
        Connect(4, "", True, 0),
        wire("10 0c 0004", b"MQTT", "04 02 0000", "0000"),
        (4,),
        "MQTT-3.1.3-6",
    ),
    Row(
        "connect 3.1.1 with everything",
        Connect(4, "c", False, 65535, "u", b"\xff\x00", Will("w/x", b"", 2, False)),
        wire(
            "10 1b 0004", b"MQTT", "04 d4 ffff", "0001", b"c",
            "0003", b"w/x", "0000", "0001", b"u", "0002", "ff00",
        ),
        (4,),
        "MQTT-3.1.2-8",
    ),
    Row(
        "connect 3.1.1 with a user name only",
        Connect(4, "c", True, 0, ""),
        wire("10 0f 0004", b"MQTT", "04 82 0000", "0001", b"c", "0000"),
        (4,),
        "MQTT-3.1.2-19",
    ),
    Row(
        "connect 5",
        Connect(5, "", True, 30),
        wire("10 0d 0004", b"MQTT", "05 02 001e", "00", "0000"),
        (5,),
        "MQTT-3.1.3-6",
    ),
    Row(
        "connect 5 that keeps its session and has no name",
        Connect(5, "", False, 30),
        wire("10 0d 0004", b"MQTT", "05 00 001e", "00", "0000"),
        (5,),
        "MQTT-3.1.3-6",
    ),
    Row(
        "connect 5 with a password only",
        Connect(5, "c", True, 0, None, b"pass"),
        wire("10 14 0004", b"MQTT", "05 42 0000", "00", "0001", b"c", "0004", b"pass"),
        (5,),
        "5, 3.1.2.9",
    ),
    Row(
        "connect 5 with every property",
        Connect(
            5,
            "c",
            True,
            10,
            properties={
                "session_expiry_interval": 0xFFFFFFFF,
                "receive_maximum": 20,
                "maximum_packet_size": 1024,
                "topic_alias_maximum": 8,
                "request_response_information": 1,
                "request_problem_information": 0,
                "user_property": USER,
            },
        ),
        wire(
            "10 30 0004", b"MQTT", "05 02 000a", "22",
            "11 ffffffff", "21 0014", "27 00000400", "22 0008", "19 01", "17 00",
            "26 0001", b"k", "0001", b"v", "26 0001", b"k", "0001", b"w",
            "0001", b"c",
        ),
        (5,),
        "5, 3.1.2.11",
    ),
    Row(
        "connect 5 with an authentication method",
        Connect(
            5,
            "c",
            True,
            0,
            properties={"authentication_method": "SCRAM", "authentication_data": b"\x00\xff"},
        ),
        wire(
            "10 1b 0004", b"MQTT", "05 02 0000", "0d",
            "15 0005", b"SCRAM", "16 0002 00ff", "0001", b"c",
        ),
        (5,),
        "5, 3.1.2.11.9",
    ),
    Row(
        "connect 5 with every property of a will",
        Connect(
            5,
            "c",
            True,
            0,
            will=Will(
                "w",
                b"gone",
                2,
                True,
                {
                    "will_delay_interval": 5,
                    "payload_format_indicator": 1,
                    "message_expiry_interval": 60,
                    "content_type": "t",
                    "response_topic": "r",
                    "correlation_data": b"d",
                    "user_property": (("k", "v"),),
                },
            ),
        ),
        wire(
            "10 37 0004", b"MQTT", "05 36 0000", "00", "0001", b"c",
            "1f", "18 00000005", "01 01", "02 0000003c", "03 0001", b"t", "08 0001", b"r",
            "09 0001", b"d", "26 0001", b"k", "0001", b"v",
            "0001", b"w", "0004", b"gone",
        ),
        (5,),
        "5, 3.1.3.2",
    ),
]  # fmt: skip

CONNACK = [
    Row("connack 3.1", Connack(), wire("20 02 00 00"), V3, "3.1, 3.2", "client"),
    Row(
        "connack 3.1.1 with a session",
        Connack(True),
        wire("20 02 01 00"),
        (4,),
        "MQTT-3.2.2-2",
        "client",
    ),
    *(
        Row(
            f"connack before 5, return code {code}",
            Connack(False, reason),
            wire("20 02 00", f"{code:02x}"),
            V3,
            "3.1.1, 3.2.2.3",
            "client",
        )
        for code, reason in (
            (1, Reason.UNSUPPORTED_PROTOCOL_VERSION),
            (2, Reason.CLIENT_IDENTIFIER_NOT_VALID),
            (3, Reason.SERVER_UNAVAILABLE),
            (4, Reason.BAD_USER_NAME_OR_PASSWORD),
            (5, Reason.NOT_AUTHORIZED),
        )
    ),
    Row("connack 5", Connack(True), wire("20 03 01 00 00"), (5,), "5, 3.2", "client"),
    Row(
        "connack 5 that refuses",
        Connack(False, Reason.BAD_USER_NAME_OR_PASSWORD, {"reason_string": "no"}),
        wire("20 08 00 86 05", "1f 0002", b"no"),
        (5,),
        "MQTT-3.2.2-6",
        "client",
    ),
    Row(
        "connack 5 with every property",
        Connack(
            False,
            Reason.SUCCESS,
            {
                "session_expiry_interval": 1,
                "receive_maximum": 65535,
                "maximum_qos": 1,
                "retain_available": 0,
                "maximum_packet_size": 4096,
                "assigned_client_identifier": "id",
                "topic_alias_maximum": 3,
                "reason_string": "ok",
                "user_property": USER,
                "wildcard_subscription_available": 0,
                "subscription_identifier_available": 0,
                "shared_subscription_available": 0,
                "server_keep_alive": 90,
                "response_information": "r",
                "server_reference": "s",
                "authentication_method": "m",
                "authentication_data": b"d",
            },
        ),
        wire(
            "20 48 00 00 45",
            "11 00000001", "21 ffff", "24 01", "25 00", "27 00001000", "12 0002", b"id",
            "22 0003", "1f 0002", b"ok", "26 0001", b"k", "0001", b"v", "26 0001", b"k", "0001",
            b"w", "28 00", "29 00", "2a 00", "13 005a", "1a 0001", b"r", "1c 0001", b"s",
            "15 0001", b"m", "16 0001", b"d",
        ),
        (5,),
        "5, 3.2.2.3",
        "client",
    ),
]  # fmt: skip

PUBLISH = [
    Row(
        "publish",
        Publish("a/b", b"hi"),
        wire("30 07 0003", b"a/b", b"hi"),
        V3,
        "MQTT-3.3.1-1",
    ),
    Row("publish without payload", Publish("a", b""), wire("30 03 0001", b"a"), V3, "3.1.1, 3.3.3"),
    Row(
        "publish retained",
        Publish("a", b"\x00\xff", retain=True),
        wire("31 05 0001", b"a", "00ff"),
        V3,
        "MQTT-3.3.1-5",
    ),
    Row(
        "publish qos 1",
        Publish("a/b", b"hi", 1, packet_id=1),
        wire("32 09 0003", b"a/b", "0001", b"hi"),
        V3,
        "MQTT-2.2.1-2",
    ),
    Row(
        "publish qos 1 again",
        Publish("a", b"", 1, True, True, 65535),
        wire("3b 05 0001", b"a", "ffff"),
        V3,
        "MQTT-3.3.1-1",
    ),
    Row(
        "publish qos 2 again",
        Publish("a", b"x", 2, False, True, 258),
        wire("3c 06 0001", b"a", "0102", b"x"),
        V3,
        "MQTT-3.3.1-1",
    ),
    Row(
        "publish of two length bytes",
        Publish("a", b"x" * 125),
        wire("30 8001 0001", b"a", b"x" * 125),
        V3,
        "5, table 2-1 of 1.5.5",
    ),
    Row(
        "publish of three length bytes",
        Publish("a", b"x" * 16_381, 1, False, False, 7),
        wire("32 828001 0001", b"a", "0007", b"x" * 16_381),
        V3,
        "5, table 2-1 of 1.5.5",
    ),
    Row(
        "publish to a topic of more than ASCII",
        Publish("Hündin/🐕", b"x"),
        wire("30 0f 000c", "48c3bc6e64696e 2f f09f9095", b"x"),
        V3,
        "MQTT-1.5.4-1",
    ),
    Row(
        "publish to a topic with a byte order mark",
        Publish("\ufeffa", b""),
        wire("30 06 0004 efbbbf", b"a"),
        V3,
        "MQTT-1.5.4-3",
    ),
    Row(
        "publish to a long topic",
        Publish("t" * 300, b""),
        wire("30 ae02 012c", b"t" * 300),
        V3,
        "5, 1.5.4",
    ),
    Row("publish to a slash", Publish("/", b""), wire("30 03 0001", b"/"), V3, "MQTT-4.7.3-1"),
    Row("publish 5", Publish("a", b"x"), wire("30 05 0001", b"a", "00", b"x"), (5,), "5, 3.3"),
    Row(
        "publish 5 qos 1",
        Publish("a", b"", 1, True, False, 9),
        wire("33 06 0001", b"a", "0009", "00"),
        (5,),
        "5, 3.3",
    ),
    Row(
        "publish 5 qos 2 again",
        Publish("a", b"xy", 2, False, True, 9),
        wire("3c 08 0001", b"a", "0009", "00", b"xy"),
        (5,),
        "5, 3.3",
    ),
    Row(
        "publish 5 of two length bytes",
        Publish("a", b"x" * 200),
        wire("30 cc01 0001", b"a", "00", b"x" * 200),
        (5,),
        "5, 1.5.5",
    ),
    Row(
        "publish 5 with every property that a client sends",
        Publish(
            "a",
            b"x",
            1,
            False,
            False,
            1,
            {
                "payload_format_indicator": 1,
                "message_expiry_interval": 300,
                "content_type": "application/json",
                "response_topic": "a/reply",
                "correlation_data": b"\x01\x02",
                "user_property": USER,
            },
        ),
        wire(
            "32 3e 0001", b"a", "0001", "37",
            "01 01", "02 0000012c", "03 0010", b"application/json", "08 0007", b"a/reply",
            "09 0002 0102", "26 0001", b"k", "0001", b"v", "26 0001", b"k", "0001", b"w", b"x",
        ),
        (5,),
        "5, 3.3.2.3",
    ),
    Row(
        "publish 5 with subscription identifiers",
        Publish("a", b"", 0, properties={"subscription_identifier": (1, 268_435_455)}),
        wire("30 0b 0001", b"a", "07", "0b 01", "0b ffffff7f"),
        (5,),
        "MQTT-3.3.4-3",
        "client",
    ),
    Row(
        "publish 5 that sets a topic alias",
        Publish("a", b"x", properties={"topic_alias": 3}),
        wire("30 08 0001", b"a", "03 23 0003", b"x"),
        (5,),
        "5, 3.3.2.3.4",
        received=Publish("a", b"x"),
    ),
    Row(
        "publish 5 that sets a topic alias and has a property",
        Publish("a", b"x", properties={"topic_alias": 65535, "content_type": "t"}),
        wire("30 0c 0001", b"a", "07 23 ffff", "03 0001", b"t", b"x"),
        (5,),
        "5, 3.3.2.3.4",
        "client",
        received=Publish("a", b"x", properties={"content_type": "t"}),
    ),
]  # fmt: skip


def _acknowledgements() -> list[Row]:
    rows = []
    for make, first, reason in (
        (Puback, "40", Reason.NO_MATCHING_SUBSCRIBERS),
        (Pubrec, "50", Reason.QUOTA_EXCEEDED),
        (Pubrel, "62", Reason.PACKET_IDENTIFIER_NOT_FOUND),
        (Pubcomp, "70", Reason.PACKET_IDENTIFIER_NOT_FOUND),
    ):
        name = make.__name__.lower()
        section = f"5, 3.{make.TYPE}.2"
        code = f"{reason:02x}"
        properties = {"reason_string": "r", "user_property": USER}
        rest = wire("1f 0001", b"r", "26 0001", b"k", "0001", b"v", "26 0001", b"k", "0001", b"w")
        rows += [
            Row(name, make(1), wire(first, "02 0001"), ALL, section),
            Row(f"{name} 65535", make(65535), wire(first, "02 ffff"), ALL, section),
            Row(
                f"{name} 5 with a reason", make(2, reason), wire(first, "03 0002", code), (5,), section
            ),
            Row(
                f"{name} 5 with every property",
                make(2, reason, properties),
                wire(first, "16 0002", code, "12", rest),
                (5,),
                section,
            ),
            Row(
                f"{name} 5 of success with a property",
                make(2, Reason.SUCCESS, {"reason_string": "r"}),
                wire(first, "08 0002 00 04", "1f 0001", b"r"),
                (5,),
                section,
            ),
        ]
    return rows


SUBSCRIBE = [
    Row(
        "subscribe",
        Subscribe(10, (Subscription("a/b", 1), Subscription("c/+/#", 2), Subscription("#", 0))),
        wire("82 14 000a", "0003", b"a/b", "01", "0005", b"c/+/#", "02", "0001", b"#", "00"),
        V3,
        "MQTT-3.8.3-2",
    ),
    Row(
        "subscribe to a filter that the broker refuses",
        Subscribe(1, (Subscription("a/#/b", 0), Subscription("", 1))),
        wire("82 0d 0001", "0005", b"a/#/b", "00", "0000", "01"),
        V3,
        "MQTT-4.7.1-1",
    ),
    Row(
        "subscribe 5 with every option",
        Subscribe(
            1,
            (
                Subscription("a", 2, True, True, 2),
                Subscription("b", 1, False, True, 1),
                Subscription("$share/g/c", 0, False, False, 0),
            ),
            {"subscription_identifier": 128, "user_property": USER},
        ),
        wire(
            "82 29 0001", "11", "0b 8001", "26 0001", b"k", "0001", b"v", "26 0001", b"k", "0001",
            b"w", "0001", b"a", "2e", "0001", b"b", "19", "000a", b"$share/g/c", "00",
        ),
        (5,),
        "5, 3.8.3.1",
    ),
    Row(
        "suback",
        Suback(10, (Reason.GRANTED_QOS_0, Reason.GRANTED_QOS_1, Reason.GRANTED_QOS_2)),
        wire("90 05 000a", "00 01 02"),
        V3,
        "MQTT-3.9.3-1",
        "client",
    ),
    Row(
        "suback that refuses",
        Suback(1, (Reason.UNSPECIFIED_ERROR,)),
        wire("90 03 0001 80"),
        V3,
        "MQTT-3.9.3-2",
        "client",
    ),
    Row(
        "suback 5",
        Suback(
            1,
            (Reason.GRANTED_QOS_2, Reason.TOPIC_FILTER_INVALID, Reason.NOT_AUTHORIZED),
            {"reason_string": "r", "user_property": USER},
        ),
        wire(
            "90 18 0001", "12", "1f 0001", b"r", "26 0001", b"k", "0001", b"v", "26 0001", b"k",
            "0001", b"w", "02 8f 87",
        ),
        (5,),
        "MQTT-3.9.3-2",
        "client",
    ),
    Row(
        "unsubscribe",
        Unsubscribe(3, ("a/b", "#")),
        wire("a2 0a 0003", "0003", b"a/b", "0001", b"#"),
        V3,
        "MQTT-3.10.3-2",
    ),
    Row(
        "unsubscribe 5",
        Unsubscribe(3, ("a",), {"user_property": USER}),
        wire(
            "a2 14 0003", "0e", "26 0001", b"k", "0001", b"v", "26 0001", b"k", "0001", b"w",
            "0001", b"a",
        ),
        (5,),
        "5, 3.10.2.1",
    ),
    Row("unsuback", Unsuback(3), wire("b0 02 0003"), V3, "MQTT-3.10.4-4", "client"),
    Row(
        "unsuback 5",
        Unsuback(3, (Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED), {"reason_string": "r"}),
        wire("b0 09 0003", "04", "1f 0001", b"r", "00 11"),
        (5,),
        "MQTT-3.11.3-2",
        "client",
    ),
]  # fmt: skip

OTHER = [
    Row("pingreq", Pingreq(), wire("c0 00"), ALL, "MQTT-3.12.4-1"),
    Row("pingresp", Pingresp(), wire("d0 00"), ALL, "5, 3.13", "client"),
    Row("disconnect", Disconnect(), wire("e0 00"), ALL, "5, 3.14"),
    Row(
        "disconnect 5 that asks for the will",
        Disconnect(Reason.DISCONNECT_WITH_WILL_MESSAGE),
        wire("e0 01 04"),
        (5,),
        "MQTT-3.1.2-8",
    ),
    Row(
        "disconnect 5 that changes the session's end",
        Disconnect(Reason.SUCCESS, {"session_expiry_interval": 7}),
        wire("e0 07 00 05", "11 00000007"),
        (5,),
        "5, 3.14.2.2.2",
    ),
    Row(
        "disconnect 5 of a server",
        Disconnect(
            Reason.USE_ANOTHER_SERVER,
            {"server_reference": "s", "reason_string": "r", "user_property": USER},
        ),
        wire(
            "e0 18 9c 16", "1c 0001", b"s", "1f 0001", b"r",
            "26 0001", b"k", "0001", b"v", "26 0001", b"k", "0001", b"w",
        ),
        (5,),
        "MQTT-3.14.2-1",
        "client",
    ),
    Row("auth 5 of success", Auth(), wire("f0 00"), (5,), "5, 3.15.2.1", "client"),
    Row(
        "auth 5",
        Auth(
            Reason.CONTINUE_AUTHENTICATION,
            {
                "authentication_method": "m",
                "authentication_data": b"\x00",
                "reason_string": "r",
                "user_property": USER,
            },
        ),
        wire(
            "f0 1c 18 1a", "15 0001", b"m", "16 0001 00", "1f 0001", b"r",
            "26 0001", b"k", "0001", b"v", "26 0001", b"k", "0001", b"w",
        ),
        (5,),
        "5, 3.15",
    ),
    Row(
        "auth 5 again",
        Auth(Reason.RE_AUTHENTICATE, {"authentication_method": "m"}),
        wire("f0 06 19 04", "15 0001", b"m"),
        (5,),
        "MQTT-4.12.1-1",
    ),
]  # fmt: skip

ROWS = [*CONNECT, *CONNACK, *PUBLISH, *_acknowledgements(), *SUBSCRIBE, *OTHER]
"""The packet table."""

CASES = [(row, version) for row in ROWS for version in row.versions]
"""Each row once for each version that writes it so."""


def case_id(value: object) -> str:
    """Name a test by its row and clause, or by its version."""
    if isinstance(value, Row):
        return f"{value.name} [{value.clause}]"
    return str(value)
