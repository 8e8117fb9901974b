"""The lock for writing the tables: held by a server while it opens them, then by its applier.

When a server is killed, its applier may still be in a transaction; the next server waits for it
here, so that no batch is applied by both.
"""

import fcntl
import time
from pathlib import Path
from typing import IO, Final

from rowcast.core.errors import Code, Error
from rowcast.store.private import open_to_append

WAIT_SECONDS: Final = 30.0
"""Far longer than a transaction of the applier takes."""
_PAUSE_SECONDS: Final = 0.01
_SUFFIX: Final = ".writer"


class WriterLock:
    """A lock file beside the database; the operating system releases it when its process ends."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + _SUFFIX)
        """The lock file."""
        self._file: IO[str] | None = None

    def acquire(self, seconds: float = WAIT_SECONDS) -> None:
        """Wait for the lock; raises BUSY after so many seconds."""
        file = open_to_append(self.path)
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() < deadline:
                    time.sleep(_PAUSE_SECONDS)
                    continue
                file.close()
                refusal = Error(
                    Code.BUSY, "another process writes the tables; end it and try again"
                )
                refusal.place = str(self.path)
                raise refusal from None
            self._file = file
            return

    def release(self) -> None:
        """Let another process have it."""
        if self._file is not None:
            self._file.close()
            self._file = None
