"""Where writes wait for an examination: apart, since an interpreted feature derives from it."""

from collections.abc import Callable, Container

from rowcast.core.callers import Caller
from rowcast.kernel.write import Write


class WriteDetour:
    """Where writes may wait until their content was examined elsewhere; a feature replaces it."""

    bytes_min: int
    """The least payload that takes the detour."""
    waiting: Container[Caller] = ()
    """Callers with waiting writes: what they write meanwhile has to wait behind."""

    def take(self, write: Write) -> bool:  # noqa: ARG002
        """Let a write wait, and run it again later; return whether it does."""
        return False

    def after(self, caller: Caller, call: Callable[[], None]) -> None:  # noqa: ARG002
        """Call once a caller's waiting writes have gone on; at once if there are none."""
        call()
