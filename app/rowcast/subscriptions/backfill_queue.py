"""The pending backfill of one subscription's filters, in order.

A client with thousands of filters would otherwise need as many jobs of a reader thread, each with a
task and some turns of the loop, although most filters match few or no records. So the current
records of several filters at the front are read together, bounded by a number of filters and by the
records and bytes of one page. The remaining filters are read with the next page.

Each result is the same as if it was read separately, at some time within the job: its limit was set
before, and a concurrent change follows as an event. They are delivered in queue order.
"""

from collections.abc import Container, Iterable
from itertools import islice

from rowcast.store.store import Page, Scan
from rowcast.subscriptions.backfill import CurrentRecords, Lost, Replay, page_records
from rowcast.subscriptions.delivery_rate import DeliveryRateLimit
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter
from rowcast.subscriptions.window_backfill import WindowBackfill

Backfill = CurrentRecords | Replay | WindowBackfill
Read = list[tuple[Backfill, list[Pair]]]


class BackfillQueue:
    """Pending backfills, and their rate limit."""

    __slots__ = ("_rate", "_reader", "waiting")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rate: DeliveryRateLimit | None = None
        self.waiting: list[Backfill] = []

    def drop(self, interests: Container[SubscribedFilter]) -> None:
        """Discard the backfill of some filters."""
        self.waiting[:] = [item for item in self.waiting if item.interest not in interests]

    def replace(self, old: SubscribedFilter, new: SubscribedFilter, *, current: bool) -> None:
        """Transfer a filter's backfill to its replacement; ``current``: restart current records."""
        for item in list(self.waiting):
            if item.interest is old:
                if current and isinstance(item, CurrentRecords):
                    self.waiting.remove(item)
                else:
                    item.interest = new
        if current and new.is_window:
            self.waiting.append(WindowBackfill(new, records=True))
        elif current:
            # Records whose events are left out would not come at all, and they were asked for.
            self.waiting.append(CurrentRecords(new, None, new.left_out))

    def follow(
        self, window: SubscribedFilter, since: int, announced: int, *, current: bool
    ) -> None:
        """Bring a window to the log's head, from a position or with its records."""
        self.drop((window,))
        window.floor = max(since, announced)
        if current:
            window.current = ""
            self.waiting.append(WindowBackfill(window, fresh=True, records=True))
        elif since < announced:
            window.since = since
            self.waiting.append(WindowBackfill(window, since))

    def go_on(self, window: SubscribedFilter, position: int, announced: int) -> None:
        """Do so for a window of a suspended cursor, whose backfill may have been interrupted."""
        since = max(position, window.floor) if window.since is None else window.since
        self.follow(window, since, announced, current=False)
        if window.current is not None:
            self.drop((window,))
            self.waiting.append(WindowBackfill(window, since, partial=True, records=True))

    async def read(self, position: int) -> list[Pair]:
        """Read a page of the first backfill, or of several that can be combined.

        ``position`` is the subscription's. Raises Lost if the log was trimmed too far.
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
        """Return the events of filters that still exist, and remove finished backfill."""
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
    """Read the next page of the first backfill, or of as many as can be combined.

    ``backfills`` may change meanwhile; the caller checks which ones are still pending.
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
    """Return the backfills at the front that only need the store, with their scans."""
    asked: list[tuple[CurrentRecords, list[Scan]]] = []
    for backfill in waiting:
        scans = backfill.asks(reader) if isinstance(backfill, CurrentRecords) else None
        if scans is None or not isinstance(backfill, CurrentRecords):
            break
        backfill.begin(position)
        asked.append((backfill, scans))
    return asked


def _answered(asked: list[tuple[CurrentRecords, list[Scan]]], pages: list[Page]) -> Read:
    """Distribute the pages to their backfills; backfills without a page are left out."""
    read: Read = []
    rest = iter(pages)
    for backfill, scans in asked:
        part = list(islice(rest, len(scans)))
        if scans and not part:
            break
        read.append((backfill, backfill.ended(backfill.taken(part))))
    return read
