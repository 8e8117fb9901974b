"""Threads of a lower priority: for long work that may use a core of its own, but not the loop's.

A scan of a table and the hash of a password take CPU for tenths of a second, outside the
interpreter's lock. On a machine whose cores are all busy the scheduler would give each of them as
much as the event loop, and every client would wait for them. With a higher nice value they have
what the loop and the writer leave (sched(7), "The nice value"); on an idle machine that is all.

Linux keeps the value for each thread. Elsewhere it is the process's, and nothing is changed.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

BACKGROUND_NICE = 10
"""A tenth of the share of a thread of the usual value, 0, where both want the same core."""


def background_threads(count: int, name: str, nice: int = BACKGROUND_NICE) -> ThreadPoolExecutor:
    """Return so many threads, called after ``name``, with a nice value of at least ``nice``."""
    return ThreadPoolExecutor(
        count, thread_name_prefix=name, initializer=_lower_priority, initargs=(nice,)
    )


def _lower_priority(nice: int) -> None:
    if sys.platform != "linux":  # pragma: no cover - not of the machines that test it
        return
    thread = threading.get_native_id()
    if os.getpriority(os.PRIO_PROCESS, thread) < nice:
        os.setpriority(os.PRIO_PROCESS, thread, nice)
