"""Moments: a time or a cursor, as people and programs name it.

A moment is a cursor; or a time, in ISO 8601 or in milliseconds since 1970 (UTC); or how long ago,
such as ``-1h``; or ``now``. Which position of the log that is, is for its readers to find:
``features/history/moments.py`` for a window, ``subscriptions/start_position.py`` for a stream.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rowcast.core.clock import version_at, version_of
from rowcast.core.cursors import Cursor, parse_cursor
from rowcast.core.durations import parse_duration
from rowcast.core.errors import Code, Error

_CURSOR: Final = re.compile(r'"?[0-9a-f]{8}:[0-9]+(?:\.[a-z]{1,8})?"?')
_ZONE: Final = re.compile(r" (?=\d\d:?\d\d$)")
"""The plus sign of a time zone, as it arrives in a query that was not percent-encoded."""
_YEAR: Final = re.compile(r"[12][0-9]{3}")
"""What is a year to whoever writes it, and as milliseconds a moment of the first three seconds."""
CLOCKS_APART_SECONDS: Final = 60
"""How far a client's clock may be ahead of this one: what it calls now is not to come."""
_MILLISECONDS: Final = re.compile(r"[0-9]{1,14}")


@dataclass(frozen=True, slots=True)
class Moment:
    """A cursor, or the least version of a time."""

    version: int = 0
    cursor: Cursor | None = None

    def later(self, milliseconds: int) -> "Moment":
        """Return the moment so much later; a cursor stays what it is."""
        return self if self.cursor else Moment(self.version + version_of(milliseconds))


def moment_of(value: object, name: str, now_seconds: float) -> Moment:
    """Read a moment; ``name`` says what it is for. Raises INVALID."""
    text = str(value).strip() if isinstance(value, str) or type(value) is int else ""
    if _CURSOR.fullmatch(text):
        return Moment(cursor=parse_cursor(text))
    if _YEAR.fullmatch(text):
        raise Error(
            Code.INVALID,
            f"{name}={text} would be {text} milliseconds after 1970 began; for the year write "
            f"{text}-01-01T00:00:00Z",
        )
    version = _version(text, now_seconds)
    if version is None:
        raise Error(
            Code.INVALID,
            f"{name} is a time such as 2026-01-02T03:04:05Z, milliseconds since 1970, how long "
            f"ago such as -1h, now, or a cursor, not {str(value)[:80]!r}",
        )
    return Moment(version)


def is_relative(text: str) -> bool:
    """Whether a moment's text means another moment later on: ``now``, or how long ago."""
    return text.strip().startswith(("now", "-"))


def bygone_of(value: object, name: str, now_seconds: float) -> Moment:
    """Read a moment that has passed; raises INVALID for one that is to come."""
    moment = moment_of(value, name, now_seconds)
    if moment.version > version_of(int((now_seconds + CLOCKS_APART_SECONDS) * 1_000)):
        now = datetime.fromtimestamp(now_seconds, UTC).isoformat(timespec="seconds")
        raise Error(
            Code.INVALID,
            f"{name} is a moment that has passed, and {str(value)[:80]!r} is to come: it is "
            f"{now.replace('+00:00', 'Z')} here",
        )
    return moment


def _version(text: str, now_seconds: float) -> int | None:
    if _MILLISECONDS.fullmatch(text):
        return version_of(int(text))
    if text == "now":
        return version_of(int(now_seconds * 1_000))
    if text.startswith("-"):
        ago = parse_duration(text[1:]) if text[-1].isalpha() else None  # -1 is no time of anybody's
        return None if ago is None else version_of(max(0, int((now_seconds - ago) * 1_000)))
    return version_at(_ZONE.sub("+", text))
