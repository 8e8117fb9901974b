"""What is kept of a write that may come again: as much as it takes to answer it in the same way.

That is its position, version, the version that won over it if it was late, whether there was a
record before, and its topic, because a repeat of what got its id from the server does not know it.
It is 25 bytes and the topic, on the disk as in memory. What an earlier version of the server kept
is the position alone.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final

from rowcast.core.events import Event
from rowcast.kernel.write import Receipt

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

TOPIC_BYTES_MAX: Final = 256
"""A longer topic is not kept: those that the server makes are a table's path and a UUID."""
_FIXED: Final = Struct(">QQQ?")


def pack(event: Event, *, existed: bool, late: int) -> bytes:
    """Return what is kept of a write, when its number and version are known."""
    topic = event.topic.encode()
    fixed = _FIXED.pack(event.seq, event.version, late, existed)
    return fixed + topic if len(topic) <= TOPIC_BYTES_MAX else fixed


def receipt_of(value: bytes, event: Event, kernel: "Kernel") -> Receipt:
    """Return the receipt of the first for a repeat, whose event becomes what the first one was."""
    if len(value) < _FIXED.size:
        event.seq = int.from_bytes(value, "big")
        receipt = Receipt(event, existed=True, repeat=True)
    else:
        event.seq, event.version, late, existed = _FIXED.unpack_from(value)
        event.topic = value[_FIXED.size :].decode() or event.topic
        receipt = Receipt(event, existed=existed, repeat=True, late=late)
    event.table = kernel.registry.route(event.topic).table
    return receipt
