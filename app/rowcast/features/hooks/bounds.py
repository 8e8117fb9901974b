"""What hooks may take: time, and memory of what waits for them.

The values and their reasons are those of ``core/limits.py`` and ``core/memory_limits.py``; all
hooks of one server have the same bounds.
"""

from dataclasses import dataclass
from typing import Final

from rowcast.core.limits import (
    HOOK_NOTICES_MAX,
    HOOK_RECORDS_MAX,
    HOOK_SECONDS_MAX,
    HOOK_WRITES_MAX,
)
from rowcast.core.memory_limits import HOOK_WRITES_BYTES_MAX

HOOK_END_SECONDS: Final = 1.0
"""For a hook to clean up after its cancellation: it holds up the next writes of its caller."""
HOOK_STUCK_MAX: Final = 100
"""Some kilobytes each, and whatever the hook holds. They end with the server at the latest."""


@dataclass(frozen=True, slots=True)
class HookBounds:
    """The bounds of the hooks of one server."""

    seconds: float = HOOK_SECONDS_MAX
    """Timeout of an asynchronous hook."""
    notices: int = HOOK_NOTICES_MAX
    """Notifications queued for one asynchronous listener."""
    records: int = HOOK_RECORDS_MAX
    """Retained values that a hook returns at once."""
    writes: int = HOOK_WRITES_MAX
    """Writes of one caller that wait for an asynchronous hook."""
    writes_bytes: int = HOOK_WRITES_BYTES_MAX
    """Bytes of their payloads."""

    end_seconds: float = HOOK_END_SECONDS
    """For an asynchronous hook to end once it was cancelled, before nobody waits for it."""
    stuck: int = HOOK_STUCK_MAX
    """Calls of one hook that go on though they were cancelled, beyond which it is not called."""


BOUNDS: Final = HookBounds()
"""The bounds by default."""
