"""Preludes together: the current records of many filters, read in one trip to a reader thread.

A client that subscribes to thousands of filters would else cost as many trips, each with a task and
some turns of the loop, though most of them find little or nothing. So those at the front that need
nothing but the store are asked about together: a bounded number of filters, which together give no
more records and bytes than one page. What was not reached is asked again with the next page.

Each is as if it was read by itself, at a moment within the trip: its limit was settled before, and
what changes meanwhile follows as an event. They are handed over in the order in which they waited.
"""

from collections.abc import Iterable
from itertools import islice

from rowcast.kernel.reader import Reader
from rowcast.kernel.watch.backfill import Prelude, Snapshot, page_records
from rowcast.kernel.watch.subscribed_filters import Pair
from rowcast.store.store import Page, Scan

Read = list[tuple[Prelude, list[Pair]]]


async def read_first(preludes: Iterable[Prelude], reader: Reader, position: int) -> Read:
    """Read the next page of the first prelude, or of as many as can be read together.

    ``preludes`` may change meanwhile; who asked knows which of those that were read still wait.
    """
    waiting = list(islice(preludes, reader.scans_together))
    asked = _asked(waiting, reader, position)
    if not asked:
        first = waiting[0]
        return [(first, await first.read(reader, position))]
    scans = [scan for _, part in asked for scan in part]
    most = min((page_records(reader, scan.table) for scan in scans), default=0)
    pages = await reader.scan_all(scans, most) if scans else []
    return _answered(asked, pages)


def _asked(
    waiting: list[Prelude], reader: Reader, position: int
) -> list[tuple[Snapshot, list[Scan]]]:
    """Return the preludes at the front that need nothing but the store, and what they ask it."""
    asked: list[tuple[Snapshot, list[Scan]]] = []
    for prelude in waiting:
        scans = prelude.asks(reader) if isinstance(prelude, Snapshot) else None
        if scans is None or not isinstance(prelude, Snapshot):
            break
        prelude.begin(position)
        asked.append((prelude, scans))
    return asked


def _answered(asked: list[tuple[Snapshot, list[Scan]]], pages: list[Page]) -> Read:
    """Return what each prelude has of the pages; those that have none are left out."""
    read: Read = []
    rest = iter(pages)
    for prelude, scans in asked:
        part = list(islice(rest, len(scans)))
        if scans and not part:
            break
        read.append((prelude, prelude.ended(prelude.taken(part))))
    return read
