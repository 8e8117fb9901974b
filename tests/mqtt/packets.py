"""The packet table: every packet that the codec is proved with, as a value and as bytes.

A row is what one specification clause looks like on the wire. It feeds the round trips, the
partial reads, the comparison with another codec and the benchmark; a new packet or property needs
a row here, not a test.
"""

from packet_row import ALL, USER, V3, Row, wire
from packets_opening import CONNACK, CONNECT

from rowcast.mqtt.packets import (
    Auth,
    Disconnect,
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
)
from rowcast.mqtt.reasons import Reason

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
                f"{name} 5 with a reason",
                make(2, reason),
                wire(first, "03 0002", code),
                (5,),
                section,
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
