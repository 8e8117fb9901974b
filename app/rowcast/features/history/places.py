"""Places: where a subscription begins, in the words that every door has for it.

They exclude one another: ``since`` (a cursor), ``start`` (``new``, or ``current``),
``previousCount`` or ``last`` (that many events), ``startTime`` or ``from`` (a time, so long ago, or
a cursor). Without any it begins with the records as they are. What a place is in the log is for
``positions``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.limits import STREAM_PREVIOUS_EVENTS_MAX
from rowcast.features.history.moments import moment_of

LAST: Final = ("previousCount", "last")
FROM: Final = ("startTime", "from")
PLACES: Final = ("since", "start", *LAST, *FROM)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a subscription begins; all empty: with the records as they are."""

    since: str | None = None
    new: bool = False
    previous: int = 0
    version: int | None = None


def place_of(fields: Mapping[str, object], now_seconds: float) -> Place:
    """Read where a subscription begins; raises INVALID."""
    given = [name for name in PLACES if fields.get(name) is not None]
    if len(given) > 1:
        raise Error(Code.INVALID, f"{given[0]} and {given[1]} exclude each other; give one of them")
    if not given:
        return Place()
    name, value = given[0], fields[given[0]]
    if name == "since":
        return Place(since=_cursor(value))
    if name == "start":
        return Place(new=_is_new(value))
    if name in LAST:
        return Place(previous=_count(name, value))
    moment = moment_of(value, name, now_seconds)
    if moment.cursor is not None:
        return Place(since=str(moment.cursor))
    return Place(version=moment.version)


def _cursor(value: object) -> str:
    if not isinstance(value, str):
        raise Error(Code.INVALID, f"since is text, not {type(value).__name__}")
    parse_cursor(value)
    return value


def _is_new(value: object) -> bool:
    if value not in {"new", "current"}:
        raise Error(
            Code.INVALID,
            f"start is 'new' (only what happens from now on) or 'current', not {str(value)[:80]!r}",
        )
    return value == "new"


def _count(name: str, value: object) -> int:
    number = value if type(value) is int else 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        number = int(value)
    if not 1 <= number <= STREAM_PREVIOUS_EVENTS_MAX:
        raise Error(Code.INVALID, f"{name} is a number from 1 to {STREAM_PREVIOUS_EVENTS_MAX}")
    return number
