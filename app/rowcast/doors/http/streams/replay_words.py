"""The words of a replay, as parameters of a URL and as members of a WebSocket's command (M6).

``from`` is where it begins, ``to`` where it ends, ``speed`` a multiple of the events' own speed. In
a URL ``speed`` or ``to`` makes a stream a replay, because with ``from`` alone it goes on as live.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.replays import EVENTS, replay_filter, speed_of
from rowcast.subscriptions.start_position import START_WORDS

REPLAY_WORDS: Final = ("to", "speed")
_BEGIN: Final = ("from", "startTime")


@dataclass(frozen=True, slots=True)
class ReplayWords:
    """What part of the past is asked for; ``resumed``: without the records first."""

    start: object
    end: object
    speed: object
    resumed: bool = False

    def of(self, topics: str, name: str = "") -> str:
        """Return the filter of this replay of some topics; ``name`` tells equal ones apart."""
        what = EVENTS if self.resumed else ""
        return replay_filter(topics, self.start, self.end, self.speed, what, name)


def replay_asked(fields: Mapping[str, object], kept: str | None = None) -> ReplayWords | None:
    """Return the replay that the parameters of a URL ask for, if any; raises INVALID.

    ``kept`` is a cursor that the client kept from it: it goes on there.
    """
    if not any(word in fields for word in REPLAY_WORDS):
        return None
    return replay_words(fields, kept)


def replay_words(fields: Mapping[str, object], kept: str | None = None) -> ReplayWords:
    """Read the words of a replay; raises INVALID."""
    start = next((fields[name] for name in _BEGIN if fields.get(name) is not None), None)
    other = next((name for name in START_WORDS if name in fields and name not in _BEGIN), None)
    if start is None:
        raise Error(
            Code.INVALID,
            "a replay begins with from, a time such as 2026-01-02T03:04:05Z or a cursor; to and "
            "speed are of a replay",
        )
    if other is not None:
        raise Error(Code.INVALID, f"a replay begins with from; {other} does not go with it")
    speed = speed_of(fields["speed"]) if fields.get("speed") is not None else 1.0
    if kept is not None:
        return ReplayWords(kept, fields.get("to"), f"{speed:g}", resumed=True)
    return ReplayWords(start, fields.get("to"), f"{speed:g}")
