"""What the last commits say of the disk: whether it refused one and has taken none since.

A disk that is full may still take a few bytes, in room that its files have. So a refusal stands
until something as large as what was refused is taken.
"""

from collections.abc import Iterable

from rowcast.core.events import Event
from rowcast.core.overload_limits import READY_PROBE_BYTES_MAX
from rowcast.store.store import Change


class Disk:
    """The disk of one committer: told on the writer thread, asked anywhere."""

    def __init__(self) -> None:
        self.refused = ""
        """Why it refuses; empty as long as it takes what it is given."""
        self.refused_bytes = 0
        """How much it has to take before it is well again."""

    def refuses(self, why: str, size: int) -> None:
        """Note that it did not take something."""
        self.refused_bytes = max(self.refused_bytes, min(size, READY_PROBE_BYTES_MAX), 1)
        self.refused = why

    def took(self, size: int) -> None:
        """Note that it took something."""
        if self.refused and size >= self.refused_bytes:
            self.refused, self.refused_bytes = "", 0


def size_of(events: Iterable[Event], changes: Iterable[Change]) -> int:
    """Return about how many bytes a commit has."""
    facts = sum(len(change.value) for change in changes if change.value is not None)
    return sum(len(event.payload) for event in events) + facts
