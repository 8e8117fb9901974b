"""Slow subscriptions: who was given something later than it should be, the worst first (O7).

How late is measured in one of three ways, each of one message, the oldest, of those that are
handed over together:

- ``internal``: from its arrival until it is written to its reader's socket.
- ``response``: from then until it is acknowledged (PUBACK, PUBCOMP). Without QoS there is none.
- ``whole``: from its arrival until it is acknowledged, or, where it is not to be, is written.

A message arrives when the kernel takes it, with its version, so nothing is noted of it on its way;
what is not logged has none, and counts from when its reader could not take it, or is sent it. What
was there before its reader came is not late, but for its ``response``, and neither is what was
first made elsewhere or at another time (``writes/last_write_wins.py``).

The list is bounded, and forgets who was not slow again. It knows no protocol: who hands over says
so. As long as nothing is slow, it costs a look at the clock for all that is handed over together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from rowcast.core.callers import Caller, levels_of
from rowcast.core.clock import PER_SECOND, WallClock, seconds_of
from rowcast.core.events import SNAPSHOT, Event
from rowcast.core.histograms import Histogram
from rowcast.core.slow_limits import (
    SLOW_EXPIRE_SECONDS,
    SLOW_HEAP_FACTOR,
    SLOW_LOOK_SECONDS,
    SLOW_MEASURED_EVERY,
    SLOW_THRESHOLD_MS,
    SLOW_TOP,
)
from rowcast.subscriptions.delivery import Acknowledged, Delivered, Recipient, Sent
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter
from rowcast.writes.last_write_wins import is_stamped

_OWN: Final = "server"
"""The door of those readers that are parts of the server."""


class Measure(StrEnum):
    """What is measured; these words are settings."""

    WHOLE = "whole"
    INTERNAL = "internal"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class SlowSettings:
    """What is slow, and how much of it is kept; ``top`` 0 keeps nothing, and nothing is timed."""

    measure: Measure = Measure.WHOLE
    threshold_ms: int = SLOW_THRESHOLD_MS
    top: int = SLOW_TOP
    expire_seconds: float = SLOW_EXPIRE_SECONDS


class Slow:
    """One entry: a reader and a topic, and how late it was given something there."""

    __slots__ = ("caller", "count", "filter", "first", "last", "qos", "seconds", "topic", "worst")

    def __init__(self, caller: Caller, topic: str, now: float) -> None:
        self.caller = caller
        self.topic = topic
        self.filter = ""
        self.qos = 0
        self.seconds = self.worst = 0.0
        """How late it was last, and at most."""
        self.count = 0
        self.first = self.last = now


class Timers(Protocol):
    """What of an event loop is wanted."""

    def call_later(self, delay: float, call: Callable[[], None], /) -> object:
        """Call it when so many seconds are over."""


class Seams(Protocol):
    """Where deliveries are heard of."""

    delivered: list[Delivered]
    acknowledged: list[Acknowledged]


class SlowSubscriptions:
    """The list. ``changed`` hears which of its rows is another now, is new, or is gone.

    ``lags`` has how late some deliveries were, slow or not, by the door of their readers.
    """

    _until_measured = 1

    def __init__(
        self,
        settings: SlowSettings,
        now: WallClock,
        timers: Timers,
        changed: Callable[[str, str], None],
    ) -> None:
        measure, on = settings.measure, settings.top > 0
        self.settings = settings
        self.now = now
        self.times_writes = on and measure is not Measure.RESPONSE
        """Whether ``delivered`` is to be called."""
        self.times_answers = on and measure is not Measure.INTERNAL
        """Whether ``acknowledged`` is to be called."""
        self.whole = measure is Measure.WHOLE
        self._timers = timers
        self._changed = changed
        self._seconds = settings.threshold_ms / 1000
        self._entries: dict[str, Slow] = {}
        self._least: list[tuple[float, str]] = []
        """A heap of how late they were once; what is out of date is left out in its turn."""
        self._news: dict[str, str] = {}
        """What happened to rows since watchers were told; twice as many as there are, at most."""
        self._reported: set[str] = set()
        """The rows that watchers know."""
        self._looks = False
        self.total = 0
        """How often anything was slow."""
        self.lags: dict[str, Histogram] = {}

    def __len__(self) -> int:
        return len(self._entries)

    # -- measuring ---------------------------------------------------------------------------------

    def listen(self, seams: Seams) -> None:
        """Hear of deliveries from now on, as far as this measure needs them."""
        if self.times_writes:
            seams.delivered.append(self)
        if self.times_answers:
            seams.acknowledged.append(self)

    def blocked(self, recipient: Recipient) -> None:
        """Note from when on a reader cannot take what waits for it."""
        recipient.blocked_since = self.now()

    def delivered(self, recipient: Recipient, pairs: Sequence[Pair]) -> None:
        """Hear what is written to a reader now: the first message counts, which is the oldest."""
        now, held = self.now(), recipient.blocked_since
        self._until_measured -= 1
        if not self._until_measured:
            self._measure(recipient, pairs[0][0], now)
        if now - (pairs[0][0].version / PER_SECOND or held or now) < self._seconds:
            recipient.blocked_since = 0.0
            return
        recipient.blocked_since = 0.0
        first = next(((event, of) for event, of in pairs if event.topic), None)  # no mark
        if first is None:
            return
        event, interest = first
        qos = min(event.qos, interest.qos) if interest is not None else 0
        if qos and self.times_answers:
            return  # it is not over before it is acknowledged
        since = seconds_of(event.version) if _arrived_after(event, recipient.joined) else held
        if since:
            self._note(recipient.caller, event.topic, interest, qos, now - since)

    def _measure(self, recipient: Recipient, event: Event, now: float) -> None:
        """Count how late an event is, if the reader was there when it arrived."""
        self._until_measured = SLOW_MEASURED_EVERY
        if event.version and _arrived_after(event, recipient.joined):
            found = self.lags.setdefault(recipient.caller.door, Histogram())
            found.observe(max(0.0, now - seconds_of(event.version)))

    def acknowledged(self, caller: Caller, joined: int, sent: Sent) -> None:
        """Hear that a message is acknowledged."""
        event, interest, sent_at, again = sent
        from_arrival = self.whole and not again and event.version
        seconds = self.now() - (event.version / PER_SECOND if from_arrival else sent_at)
        if seconds < self._seconds or (from_arrival and not _arrived_after(event, joined)):
            return
        self._note(caller, event.topic, interest, min(event.qos, interest.qos), seconds)

    def _note(
        self,
        caller: Caller,
        topic: str,
        interest: SubscribedFilter | None,
        qos: int,
        seconds: float,
    ) -> None:
        if seconds < self._seconds or caller.door == _OWN:
            return
        self.total += 1
        name = f"{levels_of(caller)}/{topic}"
        entry = self._entries.get(name)
        if entry is None:
            if not self._has_room(seconds):
                return
            entry = self._entries[name] = Slow(caller, topic, self.now())
        entry.caller, entry.qos = caller, qos
        entry.filter = interest.topics.text if interest is not None else ""
        entry.seconds, entry.worst = seconds, max(seconds, entry.worst)
        entry.count, entry.last = entry.count + 1, self.now()
        self._push(name, seconds)
        self._news[name] = "slow"
        self._look_later()

    # -- the list ----------------------------------------------------------------------------------

    def _has_room(self, seconds: float) -> bool:
        """Make room for one that was so late, unless all that are there were later."""
        if len(self._entries) < self.settings.top:
            return True
        while True:
            least, name = self._least[0]
            entry = self._entries.get(name)
            if entry is not None and entry.seconds == least:
                break
            heappop(self._least)
        if seconds <= least:
            return False
        heappop(self._least)
        self._forget(name)
        return True

    def _push(self, name: str, seconds: float) -> None:
        heappush(self._least, (seconds, name))
        if len(self._least) > SLOW_HEAP_FACTOR * self.settings.top:
            self._least = [(entry.seconds, key) for key, entry in self._entries.items()]
            heapify(self._least)

    def _forget(self, name: str) -> None:
        del self._entries[name]
        if name in self._reported:
            self._news[name] = "forgotten"
        else:  # it came and went between two looks
            self._news.pop(name, None)

    def names(self) -> list[str]:
        """Return the names of all entries, the latest first."""
        self._expire()
        return sorted(self._entries, key=lambda name: -self._entries[name].seconds)

    def entry(self, name: str) -> Slow | None:
        """Return an entry."""
        self._expire()
        return self._entries.get(name)

    def forget(self, name: str = "") -> bool:
        """Forget an entry, or all; return whether there was any."""
        names = [name] if name else list(self._entries)
        found = [item for item in names if item in self._entries]
        for item in found:
            self._forget(item)
        self._look_later()
        return bool(found)

    def _expire(self) -> None:
        before = self.now() - self.settings.expire_seconds
        for name in [key for key, entry in self._entries.items() if entry.last < before]:
            self._forget(name)

    def _look_later(self) -> None:
        """Look at the list soon; with nothing in it and nothing to tell, there are no looks."""
        if not self._looks and (self._entries or self._news):
            self._looks = True
            self._timers.call_later(SLOW_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Forget what is over, and tell whoever watches what has happened since the last look."""
        self._looks = False
        self._expire()
        news, self._news = self._news, {}
        self._reported = set(self._entries)
        for name, happened in news.items():
            self._changed(name, happened)
        self._look_later()


def _arrived_after(event: Event, position: int) -> bool:
    """Whether an event's version is when it arrived, and it did after a position."""
    if not event.version or event.seq <= position:
        return False
    return event.kind != SNAPSHOT and not is_stamped(event)
