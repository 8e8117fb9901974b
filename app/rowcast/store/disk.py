"""The health of the disk: whether it refused a commit and has accepted none since.

A full disk may still accept a few bytes, in allocated space of its files. So it counts as full
until a write at least as large as the refused one succeeds.
"""

from collections.abc import Iterable

from rowcast.core.events import Event
from rowcast.core.overload_limits import READY_PROBE_BYTES_MAX
from rowcast.store.store import Change


class Disk:
    """The disk of one committer: updated on the writer thread, read on any thread."""

    def __init__(self) -> None:
        self.refused = ""
        """The reason of the refusal; empty while writes succeed."""
        self.refused_bytes = 0
        """The size of the write that must succeed before it counts as healthy."""

    def refuses(self, why: str, size: int) -> None:
        """Note a failed write."""
        self.refused_bytes = max(self.refused_bytes, min(size, READY_PROBE_BYTES_MAX), 1)
        self.refused = why

    def took(self, size: int) -> None:
        """Note a successful write."""
        if self.refused and size >= self.refused_bytes:
            self.refused, self.refused_bytes = "", 0


def size_of(events: Iterable[Event], changes: Iterable[Change]) -> int:
    """Return the approximate size of a commit in bytes."""
    facts = sum(len(change.value) for change in changes if change.value is not None)
    return sum(len(event.payload) for event in events) + facts
