"""Stored receipts of writes that may be repeated.

A receipt has the position, version, the version that won over it if it was late, whether a record
existed before, what became of a value that does not fit, and the topic, because a repeat of a write
with a generated id does not know it. It takes 25 bytes and the topic, on disk and in memory.
Receipts of earlier versions of the server have the position only.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final

from rowcast.core.events import Event
from rowcast.core.tables import Invalid
from rowcast.writes.write import Receipt

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

TOPIC_BYTES_MAX: Final = 256
"""Longer topics are not stored: generated ones are a table's path and a UUID."""
_FIXED: Final = Struct(">QQQB")
_UNFIT: Final = ("", Invalid.DROP.value, Invalid.DEAD_LETTER.value)
"""Append only: the last byte has the place here above its lowest bit, which is ``existed``."""


def pack(receipt: Receipt) -> bytes:
    """Pack the receipt of a write, whose event has its number and version."""
    event = receipt.event
    topic = event.topic.encode()
    flags = _UNFIT.index(receipt.unfit) << 1 | receipt.existed
    fixed = _FIXED.pack(event.seq, event.version, receipt.late, flags)
    return fixed + topic if len(topic) <= TOPIC_BYTES_MAX else fixed


def receipt_of(value: bytes, event: Event, kernel: "Kernel") -> Receipt:
    """Return the first receipt for a repeat, whose event gets the first position and topic."""
    if len(value) < _FIXED.size:
        event.seq = int.from_bytes(value, "big")
        receipt = Receipt(event, existed=True, repeat=True)
    else:
        event.seq, event.version, late, flags = _FIXED.unpack_from(value)
        event.topic = value[_FIXED.size :].decode() or event.topic
        unfit = _UNFIT[flags >> 1]
        receipt = Receipt(event, existed=bool(flags & 1), repeat=True, late=late, unfit=unfit)
    event.table = kernel.registry.route(event.topic).table
    return receipt
