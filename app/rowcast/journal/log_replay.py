"""Log replay for programs that read only the tables of a data directory.

A backup or an export reads the database file. What a server has acknowledged and its applier has
not written yet is in the log alone: for some milliseconds while the server runs, and until the next
start when both were killed.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.journal.applying import catch_up
from rowcast.journal.opening import log_directory, open_journal, spool_directory
from rowcast.journal.writer_lock import WriterLock
from rowcast.log.local_log import LocalLog
from rowcast.log.segment import SUFFIX, SegmentReader
from rowcast.store.backup import applied_in
from rowcast.store.sqlite import SqlStore

Declared = Sequence[Table] | None
"""The tables of the schema; None where nobody has it, so that only a running server can apply."""

WAIT_SECONDS: Final = 30.0
"""For a running server's applier, which is a tenth of a second behind at most."""
_PAUSE_SECONDS: Final = 0.02


def replay_log(database: Path, tables: Declared, wait_seconds: float = WAIT_SECONDS) -> None:
    """Return when the tables have what the log has now.

    While a server runs, its applier is waited for; otherwise the log is applied here. Raises BUSY
    when the applier does not follow, INVALID when the tables cannot be opened with this schema, or
    where there is none.
    """
    deadline = time.monotonic() + wait_seconds
    _wait_for_node(database, tables, deadline)
    replay_own_log(database, tables, deadline)


def replay_own_log(database: Path, tables: Declared, deadline: float) -> None:
    """The same for the log of a server of its own, until a time of the monotonic clock."""
    directory = log_directory(database)
    if not directory.is_dir() or not database.is_file():
        return
    number, whole = _look(directory)
    while (applied := applied_in(database)) < number or not whole:
        try:
            store = open_journal(database, time.time)
        except Error as error:
            if error.code is not Code.BUSY:
                raise
            if applied >= number:  # a server writes what is not whole yet
                return
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            with closing(store):
                if store.log.head.number > applied:
                    store.open(_schema(tables))
            return


def _schema(tables: Declared) -> Sequence[Table]:
    """Return the tables. Raises INVALID without any: what waits in the log is not applied then."""
    if tables is None:
        raise Error(
            Code.INVALID,
            "the log has writes that the tables do not have yet, because the server was killed; "
            "their schema applies them: name it with --schema",
        )
    return tables


def _wait_for_node(database: Path, tables: Declared, deadline: float) -> None:
    """Return when the tables of a node of a cluster have what it has got of the log.

    One that runs is waited for; what one that was killed has got is applied here, because without
    a majority of the others it would not begin again.
    """
    spool = spool_directory(database)
    if not spool.is_dir() or not database.is_file():
        return
    number = last_number(spool)
    while applied_in(database) < number:
        try:
            _apply(database, spool, tables)
        except Error as error:
            if error.code is not Code.BUSY:
                raise
            if time.monotonic() >= deadline:
                raise Error(
                    Code.BUSY,
                    f"the tables lack batches up to {number} of the log, and the node does not "
                    f"apply them; end it, and try again ({error.message})",
                ) from error
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _apply(database: Path, spool: Path, named: Declared) -> None:
    """Apply what a node that has ended has got. Raises BUSY while it runs, or its applier."""
    tables = SqlStore(database, synced=False)
    lock = WriterLock(tables.path)
    try:
        lock.acquire(0)
        tables.look_again()
        declared = _schema(named)
        tables.open(declared)
        got = LocalLog(spool, tables.epoch, first=tables.applied() + 1, synced=False)
        with closing(got):
            if got.epoch == tables.epoch:
                catch_up(tables, got, declared)
    finally:
        tables.close()
        lock.release()


def last_number(directory: Path) -> int:
    """Return the number of the last whole batch in the files of a log; 0 without any."""
    return _look(directory)[0]


def _look(directory: Path) -> tuple[int, bool]:
    """Return the number of the last whole batch, and whether nothing else is behind it.

    Otherwise that is being written, was cut short by a crash, or is damaged.
    """
    firsts = sorted(directory.glob(f"*{SUFFIX}"))
    if not firsts:
        return 0, True
    try:
        reader = SegmentReader(firsts[-1])
    except Error:
        return int(firsts[-1].stem) - 1, False
    number = int(reader.first) - 1
    with closing(reader):
        try:
            for _, batch in reader.batches():
                number = int(batch.number)
        except Error:
            return number, False
    return number, True
