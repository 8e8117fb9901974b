"""Packets that are not all there, while memory is short (K9, L11).

Each connection may hold as much of one packet as a packet may have; all of them together may be
more than there is. Then those that hold much of what has not come are cut off, and told so.
"""

from typing import TYPE_CHECKING

from rowcast.core.errors import Error
from rowcast.mqtt.reasons import Reason

if TYPE_CHECKING:
    from rowcast.doors.mqtt.broker import Broker


def cut_unfinished(broker: "Broker") -> None:
    """End each client of which a large part of a packet is held."""
    shedding = broker.kernel.reader.shedding
    for client in list(broker.clients):
        try:
            shedding.check_unfinished(0 if client.closing else client.connection.held_bytes)
        except Error as error:
            client.disconnect(Reason.SERVER_BUSY, error.message)
