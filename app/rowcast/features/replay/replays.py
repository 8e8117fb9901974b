"""Replays: reads what filters ask for, begins a feed for each, and counts them (M6)."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.moments import Moment, bygone_of, moment_of
from rowcast.core.replays import EVENTS, RECORDS, REPLAY_PREFIX, ReplayName, replay_of, speed_of
from rowcast.core.topics import TopicFilter
from rowcast.features.replay.feed import Feed, Loop
from rowcast.features.replay.playhead import Playhead
from rowcast.features.replay.replay_stage import ReplayStage
from rowcast.features.replay.settings import ReplaySection
from rowcast.features.replay.shared import SharedReplays
from rowcast.kernel.kernel import Kernel
from rowcast.routes.excluded_tables import PROTOCOLS, check_not_excluded
from rowcast.seams.replay_points import ReplayPoints, ReplayReader
from rowcast.subscriptions.live_replay import LiveReplay
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filter import SubscribedFilter

_ANONYMOUS: Final = "anonymous"


@dataclass(slots=True)
class _Running:
    """A feed, and whom it counts for."""

    feed: Feed
    who: str


class Replays(ReplayPoints):
    """The replays of one kernel; ``loop`` is the clock, None: that of the running loop."""

    def __init__(
        self,
        kernel: Kernel,
        shared: SharedReplays,
        settings: ReplaySection,
        loop: Loop | None = None,
    ) -> None:
        self._kernel = kernel
        self.shared = shared
        self._settings = settings
        self.loop = loop
        self._running: dict[tuple[ReplayReader, str], _Running] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._running)

    # -- reading what is asked for -----------------------------------------------------------------

    def plan(self, interest: SubscribedFilter, caller: Caller) -> None:
        """Set the replay that an interest names; raises INVALID, NOT_FOUND."""
        name = replay_of(self._named(interest.topics.text))
        interest.qos = 0  # it ends with its connection, and is in the log
        interest.replay = self._shared(name) or self._own(name)
        self._check(interest.replay.topics, caller)

    def _named(self, text: str) -> str:
        """Return a filter without a leading slash of a declared path in it."""
        first, _, rest = text.partition("/")
        spelt, slash, topics = rest.partition("/")
        return f"{first}/{spelt}/{self._kernel.registry.named(topics)}" if slash else text

    def _shared(self, name: ReplayName) -> LiveReplay | None:
        """Return the part of a shared replay that a filter names; None if it names none."""
        shared = self.shared.get(name.start)
        if shared is None or not name.prefix.startswith(REPLAY_PREFIX):
            return None
        topics = name.topics if not name.topics.covers(shared.topics) else shared.topics
        if not shared.topics.covers(topics):
            raise Error(
                Code.INVALID,
                f"the shared replay {shared.name!r} has {shared.topics.text!r}, and not all of "
                f"{topics.text[:200]!r}",
            )
        return LiveReplay(topics, name.prefix, shared.target, speed=0.0, shared=shared.name)

    def _own(self, name: ReplayName) -> LiveReplay:
        now = self._kernel.now()
        try:
            start = bygone_of(name.start, "from", now)
        except Error as error:
            if name.start and name.prefix.startswith(REPLAY_PREFIX):
                error.message += "; and there is no shared replay of that name"
            raise
        return LiveReplay(
            name.topics,
            name.prefix,
            start if start.cursor else start.later(1),
            None if name.end is None else moment_of(name.end, "to", now),
            name.speed,
            records=name.what != EVENTS,
            events=name.what != RECORDS,
        )

    def _check(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise for topics that cannot be replayed, or are not offered to this door."""
        kernel = self._kernel
        if topics.prefix and caller.door in PROTOCOLS:
            check_not_excluded(kernel.registry.route(topics.prefix).table, caller.door)
        rows = kernel.reader.rows(topics)
        if rows is not None:
            raise Error(
                Code.INVALID,
                f"the rows of {rows.view.table.name} are not replayed; replay the topics that they "
                "are of",
            )

    async def find(self, interest: SubscribedFilter) -> None:
        """Find the positions of a planned replay in the log; raises INVALID, GONE."""
        replay, past = interest.replay, self._kernel.past
        if replay is None:
            return
        head, shared = self._kernel.reader.announced(), self.shared.get(replay.shared)
        if shared is not None:
            replay.start, replay.end, head = shared.now(), None, shared.until
        replay.after = min(head, await past.place(replay.topics, replay.start))
        end = head if replay.end is None else await past.place(replay.topics, replay.end)
        replay.until = min(head, end)
        if replay.end is not None and _is_reversed(replay.start, replay.end, replay.after, end):
            raise Error(Code.INVALID, "from is after to; a replay begins before it ends")

    # -- readers -----------------------------------------------------------------------------------

    def enter(self, reader: ReplayReader, interest: SubscribedFilter) -> None:
        """Begin a replay to a reader; raises BUSY."""
        replay, kernel = interest.replay, self._kernel
        if replay is None or replay.after < 0:
            raise Error(Code.UNSUPPORTED, "a replay is not begun here; subscribe to it over a door")
        who = self._counted(reader.caller)
        shared, loop = self.shared.get(replay.shared), self.loop or asyncio.get_running_loop()
        playhead = Playhead(loop.time, replay.speed) if shared is None else shared.playhead
        feed = Feed(reader, interest, replay, playhead, kernel.past, kernel.reader, loop)
        self._counts[who] += 1
        self._running[reader, interest.topics.text] = _Running(feed, who)
        if shared is not None:
            shared.feeds[feed] = None
        feed.start()

    def _counted(self, caller: Caller) -> str:
        """Return whom a replay counts for; raises BUSY when that has enough, or all have."""
        who = f"{caller.user} {caller.peer}" if caller.user == _ANONYMOUS else caller.user
        most = self._settings.max_per_user
        if self._counts[who] >= most:
            raise Error(
                Code.BUSY,
                f"{caller.user} has {most} replays, and may have no more; end one that is no "
                "longer needed, or raise replay.max_per_user",
            )
        if len(self._running) >= self._settings.max:
            raise Error(
                Code.BUSY,
                f"there are {self._settings.max} replays, and no more are allowed; try again when "
                "one has ended, or raise replay.max",
            )
        return who

    def leave(self, reader: ReplayReader, interest: SubscribedFilter) -> None:
        """End it."""
        running = self._running.pop((reader, interest.topics.text), None)
        if running is None:
            return
        running.feed.stop()
        self._counts[running.who] -= 1
        if not self._counts[running.who]:
            del self._counts[running.who]
        shared = self.shared.get(running.feed.replay.shared)
        if shared is not None:
            shared.feeds.pop(running.feed, None)

    def stage(self, plain: Stage | None, inner: Stage | None) -> Stage:
        """Return the stage of a reader with replays."""
        return ReplayStage(plain, inner)

    # -- a reader's own replay ---------------------------------------------------------------------

    def own(self, reader: ReplayReader, text: str) -> Feed:
        """Return the feed of a reader that it may change; raises NOT_FOUND, NOT_ALLOWED."""
        running = self._running.get((reader, text))
        if running is None:
            raise Error(Code.NOT_FOUND, "there is no such replay on this connection")
        shared = running.feed.replay.shared
        if shared:
            raise Error(
                Code.NOT_ALLOWED,
                f"this replay is shared; change it at $SYS/replays/{shared}, if you may",
            )
        return running.feed

    def pause(self, feed: Feed, *, playing: bool) -> None:
        """Pause a replay, or go on."""
        feed.playhead.change(playing=playing)

    def set_speed(self, feed: Feed, speed: object) -> None:
        """Change the speed of a replay; raises INVALID."""
        feed.playhead.change(speed=speed_of(speed))

    async def seek(self, feed: Feed, at: object) -> int:
        """Go on at another moment, with its records; return its position. Raises INVALID, GONE."""
        target = bygone_of(at, "at", self._kernel.now())
        target = target if target.cursor else target.later(1)
        position = await self._kernel.past.place(feed.replay.topics, target)
        if position > feed.replay.until:
            raise Error(
                Code.INVALID, "at is after the end of the replay; seek to an earlier moment"
            )
        feed.playhead.seek(None if target.cursor else target.version)
        feed.move(target)
        return position


def replays_of(kernel: Kernel) -> Replays:
    """Return the replays of a kernel; raises UNSUPPORTED where the feature is not installed."""
    replays = kernel.service(Replays)
    if replays is None:
        raise Error(Code.UNSUPPORTED, "this server replays nothing; read the past with asof")
    return replays


def _is_reversed(start: Moment, end: Moment, after: int, until: int) -> bool:
    """Whether a replay ends before it begins: by times if it has two, else by positions."""
    if start.cursor or end.cursor:
        return after > until
    return start.version - 1_000 > end.version  # the start is the end of its millisecond
