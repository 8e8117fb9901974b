"""Conflation: a slow reader gets only the newest pending event of each record (M4).

A table enables it with ``@deliver(policy: "latest")``. It affects readers that have fallen behind
and read the log: those that keep up get every event. Each page of the log is conflated separately,
so no event waits for a later one; messages change no record and are always delivered. Events left
out are reported as a gap, at their place and with their range.
"""

from collections.abc import Iterator, Sequence

from rowcast.core.events import RETAINED, Event


def superseded(page: Sequence[Event]) -> frozenset[int]:
    """Return the sequence numbers of events superseded by a later one of the page."""
    return frozenset(_superseded(page))


def _superseded(page: Sequence[Event]) -> Iterator[int]:
    newest: set[str] = set()
    for event in reversed(page):
        table = event.table
        if table is None or not table.delivers_latest or event.kind not in RETAINED:
            continue
        if event.topic in newest:
            yield event.seq
        newest.add(event.topic)
