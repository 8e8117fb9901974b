"""Types of options: each parses text, or raises with a description of valid values."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
DURATION: Final = re.compile(r"(\d{1,9})([smhd])")


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of an option; ``read`` parses text and raises ValueError naming valid values."""

    name: str
    read: Callable[[str], object]


def _text(text: str) -> str:
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not 0 <= number < float("inf"):
        raise ValueError("write a number that is not negative, such as 3.5")
    return number


def _whole(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError("write a whole number, such as 20")
    return int(text)


def _shares(text: str) -> tuple[float, ...]:
    shares = tuple(_number(word) for word in _names(text))
    if any(not 0 <= share <= 1 for share in shares):
        raise ValueError("write numbers between 0 and 1, such as 0.5,0.95")
    return shares


def seconds(text: str) -> int:
    """Parse a duration such as ``90s``, ``10m``, ``1h`` or ``7d``, in seconds; 0 means none."""
    if text == "0":
        return 0
    match = DURATION.fullmatch(text)
    if match is None:
        raise ValueError("write a duration such as 90s, 10m, 1h or 7d")
    return int(match[1]) * SECONDS[match[2]]


def _durations(text: str) -> tuple[tuple[str, int], ...]:
    found = tuple((word, seconds(word)) for word in _names(text))
    if not found or any(not length for _, length in found):
        raise ValueError("write durations such as 1m,1h,1d")
    return found


def _moment(text: str) -> int | datetime | None:
    """Return a position or a time in UTC; None for the end of the data."""
    if not text:
        return None
    number = text.rpartition(":")[2] if re.fullmatch(r"\w+:\d+", text) else text
    if re.fullmatch(r"\d{1,18}", number):
        return int(number)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "write a position such as 1042, a cursor, or a time such as 2026-01-31T12:00:00Z"
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


TEXT: Final = Kind("text", _text)
NAMES: Final = Kind("names", _names)
NUMBER: Final = Kind("number", _number)
WHOLE: Final = Kind("whole number", _whole)
SHARES: Final = Kind("shares", _shares)
DURATION_KIND: Final = Kind("duration", seconds)
DURATIONS: Final = Kind("durations", _durations)
MOMENT: Final = Kind("moment", _moment)


def one_of(*words: str) -> Kind:
    """Return the type whose values are these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"write one of {', '.join(words)}")
        return text

    return Kind("word", read)
