"""The backfill that the filters of one subscription still wait for, in order.

A client that subscribes to thousands of filters would cost as many trips to a reader thread, each
with a task and some turns of the loop, though most of them find little or nothing. So the current
records of the filters at the front are read together: of a bounded number of filters, which give no
more records and bytes than one page. What was not reached is read with the next page.

Each is as if it was read by itself, at a moment within the trip: its limit was settled before, and
what changes meanwhile follows as an event. They are handed over in the order in which they waited.
"""

from collections import deque
from collections.abc import Container, Iterable
from itertools import islice

from rowcast.store.store import Page, Scan
from rowcast.subscriptions.backfill import Backfill, CurrentRecords, Lost, page_records
from rowcast.subscriptions.delivery_rate import DeliveryRateLimit
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter

Read = list[tuple[Backfill, list[Pair]]]


class BackfillQueue:
    """What is read before the live events, and how fast."""

    __slots__ = ("_rate", "_reader", "waiting")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rate: DeliveryRateLimit | None = None
        self.waiting: deque[Backfill] = deque()

    def drop(self, interests: Container[SubscribedFilter]) -> None:
        """Forget the backfill of some filters."""
        self.waiting = deque(item for item in self.waiting if item.interest not in interests)

    def replace(self, old: SubscribedFilter, new: SubscribedFilter, *, current: bool) -> None:
        """Give what one filter waits for to another; ``current``: the current records anew."""
        for item in list(self.waiting):
            if item.interest is old:
                if current and isinstance(item, CurrentRecords):
                    self.waiting.remove(item)
                else:
                    item.interest = new
        if current:
            self.waiting.append(CurrentRecords(new, None))

    async def read(self, position: int) -> list[Pair]:
        """Read a page of the first backfill, or of several that can be read together.

        ``position`` is the subscription's. Raises Lost where the log was trimmed too far.
        """
        if self._rate is None and self._reader.delivery_rate:
            self._rate = DeliveryRateLimit(self._reader.delivery_rate)
        if self._rate is not None:
            await self._rate.keep()
        if not self.waiting:  # the filters were discarded meanwhile
            return []
        first = self.waiting[0]
        try:
            read = await _read_first(self.waiting, self._reader, position)
        except Lost:
            if first in self.waiting:
                raise
            return []
        return self._taken(read)

    def _taken(self, read: Read) -> list[Pair]:
        """Return what is for filters that are still there, and forget backfill that has ended."""
        found: list[Pair] = []
        for backfill, pairs in read:
            if backfill not in self.waiting:  # its filter was discarded meanwhile
                continue
            found += pairs
            if self._rate is not None:
                self._rate.count(pairs)
            if backfill.done:
                self.waiting.remove(backfill)
        return found


async def _read_first(backfills: Iterable[Backfill], reader: Reader, position: int) -> Read:
    """Read the next page of the first backfill, or of as many as can be read together.

    ``backfills`` may change meanwhile; who asked knows which of those that were read still wait.
    """
    waiting = list(islice(backfills, reader.scans_together))
    asked = _asked(waiting, reader, position)
    if not asked:
        first = waiting[0]
        return [(first, await first.read(reader, position))]
    scans = [scan for _, part in asked for scan in part]
    most = min((page_records(reader, scan.table) for scan in scans), default=0)
    pages = await reader.scan_all(scans, most) if scans else []
    return _answered(asked, pages)


def _asked(
    waiting: list[Backfill], reader: Reader, position: int
) -> list[tuple[CurrentRecords, list[Scan]]]:
    """Return the backfills at the front that need nothing but the store, and what they ask it."""
    asked: list[tuple[CurrentRecords, list[Scan]]] = []
    for backfill in waiting:
        scans = backfill.asks(reader) if isinstance(backfill, CurrentRecords) else None
        if scans is None or not isinstance(backfill, CurrentRecords):
            break
        backfill.begin(position)
        asked.append((backfill, scans))
    return asked


def _answered(asked: list[tuple[CurrentRecords, list[Scan]]], pages: list[Page]) -> Read:
    """Return what each backfill has of the pages; those that have none are left out."""
    read: Read = []
    rest = iter(pages)
    for backfill, scans in asked:
        part = list(islice(rest, len(scans)))
        if scans and not part:
            break
        read.append((backfill, backfill.ended(backfill.taken(part))))
    return read
