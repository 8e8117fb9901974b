"""A store of SQL tables behind a log in memory, as the server has it with files and a process."""

import time

from memory_log import MemoryLog
from rowcast.journal.applying import InlineApplying
from rowcast.journal.journaled_store import JournaledStore


def journaled(tables, log=None, now=time.time, **options):
    """Return tables behind a log, applied in the call that appends."""
    log = log or MemoryLog(tables.epoch, first=tables.applied() + 1)
    return JournaledStore(tables, log, InlineApplying(tables, log), now, **options)
