"""A subscription: a live cursor. Its queue is only a cache of the log's head.

The rule: ``position`` is the number up to which everything logged has been handed over. An event
beyond it is either in the queue, or still to come from the bus, or ``behind`` is set and it will be read
from the log. So a reader whose queue overflows loses nothing that is logged; what is not logged and did
not fit is counted and told with a GAP.

Why there is no gap: ``behind`` is cleared before a page of the log is read. An event after the position
was either committed before that read, and is in the page, or is announced after it, and is offered to
the queue (or finds the queue full, and ``behind`` is set again). Why there is nothing twice: one
position, only forward; and each filter has a ``floor``, the position from which it counts.

Current records are read as a prelude. An interest's floor is the announced position at the moment it
was put on the bus: records with a later number are left out of the prelude, because their events are
sure to follow. So the prelude needs no lock and no long transaction.

It does no I/O itself: pages come from the Reader, in one task that exists only while a page is fetched.
It knows nothing of protocols: an edge takes (event, interest) pairs when it can send them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from app.core.cursors import Cursor
from app.core.errors import Code, Error
from app.core.events import (
    CURRENT,
    DELETE,
    GAP,
    MESSAGE,
    PATCH,
    PUT,
    RESET,
    SNAPSHOT,
    Event,
    Record,
)
from app.core.limits import (
    LOG_PAGE_EVENTS,
    MATCH_CACHE_TOPICS_MAX,
    SCAN_PAGE_RECORDS,
    SUBSCRIPTION_QUEUE_BYTES_MAX,
    SUBSCRIPTION_QUEUE_EVENTS_MAX,
)
from app.core.tables import Table
from app.core.topics import TopicFilter
from app.engine.reader import Reader

READ_TO: Final = "read to"
"""Not for readers: the log was read up to here, and the rest of the page was not for this reader."""
LOGGED: Final = frozenset({PUT, PATCH, DELETE, MESSAGE, READ_TO})
"""Kinds whose number moves the position."""


class Interest:
    """One filter of a subscription, and how its reader wants what it selects.

    ``floor`` is the position after which logged events count for it. The rest is the edge's: the MQTT
    options (3.8.3.1), which the engine only carries.
    """

    __slots__ = (
        "floor",
        "form",
        "identifiers",
        "marks",
        "no_local",
        "qos",
        "retain_as_published",
        "tables",
        "topics",
    )

    def __init__(
        self,
        topics: TopicFilter,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        identifiers: tuple[int, ...] = (),
        marks: bool = True,
        form: object = None,
    ) -> None:
        self.topics = topics
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.identifiers = identifiers
        self.marks = marks
        """Whether the reader wants CURRENT after the current records."""
        self.form = form
        """The edge's own: in which form it wants what is delivered."""
        self.floor = 0
        self.tables: list[Table | None] = []


Pair = tuple[Event, Interest | None]
"""An event and the interest it is for; markers that concern all interests have None."""


class Prelude:
    """What an interest gets before the live events: a page at a time."""

    __slots__ = ("after", "interest", "tables", "until")

    def __init__(self, interest: Interest, after: int | None = None, until: int = 0) -> None:
        self.interest = interest
        self.after: str | int = "" if after is None else after
        self.tables = deque(interest.tables)
        self.until = until


class Subscription:
    """Filters, a position and a bounded queue."""

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
        self.interests: dict[str, Interest] = {}
        self._only: Interest | None = None
        self._by_topic: dict[str, tuple[Interest, ...]] = {}
        self._by_set: dict[tuple[Interest, ...], Interest] = {}
        self._queue: deque[Event] = deque()
        self._queued_bytes = 0
        self._page: deque[Pair] = deque()
        self._preludes: deque[Prelude] = deque()
        self._task: asyncio.Task[None] | None = None
        self._signalled = False
        self._behind = False
        self._dropped = 0
        self._failure: Error | None = None
        self.closed = False
        self.position = 0
        self.dropped = 0
        """Unlogged events that did not fit, ever."""
        self.fallbacks = 0
        """Times the queue overflowed and the log was read instead."""

    # -- interests -------------------------------------------------------------------------------------

    def add(self, interest: Interest, since: int | None, *, current: bool) -> None:
        """Begin an interest that was put on the bus just now.

        ``since`` is the position to continue from, None for now. ``current``: begin with the records as
        they are. The caller of this is the engine, in the same turn in which it asked the bus.
        """
        announced = self._reader.announced()
        first = not self.interests
        interest.tables = self._reader.tables(interest.topics)
        interest.floor = announced if since is None else since
        self.interests[interest.topics.text] = interest
        self._changed()
        if first:
            self.position = interest.floor
            self._behind = interest.floor < announced
        elif since is not None and since < self.position:
            self._preludes.append(Prelude(interest, since, self.position))
        if current:
            self._preludes.append(Prelude(interest))
        elif interest.marks and since is None:
            self._page.append((Event("", CURRENT, b"", seq=interest.floor), interest))
        if self._preludes or self._behind or self._page:
            self._signal()

    def replace(self, interest: Interest, *, current: bool) -> None:
        """Change the options of an interest without losing an event (MQTT-3.8.4-3)."""
        old = self.interests[interest.topics.text]
        interest.floor, interest.tables = old.floor, old.tables
        self.interests[interest.topics.text] = interest
        self._preludes = deque(item for item in self._preludes if item.interest is not old)
        self._changed()
        if current:
            prelude = Prelude(interest, until=self._reader.announced())
            self._preludes.append(prelude)
            self._signal()

    def discard(self, topics: TopicFilter) -> bool:
        """End an interest; return whether there was one."""
        interest = self.interests.pop(topics.text, None)
        if interest is None:
            return False
        self._preludes = deque(item for item in self._preludes if item.interest is not interest)
        self._page = deque(pair for pair in self._page if pair[1] is not interest)
        self._changed()
        self._queue = deque(event for event in self._queue if self._matching(event.topic))
        if self._only is not None:
            self.position = max(self.position, self._only.floor)
        return True

    def _changed(self) -> None:
        self._by_topic.clear()
        self._by_set.clear()
        interests = list(self.interests.values())
        self._only = interests[0] if len(interests) == 1 else None

    def close(self) -> None:
        """End it: what waits is forgotten, readers see the end."""
        self.closed = True
        if self._task is not None:
            self._task.cancel()
        self._queue.clear()
        self._page.clear()
        self._signal()

    # -- the bus's side --------------------------------------------------------------------------------

    def offer(self, event: Event) -> None:
        """Take an event from the bus. A logged one may be refused: it is read back later."""
        if event.seq and self._behind:
            return
        queue = self._queue
        if (
            len(queue) >= SUBSCRIPTION_QUEUE_EVENTS_MAX
            or self._queued_bytes >= SUBSCRIPTION_QUEUE_BYTES_MAX
        ):
            if self._on_full is not None:
                self._on_full()  # a reader that can send now makes room at once
            if queue:
                self._refuse(event)
                return
        queue.append(event)
        self._queued_bytes += len(event.payload)
        if not self._signalled:
            self._signalled = True
            self.on_ready()

    def _refuse(self, event: Event) -> None:
        if event.seq:
            self._behind = True
            self.fallbacks += 1
        else:
            self._dropped += 1
            self.dropped += 1

    def _signal(self) -> None:
        if not self._signalled:
            self._signalled = True
            self.on_ready()

    # -- the reader's side -----------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many events are in memory for the reader."""
        return len(self._queue) + len(self._page)

    @property
    def settled(self) -> int:
        """The position to continue from: the log's head when everything was handed over."""
        if self._page or self._preludes or self._queue or self._behind or self._task is not None:
            return self.position
        return max(self.position, self._reader.announced())

    def take(self, limit: int) -> list[Pair]:
        """Return what can be handed over now, in order; at most ``limit`` pairs.

        An empty list means: wait for ``on_ready``. Raises the Error that ended the subscription.
        """
        out: list[Pair] = []
        if self._page:
            self._take_page(out, limit)
        if self._failure is not None and not out:
            raise self._failure
        if self._task is None and not self._page:
            if self._preludes or (self._behind and not self._queue):
                self._fetch()
            elif self._queue:
                self._take_queue(out, limit)
                if self._behind and not self._queue and len(out) < limit:
                    self._fetch()
            if self._dropped and not self._queue and len(out) < limit:
                out.append(self._gap())
        if not out:
            self.position = self.settled
            self._signalled = False
            self._event.clear()
        return out

    async def batch(self, limit: int) -> list[Pair]:
        """Wait for something to hand over; an empty list means that the subscription is closed."""
        while True:
            if self.closed:
                return []
            pairs = self.take(limit)
            if pairs:
                return pairs
            await self._event.wait()

    def _take_page(self, out: list[Pair], limit: int) -> None:
        page = self._page
        while page and len(out) < limit:
            pair = page.popleft()
            event = pair[0]
            if event.kind in LOGGED and event.seq > self.position:
                self.position = event.seq
            if event.kind != READ_TO:
                out.append(pair)

    def _take_queue(self, out: list[Pair], limit: int) -> None:
        queue, only, position = self._queue, self._only, self.position
        plain = only is not None and not only.no_local
        while queue and len(out) < limit:
            event = queue.popleft()
            seq = event.seq
            if seq:
                if seq <= position:
                    continue
                position = seq
            interest = only if plain else self._interest(event)
            if interest is not None:
                out.append((event, interest))
        self.position = position
        if not queue:
            self._queued_bytes = 0

    def _gap(self) -> Pair:
        count, self._dropped = self._dropped, 0
        facts = {"count": count, "reason": "this reader was too slow; these events are not logged"}
        return Event("", GAP, b"", decoded=facts, seq=0), None

    def _interest(self, event: Event) -> Interest | None:
        """Return for which interest an event is; several matching ones are merged (MQTT-3.3.4-2)."""
        matching = self._matching(event.topic)
        local = self.client_id and event.client == self.client_id
        wanted = tuple(
            interest
            for interest in matching
            if (not event.seq or event.seq > interest.floor) and not (local and interest.no_local)
        )
        if len(wanted) < 2:
            return wanted[0] if wanted else None
        merged = self._by_set.get(wanted)
        if merged is None:
            merged = self._by_set[wanted] = _merge(wanted)
        return merged

    def _matching(self, topic: str) -> tuple[Interest, ...]:
        found = self._by_topic.get(topic)
        if found is None:
            if len(self._by_topic) >= MATCH_CACHE_TOPICS_MAX:
                self._by_topic.clear()
            found = tuple(item for item in self.interests.values() if item.topics.matches(topic))
            self._by_topic[topic] = found
        return found

    # -- pages -----------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._fetch_page())

    async def _fetch_page(self) -> None:
        """Fetch one page: of the first prelude, else of the log."""
        try:
            if self._preludes:
                await self._run_prelude(self._preludes[0])
            else:
                await self._read_log()
        except Error as error:
            self._failure = error
        except Exception:
            self._failure = Error(Code.BUSY, "the store could not be read; try again")
            raise
        finally:
            self._task = None
            self._signalled = False
            self._signal()

    async def _run_prelude(self, prelude: Prelude) -> None:
        if isinstance(prelude.after, int):
            await self._run_history(prelude, prelude.after)
            return
        interest = prelude.interest
        if prelude.tables:
            table = prelude.tables[0]
            page = await self._reader.scan(
                table, interest.topics, prelude.after, SCAN_PAGE_RECORDS
            )
            limit = prelude.until or interest.floor
            self._page.extend(
                (snapshot_of(record), interest) for record in page.records if record.seq <= limit
            )
            if page.more and page.records:
                prelude.after = page.records[-1].topic
                return
            prelude.tables.popleft()
            prelude.after = ""
        if not prelude.tables:
            self._finish_prelude(prelude)
            if interest.marks:
                limit = prelude.until or interest.floor
                self._page.append((Event("", CURRENT, b"", seq=limit), interest))

    def _finish_prelude(self, prelude: Prelude) -> None:
        if self._preludes and self._preludes[0] is prelude:
            self._preludes.popleft()

    async def _run_history(self, prelude: Prelude, after: int) -> None:
        """Bring one interest from its own cursor to the position that the others have."""
        interest = prelude.interest
        if await self._reader.trimmed(interest.tables) > after:
            self._finish_prelude(prelude)
            self._reset([interest], after)
            return
        page = await self._reader.read(after, LOG_PAGE_EVENTS, interest.tables)
        for event in page:
            if event.seq <= prelude.until and interest.topics.matches(event.topic):
                self._page.append((event, interest))
        if len(page) < LOG_PAGE_EVENTS or page[-1].seq >= prelude.until:
            interest.floor = max(interest.floor, prelude.until)
            self._finish_prelude(prelude)
        else:
            prelude.after = page[-1].seq

    async def _read_log(self) -> None:
        """Read the next page after the position. See the header for why nothing is lost."""
        tables = self._tables()
        start = self.position
        self._behind = False
        try:
            lost = await self._reader.trimmed(tables)
            page = [] if lost > start else await self._reader.read(start, LOG_PAGE_EVENTS, tables)
        except BaseException:
            self._behind = True
            raise
        if lost > start:
            self._reset(list(self.interests.values()), start)
            return
        if len(page) == LOG_PAGE_EVENTS:
            self._behind = True  # more is there; what was queued meanwhile will be read in its turn
            self._queue = deque(event for event in self._queue if not event.seq)
        for event in page:
            interest = self._interest(event)
            if interest is not None:
                self._page.append((event, interest))
        if page:
            self._advance(page[-1].seq)

    def _advance(self, seq: int) -> None:
        """Note how far the log was read: at once if nothing of the page is for this reader."""
        if not self._page:
            self.position = max(self.position, seq)
        else:
            self._page.append((Event("", READ_TO, b"", seq=seq), None))

    def _tables(self) -> list[Table | None]:
        tables: dict[Table | None, None] = {}
        for interest in self.interests.values():
            tables.update(dict.fromkeys(interest.tables))
        return list(tables)

    def _reset(self, interests: list[Interest], since: int) -> None:
        """Start anew: one RESET, then the current records (FEATURES C11)."""
        announced = self._reader.announced()
        facts = {"from": str(Cursor(self._reader.epoch, since)), "reason": "no longer in the log"}
        self._page.append((Event("", RESET, b"", seq=announced, decoded=facts), None))
        if len(interests) == len(self.interests):
            self.position = announced
            self._behind = False
            self._queue = deque(event for event in self._queue if not event.seq)
        for interest in interests:
            interest.floor = announced
            self._preludes.append(Prelude(interest))

    def restart(self, reason: str, token: str) -> None:
        """Begin with a RESET, because the cursor that a client brought cannot be continued."""
        facts = {"from": token, "reason": reason}
        self._page.append(
            (Event("", RESET, b"", seq=self._reader.announced(), decoded=facts), None)
        )
        self._signal()

    def __iter__(self) -> Iterator[Interest]:
        return iter(self.interests.values())


def snapshot_of(record: Record) -> Event:
    """Return a record as the first thing a reader hears of it; caches are shared."""
    event = Event(
        record.topic, SNAPSHOT, record.payload, record.content_type, record.qos, True,
        record.table, record.client, record.properties, record.expires_at, record.seq,
        record.version, record.decoded,
    )
    event.encodings = record.encodings
    return event


def _merge(interests: tuple[Interest, ...]) -> Interest:
    """Merge overlapping interests: the highest QoS, every identifier (MQTT-3.3.4-2, -3, -4)."""
    merged = Interest(
        interests[0].topics,
        qos=max(item.qos for item in interests),
        retain_as_published=any(item.retain_as_published for item in interests),
        identifiers=tuple(number for item in interests for number in item.identifiers),
        form=interests[0].form,
    )
    merged.floor = min(item.floor for item in interests)
    return merged


