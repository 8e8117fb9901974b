"""The health of the disk: whether it refused a commit and has accepted none since.

A full disk may still accept a few bytes, in allocated space of its files. So it counts as full
until a write at least as large as the refused one succeeds. So that this does not need such a write
of a client, the committer makes one, a probe, when the disk accepts smaller ones again.
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from rowcast.core.events import Event
from rowcast.core.overload_limits import DISK_PROBE_SECONDS, READY_PROBE_BYTES_MAX
from rowcast.store.store import Change

_OWNER: Final = "disk"
_PROBE: Final = "probe"


class Disk:
    """The disk of one committer: updated on the writer thread, read on any thread."""

    def __init__(self) -> None:
        self.refused = ""
        """The reason of the refusal; empty while writes succeed."""
        self.refused_bytes = 0
        """The size of the write that must succeed before it counts as healthy."""
        self._probed_at = -inf

    def refuses(self, why: str, size: int) -> None:
        """Note a failed write."""
        self.refused_bytes = max(self.refused_bytes, min(size, READY_PROBE_BYTES_MAX), 1)
        self.refused = why

    def took(self, size: int) -> None:
        """Note a successful write."""
        if self.refused and size >= self.refused_bytes:
            self.refused, self.refused_bytes = "", 0

    def probe_due(self, now: float) -> bool:
        """Whether to make a probe now; the next one is due ``DISK_PROBE_SECONDS`` later."""
        due = now - self._probed_at >= DISK_PROBE_SECONDS
        if due:
            self._probed_at = now
        return due

    def probe(self) -> tuple[Change, Change]:
        """Return changes of facts as large as the refused write, which leave nothing behind."""
        value = bytes(self.refused_bytes)
        return Change(_OWNER, _PROBE, value), Change(_OWNER, _PROBE, None)


def size_of(events: Iterable[Event], changes: Iterable[Change]) -> int:
    """Return the approximate size of a commit in bytes."""
    facts = sum(len(change.value) for change in changes if change.value is not None)
    return sum(len(event.payload) for event in events) + facts
