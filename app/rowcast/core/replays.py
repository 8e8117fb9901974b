"""Names of replays: filters that send a range of past events at their original pace (M6).

``$replay/<from>,<to>,<speed>,<what>,<name>/<filter>`` begins with the records as of ``from``, and
then has the events up to ``to``, at a multiple of their own speed. All after ``from`` may be left
out. ``$asof/<time>/<filter>`` has the records of a time only. ``$replay/<id>/<filter>`` is the
shared replay of that id. In each part a character that a filter cannot have, such as the ``+`` of a
time zone, is percent-encoded.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.core.topics import TopicFilter

REPLAY_PREFIX: Final = "$replay/"
ASOF_PREFIX: Final = "$asof/"
REPLAY_PREFIXES: Final = (REPLAY_PREFIX, ASOF_PREFIX)

SPEED_MIN: Final = 0.1
"""A multiple of the events' own speed: slower, a minute would take longer than ten."""
SPEED_MAX: Final = 1_000.0
"""A multiple: faster, the spacing of most events is below what a network keeps; 0 has none."""

RECORDS: Final = "records"
EVENTS: Final = "events"
_WHAT: Final = ("all", RECORDS, EVENTS)
_PARTS: Final = ("from", "to", "speed", "what", "name")
_PLAIN: Final = ":-."
"""Characters of times and cursors that a filter may have."""


@dataclass(frozen=True, slots=True)
class ReplayName:
    """What the filter of a replay says; ``start`` and ``end`` are moments, as their client wrote.

    ``what`` is ``all``, ``records`` or ``events``. ``prefix`` is the text before the filter.
    """

    prefix: str
    topics: TopicFilter
    start: str
    end: str | None = None
    speed: float = 1.0
    what: str = "all"


def is_replay(text: str) -> bool:
    """Whether a filter names a replay."""
    return text.startswith(REPLAY_PREFIXES)


def replay_filter(
    topics: str,
    start: object,
    end: object = None,
    speed: object = None,
    what: str = "",
    name: str = "",
) -> str:
    """Return the filter of a replay of other topics."""
    parts = ["" if part is None else str(part) for part in (start, end, speed, what, name)]
    spelt = ",".join(quote(part, safe=_PLAIN) for part in parts).rstrip(",")
    return f"{REPLAY_PREFIX}{spelt}/{topics}"


def replay_of(text: str) -> ReplayName:
    """Read the filter of a replay; raises INVALID."""
    first, _, rest = text.partition("/")
    spelt, slash, topics = rest.partition("/")
    if not spelt or not slash or not topics:
        raise Error(
            Code.INVALID,
            f"{text[:200]!r} names no replay: it is $replay/FROM,TO,SPEED/FILTER, "
            "$replay/ID/FILTER of a shared one, or $asof/TIME/FILTER, such as "
            "'$replay/2026-01-02T03:00:00Z,,10/Sensor/+'",
            filter=text,
        )
    _check_topics(topics, text)
    prefix = f"{first}/{spelt}/"
    if first == "$asof":
        return ReplayName(prefix, TopicFilter(topics), unquote(spelt), None, 0.0, RECORDS)
    parts = [unquote(part) for part in spelt.split(",")]
    if len(parts) > len(_PARTS):
        raise Error(
            Code.INVALID,
            f"{spelt[:200]!r} has more parts than {','.join(_PARTS)}; percent-encode a comma",
            filter=text,
        )
    start, end, speed, what = (*parts, "", "", "", "")[:4]
    return ReplayName(
        prefix, TopicFilter(topics), start, end or None, speed_of(speed or 1), _what(what)
    )


def _check_topics(topics: str, text: str) -> None:
    if topics.startswith("$"):
        raise Error(
            Code.INVALID,
            f"{topics[:200]!r} cannot be replayed: topics that begin with '$' are the server's, "
            "and most of their messages are not stored",
            filter=text,
        )


def speed_of(value: object) -> float:
    """Read a speed, a number or text such as ``10`` or ``10x``; raises INVALID."""
    number = None
    given = value.strip().removesuffix("x") if isinstance(value, str) else value
    if type(given) in {int, float, str}:
        with suppress(ValueError, OverflowError):  # the latter for an integer beyond all floats
            number = float(given)  # type: ignore[arg-type]
    if number is None or not (number == 0 or SPEED_MIN <= number <= SPEED_MAX):
        raise Error(
            Code.INVALID,
            f"speed is a number from {SPEED_MIN:g} to {SPEED_MAX:g}, or 0 for as fast as the "
            f"reader takes it, not {str(value)[:80]!r}",
        )
    return number


def _what(text: str) -> str:
    if text in {"", *_WHAT}:
        return text or "all"
    raise Error(
        Code.INVALID,
        f"a replay has {', '.join(_WHAT)}, not {text[:80]!r}{did_you_mean(text, _WHAT)}",
    )
