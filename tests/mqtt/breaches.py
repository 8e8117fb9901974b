"""The table of breaches: bytes that the specification forbids, the reason they get, and the clause.

``peer`` says who reads them: a server that waits for CONNECT (``new``), a server or a client in
use (``server``, ``client``), either of them with extended authentication (``server auth``,
``client auth``), a server that has not accepted such a client yet (``authenticates``), or a
client that waits for CONNACK (``client new``).
"""

from dataclasses import dataclass

from packet_row import wire
from peers import client, server

from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect
from rowcast.mqtt.reasons import Reason

MALFORMED = Reason.MALFORMED_PACKET
PROTOCOL = Reason.PROTOCOL_ERROR
TOPIC = Reason.TOPIC_NAME_INVALID
ALIAS = Reason.TOPIC_ALIAS_INVALID
CLIENT_ID = Reason.CLIENT_IDENTIFIER_NOT_VALID
VERSION = Reason.UNSUPPORTED_PROTOCOL_VERSION


@dataclass(frozen=True)
class Breach:
    """One forbidden packet."""

    name: str
    peer: str
    version: int
    data: bytes
    reason: Reason
    clause: str


def reader(breach: Breach) -> Connection:
    """Return the connection that is to read a breach."""
    version = breach.version
    if breach.peer == "authenticates":
        connection = server()
        properties = {"authentication_method": "m"}
        connection.receive(encode(Connect(5, "c", properties=properties), 5))
        return connection
    make = {
        "new": server,
        "server": lambda: server(version),
        "server auth": lambda: server(version, method=True),
        "client": lambda: client(version),
        "client auth": lambda: client(version, method=True),
        "client new": lambda: client(version, connected=False),
    }
    return make[breach.peer]()


def _b(name, peer, version, data, reason, clause):
    return Breach(name, peer, version, data, reason, clause)


_M4 = wire("0004", b"MQTT", "04")
_M5 = wire("0004", b"MQTT", "05")
_M3 = wire("0006", b"MQIsdp", "03")
_ID = wire("0001", b"c")


def _connect(*parts):
    body = wire(*parts)
    return wire("10", f"{len(body):02x}", body)


def _connect5(properties, place="connect"):
    """A CONNECT of MQTT 5 with these bytes as properties, its own or its will's."""
    size = bytes((len(properties),))
    if place == "will":
        return _connect(_M5, "06 0000 00", _ID, size, properties, "0001", b"w", "0000")
    return _connect(_M5, "02 0000", size, properties, _ID)


def _publish5(properties, topic=b"a"):
    body = wire(f"{len(topic):04x}", topic, f"{len(properties):02x}", properties)
    return wire("30", f"{len(body):02x}", body)


def _connack5(properties):
    return wire("20", f"{3 + len(properties):02x}", "00 00", f"{len(properties):02x}", properties)


FIRST_BYTE = [
    _b("type 0", "new", 0, wire("00 00"), MALFORMED, "5, table 2-1"),
    _b("type 15 before the version", "new", 0, wire("f0 00"), MALFORMED, "5, table 2-1"),
    _b("type 15 in 3.1.1", "server", 4, wire("f0 00"), MALFORMED, "3.1.1, table 2.1"),
    _b("type 15 in 3.1", "server", 3, wire("f0 00"), MALFORMED, "3.1, 2.1"),
    _b("connect flags", "new", 0, wire("11"), MALFORMED, "MQTT-2.1.3-1"),
    _b("puback flags", "server", 5, wire("41"), MALFORMED, "MQTT-2.1.3-1"),
    _b("puback dup in 3.1", "server", 3, wire("48"), MALFORMED, "3.1, 2.1"),
    _b("pubrec flags", "server", 4, wire("52"), MALFORMED, "MQTT-2.2.2-2"),
    _b("pubrel flags", "server", 5, wire("60"), MALFORMED, "MQTT-3.6.1-1"),
    _b("pubrel dup", "server", 4, wire("6a 02 0001"), MALFORMED, "MQTT-3.6.1-1"),
    _b("pubcomp flags", "server", 5, wire("7f"), MALFORMED, "MQTT-2.1.3-1"),
    _b("subscribe flags", "server", 5, wire("80"), MALFORMED, "MQTT-3.8.1-1"),
    _b("subscribe flags before 5", "server", 4, wire("80"), MALFORMED, "MQTT-3.8.1-1"),
    _b("subscribe dup", "server", 5, wire("8a"), MALFORMED, "MQTT-3.8.1-1"),
    _b("unsubscribe flags", "server", 4, wire("a0"), MALFORMED, "MQTT-3.10.1-1"),
    _b("pingreq flags", "server", 4, wire("c1"), MALFORMED, "MQTT-2.2.2-2"),
    _b("disconnect flags", "server", 5, wire("e1"), MALFORMED, "MQTT-3.14.1-1"),
    _b("disconnect flags before 5", "server", 4, wire("e1"), MALFORMED, "MQTT-3.14.1-1"),
    _b("connack flags", "client new", 5, wire("21"), MALFORMED, "MQTT-2.1.3-1"),
    _b("auth flags", "server auth", 5, wire("f1"), MALFORMED, "MQTT-3.15.1-1"),
    _b("publish qos 3", "server", 4, wire("36"), MALFORMED, "MQTT-3.3.1-4"),
    _b("publish qos 3 in 5", "server", 5, wire("37 00"), MALFORMED, "MQTT-3.3.1-4"),
    _b("publish dup qos 0", "server", 4, wire("38 03 0001", b"a"), MALFORMED, "MQTT-3.3.1-2"),
    _b("publish dup qos 0 in 5", "server", 5, wire("38"), MALFORMED, "MQTT-3.3.1-2"),
]

LENGTH = [
    _b("length of five bytes", "server", 4, wire("30 ffffffff01"), MALFORMED, "5, 1.5.5"),
    _b("length of five bytes, early", "server", 5, wire("30 80808080"), MALFORMED, "5, 1.5.5"),
    _b("padded length", "server", 5, wire("c0 8000"), MALFORMED, "MQTT-1.5.5-1"),
    _b(
        "padded length of publish",
        "server", 5, wire("30 8500 0001", b"a", "00 78"), MALFORMED, "MQTT-1.5.5-1",
    ),
    _b("padded length of connect", "new", 0,
       wire("10 8e00", _M5, "02 0000 00", _ID), MALFORMED, "MQTT-1.5.5-1"),
    _b("pingreq with a body", "server", 4, wire("c0 01 00"), MALFORMED, "5, 3.12.1"),
    _b("disconnect with a body in 3.1.1", "server", 4, wire("e0 01 00"), MALFORMED, "3.1.1, 3.14"),
    _b("pingresp with a body", "client", 5, wire("d0 01 00"), MALFORMED, "5, 3.13.1"),
    _b("packet too large", "server", 5,
       wire("30 ffffff7f"), Reason.PACKET_TOO_LARGE, "MQTT-3.2.2-15"),
    _b("packet too large in 3.1.1", "server", 4,
       wire("32 fdff7f"), Reason.PACKET_TOO_LARGE, "D58"),
    _b("connect too large", "new", 0, wire("10 ffffff7f"), Reason.PACKET_TOO_LARGE, "D58"),
]  # fmt: skip

CONNECT = [
    _b("connect empty", "new", 0, wire("10 00"), MALFORMED, "5, 3.1"),
    _b("connect short", "new", 0, _connect("0004", b"MQTT"), MALFORMED, "5, 3.1.2.2"),
    _b("connect of another protocol", "new", 0,
       _connect("0004", b"AMQP", "04 02 0000", _ID), VERSION, "MQTT-3.1.2-1"),
    _b("connect of level 6", "new", 0,
       _connect("0004", b"MQTT", "06 02 0000", _ID), VERSION, "MQTT-3.1.2-2"),
    _b("connect of level 3 by the new name", "new", 0,
       _connect("0004", b"MQTT", "03 02 0000", _ID), VERSION, "MQTT-3.1.2-2"),
    _b("connect of level 4 by the old name", "new", 0,
       _connect("0006", b"MQIsdp", "04 02 0000", _ID), VERSION, "MQTT-3.1.2-2"),
    _b("connect of a bridge's level", "new", 0,
       _connect("0004", b"MQTT", "84 02 0000", _ID), VERSION, "MQTT-3.1.2-2"),
    _b("connect reserved flag", "new", 0, _connect(_M4, "03 0000", _ID), MALFORMED, "MQTT-3.1.2-3"),
    _b("connect reserved flag in 5", "new", 0,
       _connect(_M5, "03 0000 00", _ID), MALFORMED, "MQTT-3.1.2-3"),
    _b("connect will qos 3", "new", 0,
       _connect(_M4, "1e 0000", _ID, "0001", b"w", "0000"), MALFORMED, "MQTT-3.1.2-12"),
    _b("connect will qos without will", "new", 0,
       _connect(_M4, "0a 0000", _ID), MALFORMED, "MQTT-3.1.2-11"),
    _b("connect will retain without will", "new", 0,
       _connect(_M5, "22 0000 00", _ID), MALFORMED, "MQTT-3.1.2-13"),
    _b("connect password without user name", "new", 0,
       _connect(_M4, "42 0000", _ID, "0000"), MALFORMED, "MQTT-3.1.2-22"),
    _b("connect password without user name in 3.1", "new", 0,
       _connect(_M3, "42 0000", _ID, "0000"), MALFORMED, "3.1, 3.1"),
    _b("connect 3.1 without name", "new", 0,
       _connect(_M3, "02 0000", "0000"), CLIENT_ID, "3.1, 3.1"),
    _b("connect 3.1.1 without name or clean session", "new", 0,
       _connect(_M4, "00 0000", "0000"), CLIENT_ID, "MQTT-3.1.3-8"),
    _b("connect without the will that is promised", "new", 0,
       _connect(_M4, "06 0000", _ID), MALFORMED, "MQTT-3.1.2-9"),
    _b("connect without the user name that is promised", "new", 0,
       _connect(_M4, "82 0000", _ID), MALFORMED, "MQTT-3.1.2-19"),
    _b("connect with a user name that is not promised", "new", 0,
       _connect(_M4, "02 0000", _ID, "0001", b"u"), MALFORMED, "MQTT-3.1.2-18"),
    _b("connect without the password that is promised", "new", 0,
       _connect(_M4, "c2 0000", _ID, "0001", b"u"), MALFORMED, "MQTT-3.1.2-21"),
    _b("connect with a password that is not promised", "new", 0,
       _connect(_M4, "82 0000", _ID, "0001", b"u", "0001", b"p"), MALFORMED, "MQTT-3.1.2-20"),
    _b("connect will topic is not utf-8", "new", 0,
       _connect(_M4, "06 0000", _ID, "0001 ff", "0000"), MALFORMED, "MQTT-3.1.3-10"),
    _b("connect will topic with a wildcard", "new", 0,
       _connect(_M4, "06 0000", _ID, "0001", b"#", "0000"), TOPIC, "MQTT-4.7.1-1"),
    _b("connect will topic empty", "new", 0,
       _connect(_M5, "06 0000 00", _ID, "00", "0000", "0000"), TOPIC, "MQTT-4.7.3-1"),
    _b("connect name is not utf-8", "new", 0,
       _connect(_M4, "02 0000", "0001 ff"), MALFORMED, "MQTT-1.5.4-1"),
    _b("connect name with a surrogate", "new", 0,
       _connect(_M5, "02 0000 00", "0003 eda080"), MALFORMED, "MQTT-1.5.4-1"),
    _b("connect name with NUL", "new", 0,
       _connect(_M4, "02 0000", "0003 610062"), MALFORMED, "MQTT-1.5.4-2"),
    _b("connect user name is not utf-8", "new", 0,
       _connect(_M4, "82 0000", _ID, "0002 c328"), MALFORMED, "MQTT-3.1.3-11"),
    _b("connect authentication data without method", "new", 0,
       _connect5(wire("16 0001 00")), PROTOCOL, "5, 3.1.2.11.10"),
    _b("connect a second time", "server", 4,
       _connect(_M4, "02 0000", _ID), PROTOCOL, "MQTT-3.1.0-2"),
    _b("connect a second time in 5", "server", 5, wire("10"), PROTOCOL, "MQTT-3.1.0-2"),
]  # fmt: skip

PROPERTIES = [
    _b("property unknown", "new", 0, _connect5(wire("7f 00")), MALFORMED, "5, 2.2.2.2"),
    _b("property unknown of two bytes", "server", 5,
       _publish5(wire("8101 00")), MALFORMED, "5, 2.2.2.2"),
    _b("property identifier padded", "server", 5,
       _publish5(wire("8100 00")), MALFORMED, "MQTT-1.5.5-1"),
    _b("property of another packet", "new", 0, _connect5(wire("23 0001")), MALFORMED, "5, 2.2.2.2"),
    _b("property of the will on connect", "new", 0,
       _connect5(wire("18 00000001")), MALFORMED, "5, 2.2.2.2"),
    _b("property of connect on the will", "new", 0,
       _connect5(wire("11 00000001"), "will"), MALFORMED, "5, 2.2.2.2"),
    _b("property twice", "new", 0,
       _connect5(wire("11 00000001", "11 00000001")), PROTOCOL, "5, 3.1.2.11.2"),
    _b("property twice on publish", "server", 5,
       _publish5(wire("01 01 01 01")), PROTOCOL, "5, 3.3.2.3.2"),
    _b("receive maximum 0", "new", 0, _connect5(wire("21 0000")), PROTOCOL, "5, 3.1.2.11.3"),
    _b("maximum packet size 0", "new", 0,
       _connect5(wire("27 00000000")), PROTOCOL, "5, 3.1.2.11.4"),
    _b("request response information 2", "new", 0,
       _connect5(wire("19 02")), PROTOCOL, "5, 3.1.2.11.6"),
    _b("request problem information 2", "new", 0,
       _connect5(wire("17 02")), PROTOCOL, "5, 3.1.2.11.7"),
    _b("payload format indicator 2", "server", 5,
       _publish5(wire("01 02")), PROTOCOL, "5, 3.3.2.3.2"),
    _b("payload format indicator 2 on the will", "new", 0,
       _connect5(wire("01 02"), "will"), PROTOCOL, "5, 3.1.3.2.3"),
    _b("maximum qos 2", "client new", 5, _connack5(wire("24 02")), PROTOCOL, "5, 3.2.2.3.4"),
    _b("retain available 2", "client new", 5, _connack5(wire("25 02")), PROTOCOL, "5, 3.2.2.3.5"),
    _b("receive maximum 0 on connack", "client new", 5,
       _connack5(wire("21 0000")), PROTOCOL, "5, 3.2.2.3.3"),
    _b("topic alias 0", "server", 5, _publish5(wire("23 0000")), ALIAS, "MQTT-3.3.2-8"),
    _b("topic alias without topic", "server", 5,
       _publish5(wire("23 0001"), b""), PROTOCOL, "5, 3.3.4"),
    _b("response topic with a wildcard", "server", 5,
       _publish5(wire("08 0001", b"#")), PROTOCOL, "MQTT-3.3.2-14"),
    _b("response topic empty", "server", 5, _publish5(wire("08 0000")), PROTOCOL, "MQTT-4.7.3-1"),
    _b("response topic is not utf-8", "server", 5,
       _publish5(wire("08 0001 ff")), MALFORMED, "MQTT-3.3.2-13"),
    _b("content type is not utf-8", "server", 5,
       _publish5(wire("03 0001 ff")), MALFORMED, "MQTT-3.3.2-19"),
    _b("user property is not utf-8", "server", 5,
       _publish5(wire("26 0001", b"k", "0001 80")), MALFORMED, "MQTT-1.5.7-1"),
    _b("user property without value", "server", 5,
       wire("30 07 0001", b"a", "03 26 0001"), MALFORMED, "MQTT-1.5.7-1"),
    _b("property length over the packet", "server", 5,
       wire("30 04 0001", b"a", "05"), MALFORMED, "5, 2.2.2.1"),
    _b("property length padded", "server", 5,
       wire("30 05 0001", b"a", "8000"), MALFORMED, "MQTT-1.5.5-1"),
    _b("property length of five bytes", "server", 5,
       wire("30 08 0001", b"a", "8080808001"), MALFORMED, "5, 1.5.5"),
    _b("property over the property length", "server", 5,
       wire("30 08 0001", b"a", "02 02 000000"), MALFORMED, "5, 2.2.2.1"),
    _b("property over the property length but within the packet", "server", 5,
       wire("30 0a 0001", b"a", "02 02 00000001", b"x"), MALFORMED, "5, 2.2.2.1"),
    _b("subscription identifier 0", "server", 5,
       wire("82 09 0001 02 0b 00 0001", b"a", "00"), PROTOCOL, "5, 3.8.2.1.2"),
    _b("subscription identifier twice", "server", 5,
       wire("82 0b 0001 04 0b 01 0b 02 0001", b"a", "00"), PROTOCOL, "5, 3.8.2.1.2"),
    _b("subscription identifier of a client", "server", 5,
       _publish5(wire("0b 01")), PROTOCOL, "MQTT-3.3.4-6"),
]  # fmt: skip

PUBLISH = [
    _b("publish empty", "server", 4, wire("30 00"), MALFORMED, "5, 3.3.2"),
    _b("publish short", "server", 4, wire("30 01 00"), MALFORMED, "5, 3.3.2"),
    _b("publish topic over the packet", "server", 4,
       wire("30 04 0005", b"ab"), MALFORMED, "5, 3.3.2.1"),
    _b("publish without topic", "server", 4, wire("30 02 0000"), PROTOCOL, "MQTT-4.7.3-1"),
    _b("publish without topic and alias", "server", 5,
       wire("30 03 0000 00"), PROTOCOL, "5, 3.3.2.1"),
    _b("publish to #", "server", 4, wire("30 05 0003", b"a/#"), TOPIC, "MQTT-3.3.2-2"),
    _b("publish to +", "server", 5, wire("30 04 0001", b"+", "00"), TOPIC, "MQTT-3.3.2-2"),
    _b("publish to 129 levels", "server", 4, wire("30 8201 0080", b"/" * 128), TOPIC, "D13"),
    _b("publish topic is not utf-8", "server", 4,
       wire("30 04 0002 c3 28"), MALFORMED, "MQTT-3.3.2-1"),
    _b("publish topic with a surrogate", "server", 5,
       wire("30 06 0003 edbfbf 00"), MALFORMED, "MQTT-1.5.4-1"),
    _b("publish topic overlong", "server", 5,
       wire("30 05 0002 c0af 00"), MALFORMED, "MQTT-1.5.4-1"),
    _b("publish topic with NUL", "server", 4, wire("30 05 0003 610061"), MALFORMED, "MQTT-1.5.4-2"),
    _b("publish packet id 0", "server", 4,
       wire("32 05 0001", b"a", "0000"), MALFORMED, "MQTT-2.3.1-1"),
    _b("publish packet id 0 in 5", "server", 5,
       wire("34 06 0001", b"a", "0000 00"), MALFORMED, "MQTT-2.2.1-3"),
    _b("publish without packet id", "server", 4,
       wire("32 03 0001", b"a"), MALFORMED, "MQTT-2.3.1-1"),
    _b("publish with half a packet id", "server", 4,
       wire("32 04 0001", b"a", "00"), MALFORMED, "MQTT-2.3.1-1"),
    _b("publish 5 without property length", "server", 5,
       wire("30 03 0001", b"a"), MALFORMED, "5, 3.3.2.3.1"),
    _b("publish before connect", "new", 0, wire("30"), PROTOCOL, "MQTT-3.1.0-1"),
    _b("publish before connack", "client new", 4, wire("30"), PROTOCOL, "MQTT-3.2.0-1"),
]  # fmt: skip

ACKNOWLEDGEMENTS = [
    _b("puback empty", "server", 5, wire("40 00"), MALFORMED, "5, 3.4.2"),
    _b("puback short", "server", 4, wire("40 01 00"), MALFORMED, "3.1.1, 3.4.2"),
    _b("puback packet id 0", "server", 4, wire("40 02 0000"), MALFORMED, "MQTT-2.2.1-3"),
    _b("puback long in 3.1.1", "server", 4, wire("40 03 0001 00"), MALFORMED, "3.1.1, 3.4.1"),
    _b("puback reason", "server", 5, wire("40 03 0001 01"), PROTOCOL, "MQTT-3.4.2-1"),
    _b("puback property", "server", 5, wire("40 06 0001 00 02 01 00"), MALFORMED, "5, 3.4.2.2"),
    _b("puback after its properties", "server", 5,
       wire("40 05 0001 00 00 00"), MALFORMED, "5, 3.4.2.2"),
    _b("pubrec reason", "client", 5, wire("50 03 0001 92"), PROTOCOL, "MQTT-3.5.2-1"),
    _b("pubrel reason", "server", 5, wire("62 03 0001 10"), PROTOCOL, "MQTT-3.6.2-1"),
    _b("pubrel packet id 0", "server", 5, wire("62 02 0000"), MALFORMED, "MQTT-2.2.1-3"),
    _b("pubcomp reason", "client", 5, wire("70 03 0001 80"), PROTOCOL, "MQTT-3.7.2-1"),
    _b("pubcomp reason string twice", "client", 5,
       wire("70 0a 0001 00 06 1f 0000 1f 0000"), PROTOCOL, "5, 3.7.2.2.2"),
]  # fmt: skip

SUBSCRIBE = [
    _b("subscribe without filter", "server", 4, wire("82 02 0001"), PROTOCOL, "MQTT-3.8.3-2"),
    _b("subscribe without filter in 5", "server", 5,
       wire("82 03 0001 00"), PROTOCOL, "MQTT-3.8.3-2"),
    _b("subscribe packet id 0", "server", 4,
       wire("82 06 0000 0001", b"a", "00"), MALFORMED, "MQTT-2.3.1-1"),
    _b("subscribe qos 3", "server", 4,
       wire("82 06 0001 0001", b"a", "03"), PROTOCOL, "MQTT-3-8.3-4"),
    _b("subscribe qos 3 in 5", "server", 5,
       wire("82 07 0001 00 0001", b"a", "03"), PROTOCOL, "5, 3.8.3.1"),
    _b("subscribe reserved bits", "server", 4,
       wire("82 06 0001 0001", b"a", "04"), MALFORMED, "MQTT-3-8.3-4"),
    _b("subscribe reserved bits in 5", "server", 5,
       wire("82 07 0001 00 0001", b"a", "40"), MALFORMED, "MQTT-3.8.3-5"),
    _b("subscribe retain handling 3", "server", 5,
       wire("82 07 0001 00 0001", b"a", "30"), PROTOCOL, "5, 3.8.3.1"),
    _b("subscribe no local to a share", "server", 5,
       wire("82 10 0001 00 000a", b"$share/g/a", "04"), PROTOCOL, "MQTT-3.8.3-4"),
    _b("subscribe without options", "server", 4,
       wire("82 05 0001 0001", b"a"), MALFORMED, "5, 3.8.3"),
    _b("subscribe filter is not utf-8", "server", 5,
       wire("82 07 0001 00 0001 ff 00"), MALFORMED, "MQTT-3.8.3-1"),
    _b("subscribe filter with NUL", "server", 4,
       wire("82 06 0001 0001 00 00"), MALFORMED, "MQTT-1.5.4-2"),
    _b("suback empty", "client", 4, wire("90 02 0001"), PROTOCOL, "MQTT-3.9.3-1"),
    _b("suback code", "client", 4, wire("90 03 0001 03"), PROTOCOL, "MQTT-3.9.3-2"),
    _b("suback code of 5 in 3.1.1", "client", 4, wire("90 03 0001 87"), PROTOCOL, "MQTT-3.9.3-2"),
    _b("suback reason", "client", 5, wire("90 04 0001 00 11"), PROTOCOL, "MQTT-3.9.3-2"),
    _b("unsubscribe without filter", "server", 4, wire("a2 02 0001"), PROTOCOL, "MQTT-3.10.3-2"),
    _b("unsubscribe packet id 0", "server", 5,
       wire("a2 06 0000 00 0001", b"a"), MALFORMED, "MQTT-2.2.1-3"),
    _b("unsubscribe filter is not utf-8", "server", 4,
       wire("a2 05 0001 0001 80"), MALFORMED, "MQTT-3.10.3-1"),
    _b("unsuback reason", "client", 5, wire("b0 04 0001 00 01"), PROTOCOL, "MQTT-3.11.3-2"),
    _b("unsuback without reasons", "client", 5, wire("b0 03 0001 00"), PROTOCOL, "MQTT-3.11.3-1"),
    _b("unsuback with reasons in 3.1.1", "client", 4,
       wire("b0 03 0001 00"), MALFORMED, "3.1.1, 3.11"),
]  # fmt: skip

OTHER = [
    _b("connack flags byte", "client new", 5, wire("20 03 02 00 00"), MALFORMED, "MQTT-3.2.2-1"),
    _b("connack session of a refusal", "client new", 4,
       wire("20 02 01 05"), PROTOCOL, "MQTT-3.2.2-4"),
    _b("connack session of a refusal in 5", "client new", 5,
       wire("20 03 01 87 00"), PROTOCOL, "MQTT-3.2.2-6"),
    _b("connack return code", "client new", 4, wire("20 02 00 06"), MALFORMED, "3.1.1, table 3.1"),
    _b("connack reason", "client new", 5, wire("20 03 00 01 00"), PROTOCOL, "MQTT-3.2.2-8"),
    _b("connack a second time", "client", 5, wire("20 03 00 00 00"), PROTOCOL, "MQTT-3.2.0-2"),
    _b("connack to a server", "server", 4, wire("20"), PROTOCOL, "5, table 2-1"),
    _b("suback to a server", "server", 5, wire("90"), PROTOCOL, "5, table 2-1"),
    _b("unsuback to a server", "server", 5, wire("b0"), PROTOCOL, "5, table 2-1"),
    _b("pingresp to a server", "server", 4, wire("d0"), PROTOCOL, "5, table 2-1"),
    _b("subscribe to a client", "client", 4, wire("82"), PROTOCOL, "5, table 2-1"),
    _b("pingreq to a client", "client", 5, wire("c0"), PROTOCOL, "5, table 2-1"),
    _b("disconnect to a client of 3.1.1", "client", 4, wire("e0"), PROTOCOL, "3.1.1, 3.14"),
    _b("disconnect reason", "server", 5, wire("e0 01 01"), PROTOCOL, "MQTT-3.14.2-1"),
    _b("disconnect of a server with the will", "client", 5,
       wire("e0 01 04"), PROTOCOL, "5, 3.14.2.1"),
    _b("disconnect of a server with session expiry", "client", 5,
       wire("e0 07 00 05 11 00000001"), PROTOCOL, "MQTT-3.14.2-2"),
    _b("disconnect of a client with a server reference", "server", 5,
       wire("e0 05 00 03 1c 0000"), PROTOCOL, "5, 3.14.2.2.5"),
    _b("auth without method in connect", "server", 5, wire("f0"), PROTOCOL, "MQTT-4.12.0-7"),
    _b("auth to a client without method", "client", 5, wire("f0"), PROTOCOL, "MQTT-4.12.0-6"),
    _b("auth reason", "server auth", 5,
       wire("f0 06 01 04 15 0001", b"m"), PROTOCOL, "MQTT-3.15.2-1"),
    _b("auth without its method", "server auth", 5, wire("f0 02 18 00"), PROTOCOL, "5, 3.15.2.2.2"),
    _b("auth with other properties only", "server auth", 5,
       wire("f0 05 18 03 1f 0000"), PROTOCOL, "5, 3.15.2.2.2"),
    _b("auth without property length", "server auth", 5,
       wire("f0 01 18"), MALFORMED, "5, 3.15.2.2.1"),
    _b("auth of success from a client", "server auth", 5, wire("f0 00"), PROTOCOL, "5, table 3-14"),
    _b("auth again from a server", "client auth", 5,
       wire("f0 06 19 04 15 0001", b"m"), PROTOCOL, "5, table 3-14"),
    _b("publish before the method is done", "authenticates", 5,
       wire("30"), PROTOCOL, "MQTT-3.1.2-30"),
    _b("pingreq before connect", "new", 0, wire("c0 00"), PROTOCOL, "MQTT-3.1.0-1"),
    _b("HTTP", "new", 0, b"GET / HTTP/1.1\r\n\r\n", MALFORMED, "MQTT-2.1.3-1"),
    _b("TLS", "new", 0, wire("16 0301 0200"), MALFORMED, "MQTT-2.1.3-1"),
]  # fmt: skip

QUOTA = [
    _b("subscribe to too many filters", "server", 4,
       wire("82 858003 0001", bytes(3 * 16_385)), Reason.QUOTA_EXCEEDED, "D61"),
    _b("unsubscribe from too many filters", "server", 4,
       wire("a2 848002 0001", bytes(2 * 16_385)), Reason.QUOTA_EXCEEDED, "D61"),
    _b("too many properties", "server", 5,
       wire("30 8ba001 0001", b"a", "85a001", wire("26 0000 0000") * 4_097),
       Reason.QUOTA_EXCEEDED, "D61"),
]  # fmt: skip

BREACHES = [
    *QUOTA,
    *FIRST_BYTE,
    *LENGTH,
    *CONNECT,
    *PROPERTIES,
    *PUBLISH,
    *ACKNOWLEDGEMENTS,
    *SUBSCRIBE,
    *OTHER,
]
"""The table of breaches."""
