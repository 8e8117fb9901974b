"""Opens a data directory: its tables, and its log beside them.

The log is a directory beside the database, named after it with ``-log``, as SQLite names its own
journal. A database without one, of a version that had none, begins a new one.
"""

import logging
import shutil
from pathlib import Path

from rowcast.core.clock import WallClock
from rowcast.journal.applier_child import Spawn
from rowcast.journal.applier_process import ProcessApplying
from rowcast.journal.applying import InlineApplying
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.tail import Tail
from rowcast.journal.writer_lock import WriterLock
from rowcast.log.local_log import LocalLog
from rowcast.store.private import tighten
from rowcast.store.sqlite import SqlStore

log = logging.getLogger("rowcast.journal")


def log_directory(database: Path) -> Path:
    """Return the directory of a database's log."""
    return database.with_name(f"{database.name}-log")


def spool_directory(database: Path) -> Path:
    """Return the directory of what a node of a cluster has got and not applied."""
    return database.with_name(f"{database.name}-spool")


def open_journal(
    url: str | Path,
    now: WallClock,
    schema: str = "",
    tail: Tail | None = None,
    *,
    applier: Spawn | None = None,
) -> JournaledStore:
    """Open the store of a server; its tables are opened by ``JournaledStore.open``.

    ``applier`` starts a process, which reads the text of the ``schema``; without one the tables
    are written in the call that appends. ``tail`` has the bounds of the lag. Raises BUSY when
    another server has the files, INVALID for damage.
    """
    tables = SqlStore(url, synced=False)
    lock = WriterLock(tables.path)
    try:
        lock.acquire()
        tables.look_again()
        directory = log_directory(tables.path)
        tighten((directory, *(directory.iterdir() if directory.is_dir() else ()), lock.path))
        appended = open_log(directory, tables)
    except BaseException:
        tables.close()
        lock.release()
        raise
    if applier is None:
        return JournaledStore(tables, appended, InlineApplying(tables, appended, lock), now, tail)
    applying = ProcessApplying(tables, directory, schema, appended, lock, applier)
    return JournaledStore(tables, appended, applying, now, tail)


def open_log(directory: Path, tables: SqlStore) -> LocalLog:
    """Open the log of some tables, or begin one.

    A log of other tables is put aside, under its epoch. A log that ends before its tables has lost
    its end to a damaged disk; the tables have what it had, so it is begun anew.
    """
    applied = tables.applied()
    opened = LocalLog(directory, tables.epoch, first=applied + 1)
    if opened.epoch != tables.epoch:
        opened.close()
        aside = directory.with_name(f"{directory.name}-{opened.epoch}")
        log.warning("the log in %s belongs to other tables; it is now %s", directory, aside)
        directory.rename(aside)
        return LocalLog(directory, tables.epoch, first=applied + 1)
    if opened.head.number < applied:
        what = "the log in %s ends at batch %d, before its tables at %d; it is begun anew"
        log.warning(what, directory, opened.head.number, applied)
        opened.close()
        shutil.rmtree(directory)
        return LocalLog(directory, tables.epoch, first=applied + 1)
    return opened
