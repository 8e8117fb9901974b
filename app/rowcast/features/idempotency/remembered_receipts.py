"""Stored receipts of writes that may be repeated.

A receipt has the position, version, the version that won over it if it was late, whether a record
existed before, and the topic, because a repeat of a write with a generated id does not know it. It
takes 25 bytes and the topic, on disk and in memory. Receipts of earlier versions of the server have
the position only.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final

from rowcast.core.events import Event
from rowcast.writes.write import Receipt

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

TOPIC_BYTES_MAX: Final = 256
"""Longer topics are not stored: generated ones are a table's path and a UUID."""
_FIXED: Final = Struct(">QQQ?")


def pack(event: Event, *, existed: bool, late: int) -> bytes:
    """Pack the receipt of a write, given its number and version."""
    topic = event.topic.encode()
    fixed = _FIXED.pack(event.seq, event.version, late, existed)
    return fixed + topic if len(topic) <= TOPIC_BYTES_MAX else fixed


def receipt_of(value: bytes, event: Event, kernel: "Kernel") -> Receipt:
    """Return the first receipt for a repeat, whose event gets the first position and topic."""
    if len(value) < _FIXED.size:
        event.seq = int.from_bytes(value, "big")
        receipt = Receipt(event, existed=True, repeat=True)
    else:
        event.seq, event.version, late, existed = _FIXED.unpack_from(value)
        event.topic = value[_FIXED.size :].decode() or event.topic
        receipt = Receipt(event, existed=existed, repeat=True, late=late)
    event.table = kernel.registry.route(event.topic).table
    return receipt
