"""The rows of the packet table that open a connection: CONNECT and CONNACK."""

from packet_row import USER, V3, Row, wire

from rowcast.mqtt.packets import Connack, Connect, Will
from rowcast.mqtt.reasons import Reason

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
