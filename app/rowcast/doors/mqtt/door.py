"""The MQTT door as the kernel and features see it: its rows, its figures, and to hold less."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from rowcast.core.errors import Error
from rowcast.core.shedding import Shed
from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.client_rows import CLIENTS, client_rows
from rowcast.doors.mqtt.guard_rows import GUARD, guard_rows
from rowcast.doors.mqtt.packets.handlers import HANDLERS, RUN_HANDLERS
from rowcast.doors.mqtt.reauthorize import judge
from rowcast.doors.mqtt.session_rows import session_rows
from rowcast.doors.mqtt.sessions.observers import SESSIONS, SUBSCRIPTIONS
from rowcast.doors.mqtt.settings import BrokerSettings
from rowcast.doors.mqtt.subscription_rows import subscription_rows
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.reasons import Reason
from rowcast.seams.door import Door, DoorFigures
from rowcast.subscriptions.subscription import Subscription


def make_broker(
    kernel: Kernel,
    settings: BrokerSettings,
    now: Callable[[], float],
    loop: asyncio.AbstractEventLoop | None = None,
) -> Broker:
    """Return a broker that is plugged into the kernel, on this loop unless one is given.

    ``now`` is in seconds since 1970.
    """
    loop = loop or asyncio.get_running_loop()
    broker = Broker(kernel, settings, now, loop, HANDLERS, RUN_HANDLERS)
    kernel.doors.append(MqttDoor(broker))
    kernel.rows(CLIENTS, client_rows(broker))
    kernel.rows(GUARD, guard_rows(broker))
    kernel.rows(SESSIONS, session_rows(broker))
    kernel.rows(SUBSCRIPTIONS, subscription_rows(broker))
    kernel.reauthorization.listen(partial(judge, broker))
    return broker


class MqttDoor(Door):
    """The door of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def figures(self) -> DoorFigures:
        """Return the counters."""
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
        """Return the number of unacknowledged messages."""
        return self._broker.sessions.in_flight

    def subscriptions(self) -> Iterator[Subscription]:
        """Yield the subscriptions of all connected clients."""
        for session in self._broker.sessions:
            if session.subscription is not None:
                yield session.subscription

    def shed(self) -> None:
        """Refuse new connections while memory is short."""
        broker = self._broker
        broker.guard.shedding = broker.kernel.reader.shedding.sheds(Shed.CONNECTS)

    def relieve(self) -> None:
        """Cut connections of which a large part of a packet is held, and tell them why (K9, L11).

        Each may hold as much of one packet as a packet may have; all of them together may be more
        than there is.
        """
        shedding = self._broker.kernel.reader.shedding
        for client in list(self._broker.clients):
            try:
                shedding.check_unfinished(0 if client.closing else client.connection.held_bytes)
            except Error as error:
                client.disconnect(Reason.SERVER_BUSY, error.message)
