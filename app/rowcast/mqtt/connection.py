"""One side of a connection: bytes in, whole and legal packets out.

A ``Connection`` finds packets in a stream, knows which may come now (the table ``LEGAL``), and
keeps what spans packets: the version, inbound Topic Aliases, a packet that is not yet all there.
It is the same code for a server and for a client. It must not know sockets, time or sessions;
sending, answering a violation and enforcing quotas are the owner's.

Nearly every byte of a busy server passes ``receive``, so its loop reads a PUBLISH without
properties in place: no cursor, no copy but the payload's, and a topic that was seen before is one
lookup. Everything else, and everything that looks wrong in any way, goes the careful way through
``decode``.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, Literal

from rowcast.core.bounded import ClearedCache
from rowcast.core.limits import MATCH_CACHE_TOPICS_MAX, MQTT_PACKET_BYTES_MAX
from rowcast.mqtt.decode import READERS, check_first_byte, legal_topic, read_publish
from rowcast.mqtt.packets import (
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from rowcast.mqtt.properties import Properties
from rowcast.mqtt.reasons import PacketType, Reason
from rowcast.mqtt.violations import Violation, malformed, protocol_error
from rowcast.mqtt.wire import Cursor, remaining_length

Role = Literal["server", "client"]


class State(Enum):
    """Where a connection stands, as far as it decides which packets may come in."""

    AWAITS_CONNECT = 1
    AUTHENTICATES = 2
    """A server that has not accepted a client with an Authentication Method yet."""
    SERVES = 3
    SERVES_WITH_AUTH = 4
    AWAITS_CONNACK = 5
    AWAITS_CONNACK_WITH_AUTH = 6
    USES_3 = 7
    USES_5 = 8
    USES_5_WITH_AUTH = 9
    CLOSED = 10


_T = PacketType
_BOTH_WAYS: Final = {_T.PUBLISH, _T.PUBACK, _T.PUBREC, _T.PUBREL, _T.PUBCOMP}
_TO_SERVER: Final = {*_BOTH_WAYS, _T.SUBSCRIBE, _T.UNSUBSCRIBE, _T.PINGREQ, _T.DISCONNECT}
_TO_CLIENT: Final = {*_BOTH_WAYS, _T.SUBACK, _T.UNSUBACK, _T.PINGRESP}

LEGAL: Final[dict[State, frozenset[PacketType]]] = {
    State.AWAITS_CONNECT: frozenset({_T.CONNECT}),  # MQTT-3.1.0-1
    State.AUTHENTICATES: frozenset({_T.AUTH, _T.DISCONNECT}),  # MQTT-3.1.2-30
    State.SERVES: frozenset(_TO_SERVER),  # MQTT-3.1.0-2; MQTT-4.12.0-7: no AUTH without a method
    State.SERVES_WITH_AUTH: frozenset({*_TO_SERVER, _T.AUTH}),
    State.AWAITS_CONNACK: frozenset({_T.CONNACK}),  # MQTT-3.2.0-1, MQTT-4.12.0-6
    State.AWAITS_CONNACK_WITH_AUTH: frozenset({_T.CONNACK, _T.AUTH}),
    State.USES_3: frozenset(_TO_CLIENT),
    State.USES_5: frozenset({*_TO_CLIENT, _T.DISCONNECT}),  # MQTT-3.2.0-2: one CONNACK
    State.USES_5_WITH_AUTH: frozenset({*_TO_CLIENT, _T.DISCONNECT, _T.AUTH}),
    State.CLOSED: frozenset(),  # MQTT-3.14.4-1
}
"""The packet types that may come in, by state."""

_PUBACK: Final = 0x40
_PUBREC: Final = 0x50
_PUBREL: Final = 0x62
_PUBCOMP: Final = 0x70
"""First bytes of answers that are nearly always two bytes long: success, without properties."""
_PUBLISH: Final = 1
_ANSWER: Final = 2
_KINDS: Final = bytes(
    _ANSWER
    if first in {_PUBACK, _PUBREC, _PUBREL, _PUBCOMP}
    else _PUBLISH * (first >> 4 == 3 and first & 6 != 6 and first & 14 != 8)
    for first in range(256)
)
"""By the first byte, whether it is one of these, or a legal PUBLISH (MQTT-3.3.1-2, -4)."""
_SUCCESS: Final = Reason.SUCCESS

_ONLY_SERVER_SENDS: Final[dict[PacketType, frozenset[str]]] = {
    _T.PUBLISH: frozenset({"subscription_identifier"}),  # MQTT-3.3.4-6
    _T.DISCONNECT: frozenset({"server_reference"}),  # MQTT 5, 3.14.2.2.5
}
_ONLY_CLIENT_SENDS: Final[dict[PacketType, frozenset[str]]] = {
    _T.DISCONNECT: frozenset({"session_expiry_interval"}),  # MQTT-3.14.2-2
}


def _answer(first: int, packet_id: int) -> Puback | Pubrec | Pubrel | Pubcomp:
    """Return an answer that says success; compiled, it is made without a look at its class."""
    if first == _PUBACK:
        return Puback(packet_id, _SUCCESS, None)
    if first == _PUBREC:
        return Pubrec(packet_id, _SUCCESS, None)
    if first == _PUBREL:
        return Pubrel(packet_id, _SUCCESS, None)
    return Pubcomp(packet_id, _SUCCESS, None)


class Connection:
    """Packets out of one byte stream, for the side that ``role`` names.

    ``topics`` remembers topics by their bytes and may be shared by connections. A client gives the
    version it connects with, and whether with an Authentication Method; a server learns both.
    """

    __slots__ = (
        "_aliases",
        "_buffer",
        "_last_raw",
        "_last_topic",
        "_legal",
        "_needed",
        "_plain",
        "_topics",
        "packet_bytes_max",
        "publishes",
        "rest_bytes",
        "role",
        "state",
        "topic_alias_maximum",
        "version",
    )
    _last_topic: str | None
    """That of the last plain PUBLISH, by ``_last_raw``: most often the next one has it, too."""
    _legal: frozenset[PacketType]

    def __init__(
        self,
        role: Role,
        packet_bytes_max: int = MQTT_PACKET_BYTES_MAX,
        topics: ClearedCache[bytes, str] | None = None,
        version: int = 0,
        authentication: bool = False,
    ) -> None:
        self.role = role
        self.packet_bytes_max = packet_bytes_max
        """The greatest whole packet that is taken (MQTT 5, 3.1.2.11.4)."""
        self.version = version
        """3, 4 or 5; 0 until a server has read CONNECT."""
        self.topic_alias_maximum = 0
        """The limit that the owner announced to its peer (MQTT 5, 3.1.2.11.5)."""
        self.publishes = 0
        """PUBLISH packets read, for statistics."""
        self.rest_bytes = 0
        """The bytes of their payloads; in MQTT 5 each with one more, which it begins with."""
        self._topics = ClearedCache(MATCH_CACHE_TOPICS_MAX) if topics is None else topics
        self._aliases: dict[int, str] = {}
        self._buffer, self._needed, self._plain = bytearray(), 0, False
        self._last_raw, self._last_topic = b"", None
        self.state = State.CLOSED
        if role == "server":
            self._move(State.AWAITS_CONNECT)
        elif authentication:
            self._move(State.AWAITS_CONNACK_WITH_AUTH)
        else:
            self._move(State.AWAITS_CONNACK)

    @property
    def closed(self) -> bool:
        """Whether nothing more is taken: after a violation, a DISCONNECT or a refusing CONNACK."""
        return self.state is State.CLOSED

    @property
    def held_bytes(self) -> int:
        """How many bytes wait for the rest of their packet."""
        return len(self._buffer)

    def lost(self) -> None:
        """Connection lost: free the partial packet at once."""
        self._move(State.CLOSED)

    def accept(self) -> None:
        """Note that the server has sent a CONNACK of success.

        Until then a client with an Authentication Method may send only AUTH and DISCONNECT
        (MQTT-3.1.2-30); without a method it makes no difference.
        """
        if self.state is State.AUTHENTICATES:
            self._move(State.SERVES_WITH_AUTH)

    def receive(self, data: bytes) -> list[Packet | Violation]:
        """Return the packets that are whole now, in order; a breach is the last item of all.

        Long because it is the hot path: a call for each packet would cost as much as the packet.
        """
        packets: list[Packet | Violation] = []
        if self._buffer:
            data = self._join(data)
        packet_bytes_max = self.packet_bytes_max
        plain, v5, end = self._plain, self.version == MQTT_5, len(data)
        position = publishes = rest_bytes = 0
        while position + 1 < end:
            first, size, start = data[position], data[position + 1], position + 2
            if size > 127:  # two length bytes; 0 sends all else the careful way
                second = data[start] if start < end else 0
                size = size & 127 | second << 7 if 0 < second < 128 else 0
                start += 1
            stop = start + size
            if plain and stop <= end and stop - position <= packet_bytes_max:
                kind = _KINDS[first]
                if size > 3 and kind == _PUBLISH:
                    at = start + 2 + (data[start] << 8 | data[start + 1])
                    raw = data[start + 2 : at] if at <= stop else b""
                    topic = self._last_topic if raw == self._last_raw else self._find(raw)
                    if topic is not None:
                        packet_id = 0
                        if first > 0x31 and at + 2 <= stop:
                            packet_id = data[at] << 8 | data[at + 1]
                            at += 2
                        # No properties (MQTT 5), and an identifier that is not 0 (QoS 1 and 2).
                        bare = at < stop and not data[at] if v5 else at <= stop
                        if bare and (packet_id or first < 0x32):
                            publishes += 1
                            rest_bytes += stop - at
                            body = data[at + 1 : stop] if v5 else data[at:stop]
                            qos, retain, dup = first >> 1 & 3, first & 1 == 1, first & 8 == 8
                            packets.append(Publish(topic, body, qos, retain, dup, packet_id, None))
                            position = stop
                            continue
                elif size == 2 and kind == _ANSWER:
                    packet_id = data[start] << 8 | data[start + 1]
                    if packet_id:
                        packets.append(_answer(first, packet_id))
                        position = stop
                        continue
            after = self._take(data, position, packets)
            if after < 0:
                break
            position, plain, v5 = after, self._plain, self.version == MQTT_5
        self.publishes += publishes
        self.rest_bytes += rest_bytes
        if position < end:
            self._keep(data, position, packets)
        return packets

    def _find(self, raw: bytes) -> str | None:
        """Return a legal topic by its bytes, and remember one that is not large; None: illegal."""
        topic = self._topics.get(raw)
        if topic is None:
            return legal_topic(raw, self._topics)
        self._last_raw, self._last_topic = raw, topic
        return topic

    def _join(self, data: bytes) -> bytes:
        """Return the waiting bytes and the new ones; nothing while they make no whole packet."""
        self._buffer += data
        if len(self._buffer) < self._needed:
            return b""
        joined = bytes(self._buffer)
        self._buffer.clear()
        return joined

    def _keep(self, data: bytes, position: int, packets: list[Packet | Violation]) -> None:
        """Keep the beginning of a packet until its rest comes."""
        if position + 1 == len(data):  # one byte: judge it and wait
            self._take(data, position, packets)
        if self.state is not State.CLOSED:
            self._buffer += data[position:]

    def _take(self, data: bytes, position: int, packets: list[Packet | Violation]) -> int:
        """Take one packet the careful way; return where the next begins, -1 when there is none."""
        if self.state is State.CLOSED:
            return -1
        try:
            return self._next(data, position, packets)
        except Violation as violation:
            self._move(State.CLOSED)
            packets.append(violation.with_traceback(None))  # or its frames would keep the data
            return -1

    def _next(self, data: bytes, position: int, packets: list[Packet | Violation]) -> int:
        """Append the packet that begins here; return where the next begins, -1 for none yet."""
        first = data[position]
        kind = check_first_byte(first, self.version)
        if kind not in self._legal:
            raise protocol_error(f"{kind.name} must not be sent now: {self._expectation()}.")
        size, start = remaining_length(data, position + 1)
        if size < 0:
            self._needed = 0
            return -1
        stop = start + size
        if stop - position > self.packet_bytes_max:  # MQTT-3.1.2-24, MQTT-3.2.2-15; D58
            raise Violation(
                Reason.PACKET_TOO_LARGE,
                f"A packet of {stop - position} bytes is over the limit of "
                f"{self.packet_bytes_max}; send less at once.",
            )
        if stop > len(data):
            self._needed = stop - position
            return -1
        packet = self._read(kind, first & 15, Cursor(data, start, stop))
        follow = _FOLLOW.get(kind)
        if follow is not None:
            follow(self, packet)
        if self.version == MQTT_5 and start - position > 2 and not data[start - 1]:
            raise malformed("The Remaining Length must use as few bytes as it can.")  # MQTT-1.5.5-1
        packets.append(packet)
        return -1 if self.state is State.CLOSED else stop

    def _read(self, kind: PacketType, flags: int, cursor: Cursor) -> Packet:
        """Read one packet's body, all of it."""
        if kind == PacketType.PUBLISH:
            publish = read_publish(cursor, flags, self.version, self._topics)
            self.publishes += 1
            self.rest_bytes += len(publish.payload) + (self.version == MQTT_5)
            packet: Packet = publish
        else:
            packet = READERS[kind](cursor, flags, self.version)
        cursor.finish()
        return packet

    def _expectation(self) -> str:
        names = ", ".join(sorted(kind.name for kind in self._legal))
        return f"a {self.role} takes {names} here"

    def _move(self, state: State) -> None:
        self.state = state
        self._legal = LEGAL[state]
        self._plain = PacketType.PUBLISH in self._legal
        if state is State.CLOSED:
            self._buffer.clear()

    def _on_connect(self, packet: Connect) -> None:
        self.version = packet.version
        dialogue = packet.properties and "authentication_method" in packet.properties
        self._move(State.AUTHENTICATES if dialogue else State.SERVES)

    def _on_connack(self, packet: Connack) -> None:
        if packet.reason:
            self._move(State.CLOSED)
        elif self.version != MQTT_5:
            self._move(State.USES_3)
        elif self.state is State.AWAITS_CONNACK_WITH_AUTH:
            self._move(State.USES_5_WITH_AUTH)
        else:
            self._move(State.USES_5)

    def _on_publish(self, packet: Publish) -> None:
        """Put the topic in the place of its alias (MQTT 5, 3.3.2.3.4)."""
        properties = packet.properties
        if properties is None:
            return
        self._check_sender(PacketType.PUBLISH, properties)
        alias = properties.pop("topic_alias", 0)
        if not isinstance(alias, int) or not alias:
            return
        packet.properties = properties or None
        if alias > self.topic_alias_maximum:  # MQTT-3.3.2-9, MQTT-3.3.2-10
            raise Violation(
                Reason.TOPIC_ALIAS_INVALID,
                f"The Topic Alias {alias} is over the maximum of {self.topic_alias_maximum}.",
            )
        if packet.topic:
            self._aliases[alias] = packet.topic
        elif alias in self._aliases:
            packet.topic = self._aliases[alias]
        else:  # MQTT 5, 3.3.4
            raise protocol_error(f"The Topic Alias {alias} has no topic; send the topic first.")

    def _on_disconnect(self, packet: Disconnect) -> None:
        if self.role == "client" and packet.reason == Reason.DISCONNECT_WITH_WILL_MESSAGE:
            raise protocol_error("Only a client may ask for its will (MQTT 5, 3.14.2.1).")
        self._check_sender(PacketType.DISCONNECT, packet.properties)
        self._move(State.CLOSED)

    def _on_auth(self, packet: Auth) -> None:
        foreign = Reason.SUCCESS if self.role == "server" else Reason.RE_AUTHENTICATE
        if packet.reason == foreign:  # MQTT 5, table 3-14
            raise protocol_error(f"An AUTH to a {self.role} must not carry {foreign.name}.")

    def _check_sender(self, kind: PacketType, properties: Properties) -> None:
        """Refuse properties that only the other side may send."""
        foreign = _ONLY_SERVER_SENDS if self.role == "server" else _ONLY_CLIENT_SENDS
        for name in foreign.get(kind, ()):
            if properties and name in properties:
                raise protocol_error(f"{name} must not be sent to a {self.role}.")


_FOLLOW: Final[dict[PacketType, Callable[..., None]]] = {
    PacketType.CONNECT: Connection._on_connect,
    PacketType.CONNACK: Connection._on_connack,
    PacketType.PUBLISH: Connection._on_publish,
    PacketType.DISCONNECT: Connection._on_disconnect,
    PacketType.AUTH: Connection._on_auth,
}
"""Checks and updates of the connection's state for a packet, before it is returned."""
