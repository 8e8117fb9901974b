"""Conflation: of what a reader has not had yet, only the newest of each record (M4).

A table says it with ``@deliver(policy: "latest")``. It concerns readers that are behind, and so
read the log: those that keep up get every event. A page of the log is looked at by itself, so
nothing waits for what may come; messages change no record and always go through. What is left out
is a gap like any other, at its place and with its range.
"""

from collections.abc import Iterator, Sequence

from rowcast.core.events import RETAINED, Event


def superseded(page: Sequence[Event]) -> frozenset[int]:
    """Return the numbers of events that a later one of the page makes superfluous."""
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
