"""The part of an event in its transaction: how many of its events come before, and how many after.

The events of an atomic group have numbers without a gap, so a part tells the first and the last
number of its transaction. It is a property that the log keeps: a reader that is shown some events
of a transaction knows from any of them where it ends. Events without it are transactions alone.
"""

from collections.abc import Sequence
from typing import Final

from rowcast.core.events import Event

PART: Final = "part"
"""The property: how many numbered events precede in the transaction, ``/``, and how many follow."""


def set_parts(events: Sequence[Event]) -> None:
    """Set the parts of the events of one transaction, in order.

    Those that have no number are parts, too; they come between the others, or right after them.
    """
    numbered = [event for event in events if event.seq]
    if not numbered or len(events) < 2:
        return
    first, last = numbered[0].seq, numbered[-1].seq
    for event in events:
        part = f"{event.seq - first}/{last - event.seq}" if event.seq else "0/0"
        event.properties = {**(event.properties or {}), PART: part}


def is_part(event: Event) -> bool:
    """Whether an event is one of several of a transaction."""
    return event.properties is not None and PART in event.properties


def part_of(event: Event) -> dict[str, object] | None:
    """Return the part of an event alone, for another form of it; None if it has none."""
    return {PART: event.properties[PART]} if event.properties and is_part(event) else None


def span_of(event: Event) -> tuple[int, int]:
    """Return the first and the last number of the transaction of a logged event."""
    seq = event.seq
    if event.properties is None:
        return seq, seq
    before, _, after = str(event.properties.get(PART) or "0/0").partition("/")
    return seq - int(before), seq + int(after)
