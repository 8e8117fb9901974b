"""Traffic statistics of MQTT connections.

A client counts its own reads and writes. Totals are computed on request, over clients with traffic
since the last time: counting costs a busy connection little, and an idle one nothing.
"""

from collections.abc import Sequence
from typing import Protocol

from rowcast.mqtt.connection import Connection
from rowcast.mqtt.packets import MQTT_5
from rowcast.seams.listeners import MqttListener


class Traffic:
    """Counters in both directions: bytes, packets, messages and their payload."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "packets_in",
        "packets_out",
        "payload_in",
        "payload_out",
        "publishes_in",
        "publishes_out",
    )

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Reset the counters."""
        self.bytes_in = self.packets_in = self.publishes_in = self.payload_in = 0
        self.bytes_out = self.packets_out = self.publishes_out = self.payload_out = 0

    def sent(self, publishes: int, payload_bytes: int) -> None:
        """Count outgoing messages."""
        self.publishes_out += publishes
        self.payload_out += payload_bytes

    def add(self, other: "Traffic") -> None:
        """Add another counter."""
        self.bytes_in += other.bytes_in
        self.packets_in += other.packets_in
        self.publishes_in += other.publishes_in
        self.payload_in += other.payload_in
        self.bytes_out += other.bytes_out
        self.packets_out += other.packets_out
        self.publishes_out += other.publishes_out
        self.payload_out += other.payload_out


class CountedClient(Protocol):
    """A client as its traffic is counted; what it publishes its connection counts."""

    connection: Connection
    traffic: Traffic
    """Counted since the last look."""
    before: Traffic
    """Counted until the last look."""
    noted: bool
    """Whether the next look sees it."""


class Tally:
    """The traffic of all connections, including closed ones."""

    def __init__(self, listeners: Sequence[MqttListener]) -> None:
        self._total = Traffic()
        self._busy: list[CountedClient] = []
        """Clients with traffic that is not in the total yet."""
        self._listeners = listeners

    def note(self, client: CountedClient) -> None:
        """Register a client with traffic for the next total."""
        client.noted = True
        self._busy.append(client)
        if len(self._busy) == 1:
            for listener in self._listeners:
                listener.traffic()

    def look(self) -> Traffic:
        """Return the total traffic so far."""
        busy, self._busy = self._busy, []
        for client in busy:
            client.noted = False
            traffic, connection = client.traffic, client.connection
            publishes = traffic.publishes_in = connection.publishes
            first_bytes = publishes if connection.version == MQTT_5 else 0
            traffic.payload_in = connection.rest_bytes - first_bytes
            connection.publishes = connection.rest_bytes = 0
            self._total.add(traffic)
            client.before.add(traffic)
            traffic.clear()
        return self._total

    def of(self, client: CountedClient) -> Traffic:
        """Return what passed over one connection until now."""
        self.look()
        return client.before
