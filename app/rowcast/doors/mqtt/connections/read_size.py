"""How much is read from one connection in a turn of the loop, so that others have theirs.

asyncio reads 256 KiB at a time: of small packets that are thousands, which hold the loop for tens
of milliseconds. So little is read from a connection at first and from one that sends many small
packets, and much from one that sends few large ones. uvloop has no such choice.
"""

from typing import Final

from rowcast.doors.mqtt.connections.transport import Transport

READ_BYTES: Final = 16 * 1024
"""Read at a time from a connection with small packets: some five hundred of the smallest, which
take four milliseconds."""
LARGE_READ_BYTES: Final = 256 * 1024
"""Read at a time from a connection with large packets: asyncio's own."""
FEW_PACKETS: Final = 64
"""Of one read: less than a millisecond."""


def read_little(transport: Transport) -> None:
    """Read little at a time from a new connection."""
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES


def fit_reads(transport: Transport, packets: int) -> None:
    """Choose how much to read next, after a full read with so many packets."""
    if hasattr(transport, "max_size"):
        few = packets <= FEW_PACKETS
        transport.max_size = LARGE_READ_BYTES if few else READ_BYTES
