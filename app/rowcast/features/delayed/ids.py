"""Ids of delayed writes: none is used twice, also after a restart, or a failover to another node.

Who cancels or reschedules a write that was carried out long ago would reach another one.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from rowcast.store.store import Change

NUMBERS: Final = "numbers"
"""The owner of the fact with the last id that is reserved."""
NAME: Final = "delayed"
"""Its name."""
AHEAD: Final = 1_000
"""So many ids are reserved at a time: a fact for each would double what a small write stores."""


class Ids:
    """Gives ids; they are stored as reserved with the first write of each thousand."""

    def __init__(self) -> None:
        self._last = self._reserved = 0

    def take(self) -> tuple[int, Sequence[Change]]:
        """Return the next id, and what is to be stored with its write."""
        self._last += 1
        if self._last <= self._reserved:
            return self._last, ()
        return self._last, (Change(NUMBERS, NAME, b"%d" % (self._last + AHEAD - 1)),)

    def stored(self, changes: Iterable[Change]) -> None:
        """Take note of what of them is stored."""
        for change in changes:
            self._reserved = max(self._reserved, int(change.value or b"0"))

    def note(self, known: int) -> None:
        """Go on behind an id of a write that waits."""
        self._last = max(self._last, known)

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Go on behind the ids that an earlier run has reserved."""
        for _, name, until in facts:
            if name == NAME:
                self._reserved = int(until)
                self.note(self._reserved)
