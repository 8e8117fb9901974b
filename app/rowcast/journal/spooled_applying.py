"""The applier of a follower: its batches go into files first, which the applier reads.

A thread writes them, so that the event loop does not wait for a disk. What cannot be written is
tried again; the batches stay in memory until the tables have them.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Event as Flag
from typing import Final

from rowcast.core.errors import Error
from rowcast.core.tables import Table
from rowcast.journal.applying import READ_BYTES, Applied, Applying, OnApplied
from rowcast.log.followed_log import FollowedLog
from rowcast.log.replicated_log import Spool

log = logging.getLogger("rowcast.applier")

RETRY_SECONDS: Final = 0.2
"""After the disk has refused."""


class SpooledApplying:
    """Stands between a log that is followed in memory and an applier that reads files."""

    def __init__(self, followed: FollowedLog, spool: Spool, applying: Applying) -> None:
        self._followed, self._spool, self._applying = followed, spool, applying
        self._written = followed.head.number
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rowcast-spool")
        self._stopped = Flag()

    def start(self, declared: Sequence[Table], after: int, on_applied: OnApplied) -> None:
        """Start to apply what follows a batch."""
        self._on_applied = on_applied
        self._applying.start(declared, after, on_applied)

    def push(self, number: int) -> None:
        """Have batches written and applied up to one."""
        with suppress(RuntimeError):  # it stops; the next start gets them again
            self._thread.submit(self._write, number)

    def _write(self, number: int) -> None:
        while self._written < number and not self._stopped.is_set():
            try:
                for batch in self._followed.read(self._written, READ_BYTES):
                    self._spool.take(batch)
                    self._written = batch.number
            except Error as error:
                log.warning("a batch cannot be written, and is tried again: %s", error.full)
                self._on_applied(Applied(0, {}, problem=error.message))
                self._stopped.wait(RETRY_SECONDS)
        self._applying.push(self._written)

    def hurry(self, number: int) -> None:
        """Have batches applied up to one at once, because somebody waits for them."""
        with suppress(RuntimeError):
            self._thread.submit(self._applying.hurry, number)

    def tidy(self, limit: int) -> "bool | Future[bool]":
        """Do a step of deferred work; return whether more is left, or what will tell."""
        return self._applying.tidy(limit)

    def stop(self) -> None:
        """Stop; what is not applied comes again."""
        self._stopped.set()
        self._thread.shutdown()
        self._applying.stop()
        self._spool.close()
