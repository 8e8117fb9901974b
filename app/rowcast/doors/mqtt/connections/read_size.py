"""How much is read from one connection in a turn of the loop, so that others have theirs.

asyncio reads 256 KiB at a time: of small packets that are thousands, which hold the loop for tens
of milliseconds. So little is read from a connection at first and from one that sends many small
packets, and much from one that sends few large ones. A filter of a SUBSCRIBE takes as long as a
small packet, and counts as one. While several clients write, the least is read from one that sends
small packets. What uvloop and TLS hand over is cut (`net/sliced_reads.py`): they have no choice.
"""

from collections.abc import Sequence
from typing import Final

from rowcast.doors.mqtt.connections.transport import Transport
from rowcast.mqtt.packets import Packet, Subscribe, Unsubscribe
from rowcast.mqtt.violations import Violation
from rowcast.net.sliced_reads import READ_BYTES
from rowcast.writes.commit import Committer

SHARED_READ_BYTES: Final = 4 * 1024
"""The same while several clients write: some hundred packets, a fraction of what the disk takes for
the write of another client."""
LARGE_READ_BYTES: Final = 256 * 1024
"""Read at a time from a connection with large packets: asyncio's own."""
FEW_PACKETS: Final = 64
"""Packets and filters of one read: less than a millisecond."""
FEW_BYTES: Final = READ_BYTES // FEW_PACKETS
"""Of each of them, at least: where less is read, fewer packets are few."""


def read_little(transport: Transport) -> None:
    """Read little at a time from a new connection."""
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES


def fit_reads(
    transport: Transport, packets: Sequence[Packet | Violation], size: int, committer: Committer
) -> None:
    """Choose how much to read next, after a full read of ``size`` bytes with these packets."""
    if hasattr(transport, "max_size"):
        most = min(FEW_PACKETS, size // FEW_BYTES)
        few = len(packets) <= most and sum(map(_parts, packets)) <= most
        many = SHARED_READ_BYTES if committer.shares.until else READ_BYTES
        transport.max_size = LARGE_READ_BYTES if few else many


def _parts(packet: Packet | Violation) -> int:
    """Return how many small packets take as long as this one to decode."""
    if isinstance(packet, Subscribe):
        return len(packet.subscriptions)
    return len(packet.filters) if isinstance(packet, Unsubscribe) else 1
