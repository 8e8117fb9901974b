"""Tables that the applier of another process writes: this process only reads the same file.

They may have batches that this process has not followed yet. A read that sees one waits for it, so
that what a process has shown never goes back to what its own tail has.
"""

from collections.abc import Sequence

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.journal.applying import OnApplied
from rowcast.journal.journaled_store import READ_SECONDS
from rowcast.log.followed_log import FollowedLog
from rowcast.store.sqlite import SqlStore


class SharedTables:
    """Stands where an applier is: the reports come over the connection (``APPLIED``)."""

    def __init__(
        self, tables: SqlStore, log: FollowedLog, wait_seconds: float = READ_SECONDS
    ) -> None:
        self._tables = tables
        self._log = log
        self._wait_seconds = wait_seconds

    def start(
        self,
        declared: Sequence[Table],  # noqa: ARG002
        after: int,  # noqa: ARG002
        on_applied: OnApplied,  # noqa: ARG002
    ) -> None:
        """Leave writing to the other process."""
        self._tables.follow_writer(self._wait)

    def _wait(self, number: int) -> None:
        """Wait on a reader's thread until a batch is followed; raises BUSY."""
        if self._log.head.number < number and not self._log.wait(number - 1, self._wait_seconds):
            raise Error(
                Code.BUSY,
                "this process does not follow the log; look for messages in the server's output",
                retry_after_seconds=1,
            )

    def push(self, number: int) -> None:
        """Do nothing: the other process applies what it appends."""

    def hurry(self, number: int) -> None:
        """Do nothing: the other process's applier rests for 25 ms at most."""

    def tidy(self, limit: int) -> bool:  # noqa: ARG002 - nothing is done here
        """Do nothing, and say that nothing is left."""
        return False

    def stop(self) -> None:
        """Do nothing."""
