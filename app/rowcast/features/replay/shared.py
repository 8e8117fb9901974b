"""Shared replays: one playhead for all who subscribe to its id (M6).

Each subscriber reads the log by itself, up to the common playhead. So a slow one loses nothing, one
that comes later begins with the records of the moment that is being played, and each sees what its
own rights allow. With a speed of 0 there is no common moment: each reads as fast as it can, from
the start of the replay, or the moment that was last sought.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.clock import PER_SECOND
from rowcast.core.errors import Code, Error
from rowcast.core.moments import Moment, bygone_of, moment_of
from rowcast.core.replays import speed_of
from rowcast.core.suggestions import did_you_mean
from rowcast.core.topics import TopicFilter
from rowcast.features.replay.feed import Feed
from rowcast.features.replay.playhead import Playhead
from rowcast.kernel.kernel import Kernel

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}")
_TAKEN: Final = frozenset({"now"})
"""Names that are moments, which a filter could not tell apart."""
_FIELDS: Final = ("filter", "from", "to", "speed", "state", "at")
_STATES: Final = ("playing", "paused")

Facts = Mapping[str, object]


@dataclass(slots=True, eq=False)
class SharedReplay:
    """A shared replay; ``target`` is where it began, or was last sought."""

    name: str
    owner: str
    topics: TopicFilter
    start: object
    end: object
    target: Moment
    until: int
    playhead: Playhead
    feeds: dict[Feed, None] = field(default_factory=dict)

    def now(self) -> Moment:
        """Return the moment that is being played; its events have been.

        With a speed of 0 there is none: what begins then begins at ``target``.
        """
        at = self.playhead.at
        return self.target if at is None or not self.playhead.speed else Moment(at + 1)


class SharedReplays:
    """The shared replays of one kernel, by id; at most ``most``."""

    def __init__(self, kernel: Kernel, now: Callable[[], float], most: int) -> None:
        self._kernel = kernel
        self._now = now
        self._most = most
        self.rows: dict[str, SharedReplay] = {}

    def get(self, name: str) -> SharedReplay | None:
        """Return a shared replay; None if there is none of that id."""
        return self.rows.get(name)

    async def put(self, name: str, value: object, caller: Caller) -> None:
        """Create a shared replay, or replace it; raises INVALID, DENIED, GONE, BUSY, CONFLICT.

        What was there when it was called is replaced: only that is the caller's to replace.
        """
        facts = _facts(value)
        if _NAME.fullmatch(name) is None or name in _TAKEN:
            raise Error(
                Code.INVALID,
                f"{name[:100]!r} is no id of a replay: it begins with a letter, and has letters, "
                "digits, '_', '.' and '-', at most 80 of them",
            )
        before = self.rows.get(name)
        self._check_room(name)
        made = await self._made(name, facts, caller)
        if self.rows.get(name) is not before:
            raise _changed(name)
        self._check_room(name)
        self.rows[name] = made
        if before is not None:
            self._end(before)

    def _check_room(self, name: str) -> None:
        """Raise BUSY for a new one when there are enough."""
        if name not in self.rows and len(self.rows) >= self._most:
            raise Error(
                Code.BUSY,
                f"there are {self._most} shared replays, and no more are allowed; delete one, or "
                "raise replay.max",
            )

    async def _made(self, name: str, facts: Facts, caller: Caller) -> SharedReplay:
        kernel = self._kernel
        topics = _topics(facts)
        kernel.rights.check_watch(topics, caller)
        now = kernel.now()
        start, end = bygone_of(facts.get("from"), "from", now), facts.get("to")
        target = start if start.cursor else start.later(1)
        head, place = kernel.reader.announced(), kernel.past.place
        after, until, last = await place(topics, target), head, round(now * PER_SECOND)
        if end is not None:
            moment = moment_of(end, "to", now)
            until = min(head, await place(topics, moment))
            last = min(last, moment.version or last)
        if after > until:
            raise Error(Code.INVALID, "from is after to; a replay begins before it ends")
        playhead = Playhead(self._now, speed_of(facts.get("speed", 1)), last)
        playhead.playing = _playing(facts.get("state", "playing"))
        made = SharedReplay(
            name, caller.user, topics, facts.get("from"), end, target, until, playhead
        )
        if facts.get("at") is not None:
            _move(made, await self._place_of(made, facts["at"]))
        elif target.cursor is None:
            playhead.start(target.version)
        return made

    async def patch(self, name: str, value: object) -> None:
        """Change speed, state or place; raises NOT_FOUND, INVALID, GONE, CONFLICT."""
        facts, shared = _facts(value), self.rows.get(name)
        if shared is None:
            raise Error(Code.NOT_FOUND, f"there is no shared replay {name!r}")
        fixed = next((item for item in ("filter", "from", "to") if item in facts), None)
        if fixed is not None:
            raise Error(
                Code.INVALID,
                f"{fixed} of a replay cannot be changed; PUT another, or change speed, state or at",
            )
        speed = speed_of(facts["speed"]) if "speed" in facts else None
        playing = _playing(facts["state"]) if "state" in facts else None
        if "at" in facts:
            target = await self._place_of(shared, facts["at"])
            if self.rows.get(name) is not shared:  # deleted or replaced while the log was read
                raise _changed(name)
            _move(shared, target)
        elif speed == 0:
            shared.target = shared.now()  # what has been played is not played again
        shared.playhead.change(speed=speed, playing=playing)

    async def _place_of(self, shared: SharedReplay, at: object) -> Moment:
        """Return where to go on; raises INVALID, GONE."""
        target = bygone_of(at, "at", self._kernel.now())
        target = target if target.cursor else target.later(1)
        if await self._kernel.past.place(shared.topics, target) > shared.until:
            raise Error(
                Code.INVALID, "at is after the end of the replay; seek to an earlier moment"
            )
        return target

    def remove(self, name: str) -> None:
        """Remove a shared replay: its subscribers get an END; raises NOT_FOUND."""
        shared = self.rows.pop(name, None)
        if shared is None:
            raise Error(Code.NOT_FOUND, f"there is no shared replay {name!r}")
        self._end(shared)

    @staticmethod
    def _end(shared: SharedReplay) -> None:
        for feed in list(shared.feeds):
            feed.end(f"the shared replay {shared.name!r} was removed")


def _move(shared: SharedReplay, target: Moment) -> None:
    """Let all go on at another moment."""
    shared.target = target
    shared.playhead.seek(None if target.cursor else target.version)
    for feed in shared.feeds:
        feed.move(target)


def _changed(name: str) -> Error:
    return Error(
        Code.CONFLICT,
        f"the shared replay {name!r} was made, replaced or deleted by another request at the same "
        "time; read it, and send yours again if it is still wanted",
    )


def _facts(value: object) -> Facts:
    """Return the members of a row; raises INVALID."""
    if not isinstance(value, dict):
        raise Error(
            Code.INVALID,
            'a shared replay is a map such as {"filter": "Sensor/#", "from": "-1h", "speed": 10}',
        )
    for name in value:
        if name not in _FIELDS:
            raise Error(
                Code.INVALID,
                f"a shared replay has no {str(name)[:80]!r}{did_you_mean(str(name), _FIELDS)}; it "
                f"has {', '.join(_FIELDS)}",
            )
    return value


def _topics(facts: Facts) -> TopicFilter:
    text = facts.get("filter")
    if not isinstance(text, str) or text.startswith("$"):
        raise Error(
            Code.INVALID,
            "filter is a topic filter such as Sensor/#, and not one of the server's own topics",
        )
    return TopicFilter(text)


def _playing(state: object) -> bool:
    if state not in _STATES:
        raise Error(Code.INVALID, f"state is playing or paused, not {str(state)[:80]!r}")
    return state == "playing"
