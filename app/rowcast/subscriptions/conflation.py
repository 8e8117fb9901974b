"""Conflation: a slow reader gets only the newest pending event of each record (M4).

A table enables it with ``@deliver(policy: "latest")``. It affects readers that have fallen behind
and read the log: those that keep up get every event, unless the table has an interval
(``pacing.py``). Each page of the log is conflated separately, so no event waits for a later one;
messages change no record and are always delivered. Events left out are reported as a gap, at their
place and with their range.
"""

from collections.abc import Callable, Iterator, Sequence

from rowcast.core.events import RETAINED, Event

Conflated = Callable[[Event], bool]
"""Whether a later event of the same record supersedes an event."""


def delivers_latest(event: Event) -> bool:
    """Whether an event's table says so."""
    return event.table is not None and event.table.delivers_latest


def superseded(page: Sequence[Event], conflated: Conflated = delivers_latest) -> frozenset[int]:
    """Return the sequence numbers of events superseded by a later one of the page."""
    return frozenset(_superseded(page, conflated))


def _superseded(page: Sequence[Event], conflated: Conflated) -> Iterator[int]:
    newest: set[str] = set()
    for event in reversed(page):
        if event.kind not in RETAINED or not conflated(event):
            continue
        if event.topic in newest:
            yield event.seq
        newest.add(event.topic)
