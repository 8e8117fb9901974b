"""How much memory the process has: resident now, the most that it ever had, and may have."""

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
"""What the greatest resident size is counted in."""


class ProcessMemory:
    """Bytes, as they were when they were measured."""

    def __init__(self) -> None:
        self.current = self.maximum = 0
        self.measure()

    def measure(self) -> None:
        """Look; where the system does not tell what is now, it is the most that ever was."""
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT_BYTES
        self.current = most
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(_STATM.read_text(encoding="ascii").split()[1])
            self.current = pages * resource.getpagesize()
        self.maximum = max(self.maximum, most, self.current)


def trim_heap() -> None:
    """Give the system back what was freed and the allocator keeps, where it can be asked to."""
    with contextlib.suppress(OSError, AttributeError):  # it is glibc's
        ctypes.CDLL(None).malloc_trim(0)


def memory_limit() -> int:
    """Return how many bytes the process may have: of its container, else of the machine."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _CONTAINER:
        with contextlib.suppress(OSError, ValueError):  # "max": there is none
            most = min(most, int(file.read_text(encoding="ascii")))
    return most
