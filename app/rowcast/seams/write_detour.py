"""The extension point where writes wait until a large value was checked in another process.

It has a module of its own, because an interpreted feature extends it and ``writes/write.py`` is
compiled.
"""

from collections.abc import Callable, Container

from rowcast.core.callers import Caller
from rowcast.writes.write import Write


class WriteDetour:
    """Lets writes wait until their content was checked elsewhere; a feature replaces it."""

    bytes_min: int
    """The size from which on a payload takes the detour."""
    waiting: Container[object] = ()
    """Connections with waiting writes, whose later writes must wait behind them."""

    def take(self, write: Write) -> bool:  # noqa: ARG002
        """Let a write wait, and run it again later; return whether it does."""
        return False

    def after(self, caller: Caller, call: Callable[[], None]) -> None:  # noqa: ARG002
        """Call once a caller's waiting writes have left the detour; at once if there are none."""
        call()
