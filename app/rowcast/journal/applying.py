"""Where the applier runs: in a process of its own (``applier_process.py``), or here.

A server's applier is a process, so that a second core does its work. Tests, the simulation and
commands that only open a data directory apply in the call that appends.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple, Protocol

from rowcast.core.errors import Error
from rowcast.core.tables import Table
from rowcast.journal.applier import Applier, Tables
from rowcast.journal.writer_lock import WriterLock
from rowcast.log.log import Log
from rowcast.store.sql_follow import Report
from rowcast.store.sqlite import SqlStore

READ_BYTES: Final = 4 * 1024 * 1024
"""Of the log at a time: some thousands of small events, which fit in one transaction."""


MOVED_ROWS: Final = 2_000
"""Staged rows that are moved in one transaction; a batch that comes meanwhile waits for 20 ms."""


class Applied(NamedTuple):
    """What an applier reports after a transaction, or after an attempt that failed."""

    number: int
    """The number of the last batch in the tables."""
    results: dict[int, list[int]]
    """Results of operations, by batch."""
    report: Report | None = None
    """What readers of the file must know, where another process wrote it."""
    problem: str = ""
    """Why the attempt failed; it is made again."""


OnApplied = Callable[[Applied], None]


class Applying(Protocol):
    """An applier, wherever it runs. Its reports come on a thread of its own, or in ``push``."""

    def start(self, declared: Sequence[Table], after: int, on_applied: OnApplied) -> None:
        """Start to apply what follows a batch."""

    def push(self, number: int) -> None:
        """Have batches applied up to one, which is durable."""

    def hurry(self, number: int) -> None:
        """Have batches applied up to one at once, because somebody waits for them."""

    def tidy(self, limit: int) -> "bool | Future[bool]":
        """Do a step of deferred work; return whether more is left, or what will tell."""

    def stop(self) -> None:
        """Stop; what is not applied is in the log."""


class TidyTables(Tables, Protocol):
    """Tables with deferred work."""

    def tidy(self, limit: int) -> bool:
        """Do a step of deferred work."""

    def move_staged(self, limit: int) -> bool:
        """Move some rows of a staged result; return whether more is left."""


class InlineApplying:
    """Applies in the call that appends."""

    def __init__(self, tables: TidyTables, log: Log, lock: WriterLock | None = None) -> None:
        self._tables = tables
        self._log = log
        self._lock = lock

    def start(self, declared: Sequence[Table], after: int, on_applied: OnApplied) -> None:
        """Start to apply what follows a batch."""
        self._applier = Applier(self._tables, declared)
        self._on_applied = on_applied
        self.push(after)

    def push(self, number: int) -> None:
        """Apply batches up to one; what the disk refuses is tried again with the next."""
        while (applied := self._tables.applied()) < number:
            try:
                results = self._applier.apply(self._log.read(applied, READ_BYTES))
            except Error as error:
                self._on_applied(Applied(self._tables.applied(), {}, problem=error.message))
                return
            while self._tables.move_staged(MOVED_ROWS):
                pass
            self._on_applied(Applied(self._tables.applied(), results))

    def hurry(self, number: int) -> None:
        """Do nothing: what could be applied is."""

    def tidy(self, limit: int) -> bool:
        """Do a step of deferred work."""
        return self._tables.tidy(limit)

    def stop(self) -> None:
        """Let another process write: everything is applied."""
        if self._lock is not None:
            self._lock.release()


def catch_up(tables: SqlStore, log: Log, declared: Sequence[Table]) -> int:
    """Apply what the log has and the tables lack; return how many batches. Raises Error(BUSY)."""
    applier, begun = Applier(tables, declared), tables.applied()
    while (applied := tables.applied()) < log.head.number:
        applier.apply(log.read(applied, READ_BYTES))
    return tables.applied() - begun
