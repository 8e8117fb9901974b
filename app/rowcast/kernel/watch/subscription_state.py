"""Where a subscription stands: its interests, its position, and what of the log each is still owed.

Interests come, change and go while events are handed over; here is what becomes of the position, of
what is queued, and of the page that is being read. How events come in and go out is the
subscription's own (``subscription.py``), and the rule that holds both together is in its header.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from rowcast.core.callers import SERVER
from rowcast.core.errors import Error
from rowcast.core.events import Event
from rowcast.core.limits import SUBSCRIPTION_QUEUE_BYTES_MAX, SUBSCRIPTION_QUEUE_EVENTS_MAX
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.delivery_filter import Gate
from rowcast.kernel.reader import Reader
from rowcast.kernel.watch.backfill import History, Prelude, Snapshot
from rowcast.kernel.watch.delivery_rate import Pace
from rowcast.kernel.watch.gaps import Account, Gap, Why
from rowcast.kernel.watch.skipped_ranges import current_at, reset
from rowcast.kernel.watch.subscribed_filters import Interest, Interests, Pair
from rowcast.rows.topic_rows import RowFilter


def _room(events: int, size: int) -> tuple[int, int]:
    """Return how many events and bytes may wait; 0 is the usual limit."""
    return events or SUBSCRIPTION_QUEUE_EVENTS_MAX, size or SUBSCRIPTION_QUEUE_BYTES_MAX


class Standing:
    """Interests, a position, and what waits."""

    def __init__(
        self,
        reader: Reader,
        client_id: str = "",
        on_ready: Callable[[], None] | None = None,
        on_full: Callable[[], None] | None = None,
    ) -> None:
        self._reader = reader
        self.client_id = client_id
        self._event = asyncio.Event()
        self.on_ready = on_ready or self._event.set
        self._on_full = on_full
        self.interests = Interests()
        self._queue: deque[Event] = deque()
        self._queue_events_max, self._queue_bytes_max = _room(
            reader.queue_events, reader.queue_bytes
        )
        self._queued_bytes = 0
        self._page: deque[Pair] = deque()
        self._preludes: deque[Prelude] = deque()
        self._pace: Pace | None = None
        self._task: asyncio.Task[None] | None = None
        self._signalled = False
        self._behind = False
        self._reading = False
        self._failure: Error | None = None
        self._doubt = 0
        """Up to where any interest is in doubt of what it had."""
        self._generation = 0
        self.closed = False
        self.owner: object = self
        """Who subscribes, as topic tables count it: itself, or what outlives it."""
        self.caller = SERVER
        """Who reads: whoever watched last."""
        self.gate: Gate | None = None
        """What hooks have between this and its reader; nothing, nearly always."""
        slow = reader.slow
        self._slow = slow if slow is not None and slow.times_writes else None
        """Hears when something is handed over."""
        self.joined = reader.announced()
        """The log's head when the reader came, or its last filter."""
        self.held_since = 0.0
        """From when on it could not take what waits, in seconds since 1970; 0 when it could."""
        self.position = 0
        self._read_to = 0
        """The position when the page has been handed over."""
        self.account = Account(reader.account)
        """What was not passed on, ever."""
        self.fallbacks = 0
        """Times the queue overflowed and the log was read instead."""

    # -- interests ---------------------------------------------------------------------------------

    def add(self, interest: Interest, since: int | None, *, current: bool) -> None:
        """Begin an interest that was put on the bus just now.

        ``since`` is the position to continue from, None for now. ``current``: begin with the
        records as they are. The caller of this is the engine, in the same turn in which it asked
        the bus.
        """
        self.join()
        announced = self.joined
        start = announced if since is None else since
        interest.sources = self._reader.sources(interest.topics)
        if not self.interests:
            self._begin(start)
            self._behind = start < announced
        self._join(interest, start, current=current)
        self.interests.put(interest)
        self._generation += 1
        if interest.marks and since is None and not current:
            self._page.append((current_at(start), interest))
        if self._preludes or self._behind or self._page:
            self._signal()

    def _begin(self, position: int) -> None:
        """Take a place in the log; what was queued for other interests is forgotten."""
        self.position = self._read_to = position
        self._queue.clear()
        self._queued_bytes = 0

    def changed(self, interest: Interest, rows: RowFilter | None) -> None:
        """Hear that a filter begins to select rows, or does no more: their table came or went.

        No row is before this: what is still to be read of the log is read again for it.
        """
        interest.rows = rows
        interest.sources = self._reader.sources(interest.topics)
        self.interests.put(interest)
        self._generation += 1

    def _join(self, interest: Interest, start: int, *, current: bool) -> None:
        """Bring an interest from a position to where all the others are."""
        reached = self._read_to
        if self.interests and not self._reads_on:
            reached = max(reached, self._reader.announced())  # this was not offered for the filter
        interest.floor = max(start, reached) if self.interests else start
        if current:
            interest.current = ""
            self._preludes.append(Snapshot(interest, start))
        if start < interest.floor:
            interest.since = start
            self._preludes.append(History(interest, start, interest.floor, self.client_id))

    @property
    def _reads_on(self) -> bool:
        """Whether all after ``_read_to`` is still to be read from the log, for whoever wants it."""
        return self._reading or (self._behind and not any(event.seq for event in self._queue))

    def replace(self, interest: Interest, *, current: bool) -> None:
        """Change the options of an interest without losing an event (MQTT-3.8.4-3)."""
        old = self.interests[interest.topics.text]
        interest.floor, interest.doubt, interest.sources = old.floor, old.doubt, old.sources
        interest.plain = old.plain if old.qos else old.doubt
        interest.current, interest.since = "" if current else old.current, old.since
        interest.rows = old.rows
        interest.local_floor = old.local_floor if old.no_local else self._reader.announced()
        self.interests.put(interest)
        renewed = self.interests.renewed
        page, self._page = self._page, deque()
        for event, known in page:
            if known is not None and self._is_doubtful(event, interest):
                self._miss_doubted(event)
            else:
                self._page.append((event, renewed(known, old, interest)))
        for event in self._queue:
            if isinstance(event, Gap):
                event.interest = renewed(event.interest, old, interest)
        for item in list(self._preludes):
            if item.interest is old:
                if current and isinstance(item, Snapshot):
                    self._preludes.remove(item)
                else:
                    item.interest = interest
        if current:
            self._preludes.append(Snapshot(interest, None))
            self._signal()

    def _is_doubtful(self, event: Event, interest: Interest) -> bool:
        """Tell whether an event of the page may not come again under an interest's new QoS.

        Before a kill it may have been handed over with the QoS of then. With QoS 0, at most once
        (MQTT 5, 4.3.1), it is left out.
        """
        if isinstance(event, Gap) or not 0 < event.seq <= interest.doubt:
            return False
        return self.interests.wanting(event, self.client_id) is None

    def discard(self, topics: TopicFilter) -> bool:
        """End an interest; return whether there was one."""
        interest = self.interests.pop(topics.text)
        if interest is None:
            return False
        self._preludes = deque(item for item in self._preludes if item.interest is not interest)
        self._page = deque(self._remaining(topics.text))
        self._requeue(event for event in self._queue if self._wanted_still(event, topics.text))
        if not self.interests:
            self._behind = False
        elif self.interests.only is not None:
            self._forward(self.interests.only.floor)
        return True

    def _remaining(self, text: str) -> Iterator[Pair]:
        """Give what of the page is not only for the filter that is gone."""
        for event, interest in self._page:
            if interest is None:
                yield event, None
            elif (still := self.interests.without(interest, text)) is not None:
                yield event, still

    def _wanted_still(self, event: Event, text: str) -> bool:
        """Tell whether what is queued is for any filter that is left."""
        if isinstance(event, Gap):
            if event.interest is None:
                return bool(self.interests)
            event.interest = self.interests.without(event.interest, text)
            return event.interest is not None
        return bool(self.interests.matching(event.topic))

    def _forward(self, position: int) -> None:
        self.position = max(self.position, position)
        self._read_to = max(self._read_to, position)

    def _requeue(self, events: Iterator[Event]) -> None:
        self._queue = deque(events)
        self._queued_bytes = sum(len(event.payload) for event in self._queue)

    def hold_at_most(self, events: int, size: int) -> None:
        """Change how much may wait; what is too much is read from the log again, or is missed.

        0 is the usual limit (K9).
        """
        self._queue_events_max, self._queue_bytes_max = _room(events, size)
        if self._fits:
            return
        if any(event.seq for event in self._queue):  # what comes is refused until it is read back
            self._behind = True
        self._requeue(event for event in self._queue if not event.seq)
        missed: dict[Interest | None, int] = {}
        while not self._fits:
            event = self._queue.popleft()
            self._queued_bytes -= len(event.payload)
            if isinstance(event, Gap):
                missed[event.interest] = missed.get(event.interest, 0) + (event.count or 0)
            elif self.counts(event):
                self.account.add(Why.SLOW)
                missed[None] = missed.get(None, 0) + 1
        self._queue.extendleft(Gap(Why.SLOW, count, of) for of, count in missed.items())
        self._signal()

    @property
    def _fits(self) -> bool:
        most, size = self._queue_events_max, self._queue_bytes_max
        return not self._queue or (len(self._queue) <= most and self._queued_bytes <= size)

    def restart(self, reason: str, token: str, interest: Interest | None = None) -> None:
        """Tell with a RESET that the cursor that a client brought cannot be continued."""
        self._page.append((reset(token, reason, self._reader.announced()), interest))
        self._signal()

    def untold(self) -> list[Gap]:
        """Return, before ``suspend``, what the reader is to be told when it is back.

        What is queued and not logged is lost with its connection; of what is lost in the log, the
        log and ``holes`` tell.
        """
        marks = [
            event
            for event, _ in self._page
            if isinstance(event, Gap) and event.last <= self.position
        ]
        lost = Gap(Why.AWAY)
        for event in self._queue:
            if isinstance(event, Gap):
                marks.append(event)
            elif not event.seq and self.counts(event):
                lost.count = (lost.count or 0) + 1
        if lost.count:
            self.account.add(Why.AWAY, lost.count)
            marks.append(lost)
        return marks

    def counts(self, event: Event) -> bool:
        """Tell whether the reader is to know of an event that it does not get."""
        if self.interests.wanting(event, self.client_id) is None:
            return False
        return self.gate is None or self.gate.may(event)

    def owe(self, marks: list[Gap]) -> None:
        """Tell first of all, before ``resume``, what was not passed on while nobody was here."""
        self._page.extend((mark, mark.interest) for mark in marks)
        if marks:
            self._signal()

    def join(self) -> None:
        """Note that the reader wants something from now on: what was before is not late."""
        self.joined = self._reader.announced()

    def hold(self) -> None:
        """Hear that the reader cannot take what waits for it now."""
        if self._slow is not None and not self.held_since and self.waiting:
            self.held_since = self._slow.now()

    def suspend(self) -> tuple[int, list[Interest]]:
        """End it; return what it takes to go on another time: the position, and the interests.

        What was not handed over is read again then. Unlogged events are lost with the reader.
        """
        owed = {id(prelude.interest) for prelude in self._preludes}
        owed |= {id(interest) for _, interest in self._page}
        for interest in self.interests:
            if id(interest) not in owed:
                interest.since = None
        position, interests = self.settled, list(self.interests)
        self.close()
        return position, interests

    def resume(self, position: int, interests: list[Interest]) -> None:
        """Go on where ``suspend`` left off; the caller has put the interests on the bus just now.

        A position that the log no longer reaches back to gives a RESET, as always.
        """
        self._begin(position)
        self._behind = position < self._reader.announced()
        self._doubt = max((interest.doubt for interest in interests), default=0)
        for interest in interests:
            interest.sources = self._reader.sources(interest.topics)
            self.interests.put(interest)
            if interest.current is not None:
                self._preludes.append(Snapshot(interest, None))
            if interest.since is not None:
                since, floor = interest.since, interest.floor
                self._preludes.append(History(interest, since, floor, self.client_id))
        self._generation += 1
        if self._preludes or self._behind:
            self._signal()

    def close(self) -> None:
        """End it: what waits is forgotten, readers see the end."""
        self.closed = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._queue.clear()
        self._page.clear()
        self._preludes.clear()
        self._signal()

    def _miss_doubted(self, event: Event) -> None:
        """Tell of an event that was perhaps handed over before the server was killed."""
        raise NotImplementedError

    def _signal(self) -> None:
        if not self._signalled:
            self._signalled = True
            self.on_ready()

    # -- how far it is ----------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many events are in memory for the reader."""
        return len(self._queue) + len(self._page)

    @property
    def settled(self) -> int:
        """The position to continue from: the log's head when everything was handed over."""
        if self._drained:
            return max(self.position, self._reader.announced())
        return self.position

    @property
    def _drained(self) -> bool:
        return not (
            self._queue
            or self._page
            or self._preludes
            or self._behind
            or self._task is not None
            or self._failure is not None
        )

    def __iter__(self) -> Iterator[Interest]:
        return iter(self.interests)
