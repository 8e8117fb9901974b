"""Memory of the process: current and peak resident size, and the limit."""

import contextlib
import ctypes
import os
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_CONTAINER = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""The unit of the peak resident size."""


class ProcessMemory:
    """Measured sizes in bytes; ``statm`` is the file in which the system tells the current one."""

    def __init__(self, statm: Path = _STATM) -> None:
        self._statm = statm
        self.current = self.maximum = 0
        self.measure()

    def measure(self) -> None:
        """Measure; if the current size is unavailable, it is the peak."""
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT_BYTES
        self.current = most
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(self._statm.read_text(encoding="ascii").split()[1])
            self.current = pages * resource.getpagesize()
        self.maximum = max(self.maximum, most, self.current)


def trim_heap() -> None:
    """Return freed memory of the allocator to the system, if supported."""
    with contextlib.suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)


def memory_limit() -> int:
    """Return the memory limit in bytes: of the container, else of the machine."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _CONTAINER:
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            most = min(most, int(file.read_text(encoding="ascii")))
    return most
