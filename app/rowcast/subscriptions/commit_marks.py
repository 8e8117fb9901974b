"""Commit marks: where a reader has all of a transaction, and its topics are as of one position.

A reader that asks for them gets a COMMIT after the last event of each transaction that its filters
select, whatever their number (C23). The mark is not the last event with a flag, because that event
may be withheld, superseded or too large, and the cut through the topics is there all the same.

**No mark inside of a transaction.** Each event tells where its transaction ends
(``transaction_parts.py``). A mark is made when an event of a later transaction follows, or when
everything up to that end was handed over.

**No mark that is not true.** While current records or a part of the log for one filter are read,
the topics are not as of one position: a record that has changed since was left out, and its event
follows. So there is none until all was handed over that the log had when that ended. The same holds
after a RESET. A gap ends where its range ends, and one of conflated events where the page of the
log ends that has the newer ones.

**After a resume** nobody knows whether the client got the last mark. It gets one again for the
position that it named, before the events of the next transaction, or when there are none.

It sees the events before the stage of rights and queries, which may change or withhold them, and
the marks once more after it: one with nothing before it that its reader was shown is left out.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from rowcast.core.events import COMMIT, MESSAGE, RESET, RETAINED, Event
from rowcast.core.limits import COMMIT_LOOK_SECONDS, COMMIT_LOOKS_MAX
from rowcast.core.transaction_parts import is_part, span_of
from rowcast.subscriptions.backfill_queue import BackfillQueue
from rowcast.subscriptions.event_queue import EventQueue
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.progress import Progress
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter, SubscribedFilters


class MarkedCursor(Protocol):
    """The live cursor whose events are marked."""

    progress: Progress
    queue: EventQueue
    interests: SubscribedFilters
    closed: bool
    ready: bool
    commits: "CommitMarks | None"

    @property
    def from_memory(self) -> bool:
        """Whether the next events are in memory, without a read of the log."""

    def signal(self) -> None:
        """Have the reader take again."""


NEVER: Final = 1 << 62
"""A position that no log reaches."""


def mark_from(
    cursor: MarkedCursor,
    backfill: BackfillQueue,
    reader: Reader,
    interests: Iterable[SubscribedFilter],
    position: int,
) -> None:
    """Mark transactions from the position on where filters begin, for those that ask for it.

    A filter that replays the past has no position of its own, and no marks.
    """
    for interest in interests:
        interest.commits = interest.commits and interest.replay is None
        if not interest.commits:
            continue
        if cursor.commits is None:
            cursor.commits = CommitMarks(cursor, backfill, reader)
        cursor.commits.begin(interest, position)


class CommitMarks:
    """The marks of one subscription; ``backfill`` is what its filters get before live events."""

    __slots__ = (
        "_backfill",
        "_concerned",
        "_cursor",
        "_held",
        "_looking",
        "_looks",
        "_need",
        "_pending",
        "_reader",
        "_seen",
        "_until",
    )

    def __init__(self, cursor: MarkedCursor, backfill: BackfillQueue, reader: Reader) -> None:
        self._cursor = cursor
        self._backfill = backfill
        self._reader = reader
        self._concerned: dict[str, SubscribedFilter] = {}
        """The filters that asked, and have had events since their last mark."""
        self._pending = False
        """Whether a mark is due once the reader has everything up to ``_until``."""
        self._until = 0
        """The number that the next mark has: the last one of a transaction."""
        self._need = 0
        """The position at which that is certain, without an event that follows; or NEVER."""
        self._seen = 0
        """The last event that was looked at; those put back come again."""
        self._held = False
        """Whether the topics are not as of one position now."""
        self._looking = False
        self._looks = 0

    # -- filters -----------------------------------------------------------------------------------

    def begin(self, interest: SubscribedFilter, position: int) -> None:
        """Owe a filter a mark, for the position after which it begins."""
        self._concerned[interest.topics.text] = interest
        if len(self._cursor.interests) == 1:
            self._until = self._seen = 0
        self._pending, self._until, self._need = True, max(self._until, position), NEVER
        self._cursor.signal()

    # -- before the stage --------------------------------------------------------------------------

    def marked(self, pairs: list[Pair]) -> list[Pair]:
        """Return events of the log, and what is between them, with marks."""
        made: list[Pair] = []
        for pair in pairs:
            event = pair[0]
            if event.kind in RETAINED or event.kind == MESSAGE:
                if event.seq and event.seq >= self._seen:
                    self._pass(event, made)
            elif isinstance(event, Gap):
                if event.last > self._seen:
                    self._pass_gap(event, made)
            elif event.kind == RESET:
                self._pending = False
            made.append(pair)
        self._end(made)
        return made

    def _pass(self, event: Event, made: list[Pair]) -> None:
        """Take an event of the log into its transaction."""
        first, last = span_of(event)
        if first > self._until:
            self._mark(made)
        self._pending, self._seen, self._looks = True, event.seq, 0
        self._until = self._need = max(self._until, last)

    def _pass_gap(self, gap: Gap, made: list[Pair]) -> None:
        """Take events that are not delivered for delivered ones, as soon as they are told."""
        if gap.after >= self._until:
            self._mark(made)
        whole = self._cursor.progress.read_to if gap.why is GapCause.CONFLATED else gap.last
        self._pending, self._seen = True, gap.last
        self._until = self._need = max(self._until, whole)

    def _mark(self, made: list[Pair]) -> None:
        if self._pending and not self._held:
            made.append((Event("", COMMIT, b"", seq=self._until), None))
            self._pending, self._looks = False, 0

    def _end(self, made: list[Pair]) -> None:
        """Mark what is complete now, or have it looked at again."""
        cursor = self._cursor
        if self._held or (self._pending and self._need == NEVER):
            if not (self._looking or self._backfill.waiting or cursor.progress.page):
                self._looking = True
                # Not now: a transaction may be half announced.
                asyncio.get_running_loop().call_soon(self._settle)
        elif self._pending and cursor.progress.position >= self._need:
            waiting = cursor.queue.events
            if not (waiting and not waiting[0].seq and is_part(waiting[0])):
                self._mark(made)
        elif self._pending and cursor.from_memory and not cursor.ready:
            self._look_later()

    def _settle(self) -> None:
        """End the hold: with the log up to here the topics are as of one position."""
        self._looking, cursor = False, self._cursor
        if cursor.closed or self._backfill.waiting or cursor.progress.page:
            return
        if self._held:  # what the records leave out is in the log already, announced or not
            self._held, self._pending = False, True
            self._until = self._need = max(self._until, self._reader.head())
        elif self._need == NEVER:  # where it began may be inside of a transaction
            self._need = max(self._until, self._reader.announced())
        self._looks = 0
        cursor.signal()

    def _look_later(self) -> None:
        """Take again when the rest of a transaction is announced, which may be for others."""
        if self._looking or self._looks >= COMMIT_LOOKS_MAX:
            return
        seconds = COMMIT_LOOK_SECONDS if self._looks else 0.0
        self._looking, self._looks = True, self._looks + 1
        asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._looking = False
        if self._pending and not self._cursor.closed:
            self._cursor.signal()

    # -- after the stage ---------------------------------------------------------------------------

    def addressed(self, pairs: list[Pair]) -> list[Pair]:
        """Return what is delivered now, each mark for the filters that it concerns."""
        self._held |= bool(self._backfill.waiting)  # also of a query that the stage began anew
        made: list[Pair] = []
        for event, interest in pairs:
            if event.kind != COMMIT:
                self._note(interest)
                made.append((event, interest))
            elif not self._held:
                made += [(event, item) for item in self._audience()]
        return made

    def _note(self, interest: SubscribedFilter | None) -> None:
        """Note that filters that asked have had an event."""
        if interest is None:  # it concerns all
            several = tuple(self._cursor.interests)
        else:
            several = interest.merged or (interest,)
        for item in several:
            if item.commits:
                self._concerned[item.topics.text] = item

    def _audience(self) -> Iterable[SubscribedFilter]:
        """Return the filters that are due a mark, one for each name that the reader gave them."""
        known = self._cursor.interests
        due = {it.identifiers: it for text, it in self._concerned.items() if text in known}
        self._concerned.clear()
        return due.values()
