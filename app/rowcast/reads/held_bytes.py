"""An estimate of the bytes that an event holds in memory once its value is decoded.

A decoded value is a multiple of its payload: 5 of a usual record, 9 of a map of numbers, 24 of many
empty maps in JSON, 72 in CBOR. To walk through a value would cost as much as to read it, so it is
estimated from the payload: its parts are counted by their separators. Only those of a map without
another inside are its members, if it is decoded. What is made of an event for
others (frames, other media types) is not in it: as much again for each form in use.
"""

from typing import Final

from rowcast.codecs import JSON, is_structured
from rowcast.core.events import Event
from rowcast.core.memory_limits import RECORD_BYTES, VALUE_PART_BYTES

_SEPARATORS: Final = b",{["


def held_bytes(event: Event) -> int:
    """Return an estimate of an event's size in bytes, its decoded value included."""
    payload, said, value = event.payload, event.content_type, event.decoded
    size = RECORD_BYTES + len(payload)
    if said is None or said == JSON:
        if type(value) is dict:
            for item in value.values():
                if type(item) is dict or type(item) is list:
                    break
            else:  # nothing in it has parts of its own
                return size + len(value) * VALUE_PART_BYTES
        parts = len(payload) - len(payload.translate(None, _SEPARATORS))  # one pass, one call
        return size + parts * VALUE_PART_BYTES
    return size + len(payload) * VALUE_PART_BYTES if is_structured(said) else size
