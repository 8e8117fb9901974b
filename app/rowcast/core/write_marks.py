"""Idempotency keys of writes: they identify a repeated write (M8, H25, H34).

A writer with a name numbers its writes: ``<producer>:<epoch>:<number>``. A write from another log
lists the logs that it has been in. Both are properties of the event; ``features/idempotency/``
evaluates them.
"""

from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.gateway_limits import PRODUCER_NAME_CHARS_MAX, PRODUCER_NUMBER_MAX

MARK: Final = "producer"
"""The event's property with its idempotency key, as text."""
ORIGIN: Final = "origin"
"""The property with the log of an event's first write; marks a stamped event."""
PATH: Final = "path"
"""The event's property with the logs that it has been in, where it is ignored."""
_HINT: Final = "write it as <producer>:<epoch>:<number>, such as meter-7:1:1041"


def put_mark(event: Event, text: str, low: str | None = None) -> None:
    """Set an event's idempotency key; raises INVALID for malformed text.

    All of the producer's writes below the number ``low`` are done.
    """
    parse_mark(text)
    if low is not None and not _is_number(low):
        raise Error(Code.INVALID, f"{low[:80]!r} is no number below which all is done")
    event.properties = {**(event.properties or {}), MARK: text if low is None else f"{text}:{low}"}


def parse_mark(text: str) -> tuple[str, int, int, int]:
    """Return producer, epoch, number and ``low``; raises INVALID."""
    name, *numbers = text.split(":")
    if len(numbers) == 2:
        numbers.append("0")
    if not name or len(numbers) != 3 or not all(map(_is_number, numbers)):
        raise Error(Code.INVALID, f"{text[:80]!r} is no mark; {_HINT}")
    if len(name) > PRODUCER_NAME_CHARS_MAX:
        raise Error(
            Code.INVALID, f"a producer's name has at most {PRODUCER_NAME_CHARS_MAX} characters"
        )
    epoch, number, low = map(int, numbers)
    return name, epoch, number, low


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= PRODUCER_NUMBER_MAX


def put_path(event: Event, path: str) -> None:
    """Set the logs that an event has been in, as comma-separated epochs."""
    event.properties = {**(event.properties or {}), PATH: path}


def numbered(text: str, index: int) -> str:
    """Return the key of a batch's record; the batch has the number of its first."""
    name, epoch, number, low = parse_mark(text)
    return f"{name}:{epoch}:{number + index}:{low}" if index else text
