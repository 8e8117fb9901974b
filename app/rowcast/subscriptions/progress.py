"""Progress of one live cursor: its position in the log, and the page read but not delivered.

A page has events of the log or of a backfill, gaps and other marks, each with its filter. The
position advances when events are delivered, not when they are read, so that a cursor that is
interrupted in between reads them again.

One filter may match the row of an event at an undeclared topic, and another the event itself. Then
both are in the page, the row first, and the position advances with the event: a reader that is
disconnected between the two gets the row again, but never misses the event.
"""

from collections.abc import Sequence
from typing import Final

from rowcast.core.events import Event
from rowcast.core.fairness_limits import SUBSCRIPTION_TAKE_MATCHES_MAX
from rowcast.rows.topic_rows import Row
from rowcast.subscriptions.gaps import Gap, GapCause, LossCounter
from rowcast.subscriptions.live_query import is_midway, step_of
from rowcast.subscriptions.skipped_ranges import LOGGED, READ_TO, SkippedRange, is_reported, read_to
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter, SubscribedFilters

_READ_AGAIN: Final = frozenset({GapCause.DOUBTFUL, GapCause.CONFLATED})
"""Gaps that are recreated with their page if they were not delivered."""


class Progress:
    """A position, and the page after it."""

    __slots__ = (
        "behind",
        "doubt",
        "page",
        "position",
        "read_to",
        "reading",
        "take_bytes",
        "take_matches",
        "unqueued",
    )

    def __init__(self, take_bytes: int, take_matches: int = SUBSCRIPTION_TAKE_MATCHES_MAX) -> None:
        self.take_bytes = take_bytes
        """Payload bytes after which one hand-over ends."""
        self.take_matches = take_matches
        """Matches of several filters with one event, after which it ends."""
        self.position = 0
        """The position up to which all logged events were delivered."""
        self.read_to = 0
        """The position after the page."""
        self.page: list[Pair] = []
        """Events read and not delivered yet."""
        self.behind = False
        """Whether events after the page and the queue must be read from the log."""
        self.unqueued = 0
        """The greatest number of an event that was offered, and left to a read of the log."""
        self.reading = False
        """Whether a page of the log is being read."""
        self.doubt = 0
        """The maximum of ``SubscribedFilter.doubt``."""

    def begin(self, position: int) -> None:
        """Start at a position of the log."""
        self.position = self.read_to = position

    def forward(self, position: int) -> None:
        """Advance to a position: all events up to it were delivered, or do not match."""
        self.position = max(self.position, position)
        self.read_to = max(self.read_to, position)

    def read(self, page: Sequence[Event]) -> None:
        """Set ``read_to`` to the end of a page of the log."""
        if page and page[-1].seq:
            self.read_to = max(self.read_to, page[-1].seq)
            self.page.append((read_to(page[-1].seq), None))

    def discard(self, text: str, filters: SubscribedFilters) -> None:
        """Remove events that only the removed filter ``text`` matches."""
        page, self.page = self.page, []
        for event, interest in page:
            if interest is None:
                self.page.append((event, None))
            elif (still := filters.without(interest, text)) is not None:
                self.page.append((event, still))

    def unreported(self) -> list[Gap]:
        """Return the gaps of the page that would not be recreated after a resume."""
        gaps = (event for event, _ in self.page if isinstance(event, Gap))
        return [gap for gap in gaps if gap.last <= self.position]

    def skip(self, skipped: SkippedRange) -> None:
        """Skip a range of the log, and report its events with gaps."""
        self.read_to = max(self.read_to, skipped.last)
        self.page.append((read_to(skipped.last), None))  # before the gaps: all are sent, or none
        self.page.extend(skipped.marks())

    def lose(self, event: Event, interest: SubscribedFilter | None, why: GapCause) -> None:
        """Count an undelivered event of a page; consecutive ones form one gap."""
        last = self.page[-1][0] if self.page else None
        if not isinstance(last, Gap) or last.why is not why:
            last = Gap(why, 0, interest, event.seq - 1)
            self.page.append((last, interest))
        elif last.interest is not interest:
            last.interest = None
            self.page[-1] = last, None
        last.count, last.last = (last.count or 0) + 1, event.seq

    @property
    def next_after(self) -> int:
        """The position after which the next page is read: what was put back is in this one."""
        return self.read_to if self.page else self.position

    def put_back(self, pairs: list[Pair], limit: int) -> bool:
        """Keep pairs beyond ``limit`` for later, if a stage made several of one event.

        A reader that is interrupted between them gets that event again, but misses none.
        """
        rest = pairs[limit:]
        if not rest:
            return False
        del pairs[limit:]
        logged = [event.seq for event, _ in rest if event.seq and event.kind in LOGGED]
        if is_midway(rest[0][0]):  # its number is that of the event before its own
            logged = [seq for seq in logged if seq > rest[0][0].seq]
        first = min(logged, default=self.position + 1)
        if first <= self.position:
            rest.append((read_to(self.position), None))
            self.position = first - 1
        self.page[:0] = rest
        return True

    def take(
        self, out: list[Pair], limit: int, filters: SubscribedFilters, losses: LossCounter
    ) -> None:
        """Deliver the page, up to ``limit`` pairs in ``out`` and a bound in bytes."""
        page = self.page
        taken = taken_bytes = 0
        for pair in page:
            if len(out) >= limit or taken_bytes >= self.take_bytes:
                break
            event = pair[0]
            taken += 1
            taken_bytes += len(event.payload)
            if isinstance(event, Row) and event.leads:
                filters.had(pair[1], event.seq)  # the position advances with the event itself
            elif event.kind in LOGGED and self.position < event.seq <= self.read_to:
                self.position = event.seq  # a replay may be ahead: it is for one filter only
            if event.kind != READ_TO and is_reported(pair):
                out.append(pair)
                if isinstance(event, Gap) and event.why in _READ_AGAIN:
                    losses.add(event.why, event.count or 0)
                    self.position = max(self.position, event.last)  # it is not read again
        del page[:taken]
        left = page[0][0] if page else None
        if left is None or left.seq != self.position or is_midway(left):
            return
        if step_of(left) is not None:
            self.position -= 1  # there are more steps of the same event
