"""How much is read from one connection in a turn of the loop, so that others have theirs.

asyncio reads 256 KiB at a time: of small packets that are thousands, which hold the loop for tens
of milliseconds. So little is read from a connection at first and from one that sends many small
packets, and much from one that sends few large ones. A filter of a SUBSCRIBE takes as long as a
small packet, and counts as one. uvloop has no such choice.
"""

from collections.abc import Sequence
from typing import Final

from rowcast.doors.mqtt.connections.transport import Transport
from rowcast.mqtt.packets import Packet, Subscribe, Unsubscribe
from rowcast.mqtt.violations import Violation

READ_BYTES: Final = 16 * 1024
"""Read at a time from a connection with small packets: some five hundred of the smallest, which
take four milliseconds."""
LARGE_READ_BYTES: Final = 256 * 1024
"""Read at a time from a connection with large packets: asyncio's own."""
FEW_PACKETS: Final = 64
"""Packets and filters of one read: less than a millisecond."""


def read_little(transport: Transport) -> None:
    """Read little at a time from a new connection."""
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES


def fit_reads(transport: Transport, packets: Sequence[Packet | Violation]) -> None:
    """Choose how much to read next, after a full read with these packets."""
    if hasattr(transport, "max_size"):
        few = len(packets) <= FEW_PACKETS and sum(map(_parts, packets)) <= FEW_PACKETS
        transport.max_size = LARGE_READ_BYTES if few else READ_BYTES


def _parts(packet: Packet | Violation) -> int:
    """Return how many small packets take as long as this one to decode."""
    if isinstance(packet, Subscribe):
        return len(packet.subscriptions)
    return len(packet.filters) if isinstance(packet, Unsubscribe) else 1
