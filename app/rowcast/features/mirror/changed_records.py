"""Which records have changed since a position, by what the bus has announced.

With it the mirror needs no log: where retention has removed what it has not read yet, it reads
these records as they are now. So a filling ends however long it takes, and however short the log is
kept meanwhile.
"""

from typing import Final

from rowcast.core.events import RETAINED, Event

CHANGED_RECORDS_MAX: Final = 100_000
"""Topics noted: some ten megabytes. Beyond them it begins anew, and covers less."""


class ChangedRecords:
    """The topics of all records that have changed after ``since``."""

    def __init__(self, most: int = CHANGED_RECORDS_MAX) -> None:
        self._most = most
        self._topics: dict[str, str] = {}
        self.since = 0
        """The position after which all changes are noted."""

    def __len__(self) -> int:
        return len(self._topics)

    def note(self, event: Event) -> None:
        """Note an announced event of a declared table."""
        if event.table is None or event.kind not in RETAINED:
            return
        if len(self._topics) >= self._most:
            self.restart(event.seq)
        else:
            self._topics[event.topic] = event.table.name

    def restart(self, position: int) -> None:
        """Forget what was noted: changes after a position are."""
        self._topics, self.since = {}, position

    def covers(self, position: int) -> bool:
        """Whether all changes after a position are noted."""
        return self.since <= position

    def take(self, announced: int) -> dict[str, str]:
        """Return the changed topics with the names of their tables, and begin anew.

        ``announced`` is the newest announced position, of this moment.
        """
        taken = self._topics
        self.restart(announced)
        return taken
