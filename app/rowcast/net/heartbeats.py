"""Heartbeats of child processes: how the process that started one notices that it hangs.

A child shows that it is alive once a second. Its owner has a look once a second, and counts the
looks that found nothing, not the time that has passed: when the whole machine was paused, or the
owner, that is one look, and the next one finds what the child has shown since.
"""

import select
from typing import Final

HEARTBEAT_SECONDS: Final = 1.0
"""Between two heartbeats, and between two looks at them."""
HEARTBEAT_TIMEOUT_SECONDS: Final = 30
"""Without a heartbeat until a process counts as hanging: three times the longest pause, of ten
seconds, of a process on a machine that swaps, or whose cores are all busy with other programs."""
START_SECONDS: Final = 60
"""Until the first heartbeat, on a busy machine: where a child is no fork, it imports the server."""


class Silence:
    """For how long a process has shown no sign of life, in looks that are a second apart."""

    def __init__(
        self, timeout: int = HEARTBEAT_TIMEOUT_SECONDS, start_timeout: int = START_SECONDS
    ) -> None:
        self._timeout = timeout
        self._bound = max(timeout, start_timeout)
        self.seconds = 0
        """Of silence; any thread may read them."""

    def received(self) -> None:
        """Count a sign of life."""
        self.seconds, self._bound = 0, self._timeout

    def missed(self) -> bool:
        """Count a look that found no sign of life; return whether the process hangs."""
        self.seconds += 1
        return self.seconds >= self._bound

    @property
    def is_long(self) -> bool:
        """Whether it is worth a warning: half of what ends a process has passed."""
        return 2 * self.seconds >= self._bound


def readable(handle: int, seconds: float | None) -> bool:
    """Wait for so long at most; not by ``select``, which takes no handle beyond 1023."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))
