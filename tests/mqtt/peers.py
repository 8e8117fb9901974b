"""Connections that stand where a test needs them, and the plain reading of one packet."""

from rowcast.mqtt.connection import Connection
from rowcast.mqtt.decode import READERS, check_first_byte
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connack, Connect, Packet
from rowcast.mqtt.violations import Violation
from rowcast.mqtt.wire import Cursor, remaining_length


def decode(data: bytes, version: int) -> Packet:
    """Read one whole packet by itself, with no connection around it."""
    kind = check_first_byte(data[0], version)
    size, start = remaining_length(data, 1)
    cursor = Cursor(data, start, start + size)
    packet = READERS[kind](cursor, data[0] & 15, version)
    cursor.finish()
    return packet


def server(version: int = 0, method: bool = False, **options) -> Connection:
    """Return a server's connection: fresh (version 0), or with a client that was accepted."""
    connection = Connection("server", **options)
    connection.topic_alias_maximum = 65535
    if version:
        properties = {"authentication_method": "m"} if method else None
        connection.receive(encode(Connect(version, "c", properties=properties), version))
        connection.accept()
    return connection


def client(version: int, connected: bool = True, method: bool = False, **options) -> Connection:
    """Return a client's connection, fresh or accepted."""
    connection = Connection("client", version=version, authentication=method, **options)
    connection.topic_alias_maximum = 65535
    if connected:
        connection.receive(encode(Connack(), version))
    return connection


def peer_for(row, version: int) -> Connection:
    """Return a connection for which a row's packet is legal."""
    name = row.name.split()[0]
    method = name == "auth"
    if row.to == "client":
        return client(version, name != "connack", method)
    return server(0 if name == "connect" else version, method)


def breach(received: list) -> Violation:
    """Return the violation that ends a list of packets."""
    assert isinstance(received[-1], Violation), received
    return received[-1]
