"""How much memory the process has: resident now, and the most that it ever had."""

import contextlib
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""What the greatest resident size is counted in."""


class Heap:
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
