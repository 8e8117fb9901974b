"""What features may ask of the MQTT door: its figures, its subscriptions, and to hold less."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rowcast.core.shedding import Shed
from rowcast.doors.mqtt.connections.partial_packets import cut_unfinished
from rowcast.kernel.door import Door, DoorFigures
from rowcast.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from rowcast.doors.mqtt.broker import Broker


class MqttDoor(Door):
    """The door of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def figures(self) -> DoorFigures:
        """Return what was counted until now."""
        broker = self._broker
        traffic = broker.tally.look()
        return DoorFigures(
            bytes_in=traffic.bytes_in,
            bytes_out=traffic.bytes_out,
            packets_in=traffic.packets_in,
            packets_out=traffic.packets_out,
            publishes_in=traffic.publishes_in,
            publishes_out=traffic.publishes_out,
            payload_in=traffic.payload_in,
            payload_out=traffic.payload_out,
            connections=broker.connections,
            connects=broker.connects,
            sessions=len(broker.sessions),
            sessions_expired=broker.ended,
            dropped=broker.dropped_waiting,
        )

    def in_flight(self) -> int:
        """Return how many messages were sent and are not acknowledged."""
        return sum(len(session.window) for session in self._broker.sessions)

    def subscriptions(self) -> Iterator[Subscription]:
        """Give the subscriptions of all clients that are connected."""
        for session in self._broker.sessions:
            if session.subscription is not None:
                yield session.subscription

    def shed(self) -> None:
        """Refuse new connections while memory is short."""
        broker = self._broker
        broker.guard.shedding = broker.kernel.reader.shedding.sheds(Shed.CONNECTS)

    def relieve(self) -> None:
        """Cut connections of which a large part of a packet is held."""
        cut_unfinished(self._broker)
