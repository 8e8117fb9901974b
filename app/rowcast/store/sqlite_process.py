"""Settings of SQLite for a whole process, which Python's ``sqlite3`` has no call for.

SQLite counts the memory that it uses, under one lock for all connections (sqlite.org,
"SQLITE_CONFIG_MEMSTATUS"). Where it has no lookaside memory, as Debian's, each row that a thread
reads takes that lock several times: four threads that scan need three times the CPU, and the writer
waits with them. Nothing here asks for those counts.

The library is the one that the module ``_sqlite3`` is linked with, found through the module's own
file. Where Python has SQLite inside itself there is no such file, and nothing is changed.
"""

import _sqlite3
import ctypes
import logging
import threading
from typing import Final

log = logging.getLogger("rowcast.store")

_MEMORY_STATISTICS: Final = 9
"""SQLITE_CONFIG_MEMSTATUS of ``sqlite3.h``."""
_STOPPED: Final = threading.Event()
"""Set once it does not count: what it has then says nothing of open connections any more."""


def stop_counting_memory() -> bool:
    """Have SQLite not count its memory; return whether it stopped.

    Not while a connection is open in this process: SQLite takes this setting only when it is shut
    down (sqlite.org, "sqlite3_config"), and may be shut down only when nothing uses it.
    """
    file = getattr(_sqlite3, "__file__", None)
    if file is None or _STOPPED.is_set():
        return file is not None
    try:
        library = ctypes.CDLL(file)
        library.sqlite3_memory_used.restype = ctypes.c_longlong
        library.sqlite3_config.argtypes = [ctypes.c_int]  # the rest are variable arguments
        if library.sqlite3_memory_used():  # an open connection has some kilobytes
            return False
        shut_down = library.sqlite3_shutdown()
        refused = library.sqlite3_config(_MEMORY_STATISTICS, ctypes.c_int(0))
        if not (shut_down or refused or library.sqlite3_initialize()):
            _STOPPED.set()
    except (OSError, AttributeError) as error:
        log.debug("SQLite goes on counting its memory: %s", error)
    return _STOPPED.is_set()
