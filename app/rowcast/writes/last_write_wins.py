"""Last-writer-wins: which of two retained writes at a topic is the newer one, and tombstones.

A stamp is a version (``core/clock.py``) and the name of its origin. Of two retained writes at one
topic the one with the greater stamp wins, wherever and in whatever order they arrive: first the
version, then the origin, so that every node comes to the same state (E28; seed 3, "Ordering"). A
write without a stamp gets the next version, and this log's epoch as its origin.

A record has its stamp. That of a deletion is stored as a fact, a tombstone, because there is no
record; it is kept for some days under one owner per day, so that a day is removed at once.
"""

from collections.abc import Iterable
from typing import Final

from rowcast.core.clock import PER_SECOND, version_at
from rowcast.core.errors import Code, Error
from rowcast.core.events import RETAINED, Event
from rowcast.core.limits import ORIGIN_CHARS_MAX, TOMBSTONE_DAYS, TOMBSTONE_DAYS_FORGOTTEN
from rowcast.core.write_marks import ORIGIN
from rowcast.store.store import Change

GONE: Final = "gone/"
"""The prefix of owners of tombstones, followed by the day, in days since 1970."""
TOMBSTONE_PROPERTIES: Final = ("seen", "known")
"""Properties of a deletion that its tombstone keeps (``writes/known_versions.py``)."""
_MORE: Final = b"\xff"
"""Before each of them; it is in no text."""
_PER_DAY: Final = 86_400 * PER_SECOND
_HINT: Final = "it is microseconds since 1970, or a time such as 2026-01-31T12:00:00.25Z"

Stamp = tuple[int, str]
"""Version and origin; the greater one wins."""


def put_stamp(event: Event, version: str, origin: str) -> None:
    """Set an event's stamp from its writer; raises INVALID for malformed text.

    The default origin is its writer.
    """
    moment = int(version) if version.isascii() and version.isdigit() else version_at(version)
    if moment is None or not 0 < moment < 1 << 53:
        raise Error(Code.INVALID, f"{version[:80]!r} is no version; {_HINT}")
    if len(origin) > ORIGIN_CHARS_MAX:
        raise Error(Code.INVALID, f"an origin has at most {ORIGIN_CHARS_MAX} characters")
    event.version = moment
    event.properties = {**(event.properties or {}), ORIGIN: origin or event.client or "?"}


def is_stamped(event: Event) -> bool:
    """Whether an event has a stamp from its writer."""
    return event.properties is not None and ORIGIN in event.properties


def stamp_of(event: Event, epoch: str) -> Stamp:
    """Return an event's stamp; ``epoch`` is that of its log."""
    origin = event.properties.get(ORIGIN) if event.properties is not None else None
    return event.version, origin if isinstance(origin, str) else epoch


def is_late(event: Event, known: Stamp) -> bool:
    """Whether an event is older than a known stamp, or equal to it."""
    return event.kind in RETAINED and stamp_of(event, "") <= known


# -- tombstones ----------------------------------------------------------------------------------


def tombstone(event: Event, epoch: str, now_version: int) -> Change:
    """Return the tombstone of a deletion, with its stamp."""
    version, origin = stamp_of(event, epoch)
    value = version.to_bytes(8, "big") + origin.encode()
    if event.properties is not None:
        kept = [(name, event.properties.get(name)) for name in TOMBSTONE_PROPERTIES]
        value += b"".join(_MORE + f"{name}={text}".encode() for name, text in kept if text)
    return Change(_owner(now_version // _PER_DAY), event.topic, value)


def places_of_tombstones(topics: Iterable[str], now_version: int) -> list[tuple[str, str]]:
    """Return owner and name of all possible tombstones of these topics."""
    today = now_version // _PER_DAY
    owners = [_owner(today - days) for days in range(TOMBSTONE_DAYS + 1)]
    return [(owner, topic) for topic in topics for owner in owners]


def stamp_in(value: bytes) -> Stamp:
    """Return the stamp of a tombstone."""
    return int.from_bytes(value[:8], "big"), value[8:].split(_MORE, 1)[0].decode()


def properties_in(value: bytes) -> dict[str, object] | None:
    """Return the properties of a deletion that its tombstone keeps."""
    pairs = [item.decode().partition("=") for item in value[8:].split(_MORE)[1:]]
    return {name: text for name, _, text in pairs} or None


def outdated(now_seconds: float) -> list[Change]:
    """Return the changes that remove tombstones of past days."""
    oldest = int(now_seconds) // 86_400 - TOMBSTONE_DAYS
    days = range(max(0, oldest - TOMBSTONE_DAYS_FORGOTTEN), oldest)
    return [Change(_owner(day), "", None) for day in days]


def _owner(day: int) -> str:
    return f"{GONE}{day:06d}"
