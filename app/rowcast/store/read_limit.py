"""The limit of one read: cancels it from another thread, with an Error.

SQLite cancels a statement when its connection is interrupted. An interrupt affects whatever runs on
the connection at that moment, so a limit refers to the connection only during its own read, and
releases it under a lock: an interrupt never affects the next reader of a pooled connection. An
interrupt between two statements of a read is lost; the caller repeats ``end`` until the read has
ended.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local

from rowcast.core.errors import Error


class ReadLimit:
    """Cancels one read: ``end`` is called on any thread, all else by the reading thread."""

    __slots__ = ("_interrupt", "_lock", "ended")

    def __init__(self) -> None:
        self.ended: Error | None = None
        """The Error that the read raises; None while it may continue."""
        self._interrupt: Callable[[], None] | None = None
        self._lock = Lock()

    def end(self, error: Error) -> None:
        """Cancel the read; the first Error wins. May need to be repeated: see above."""
        with self._lock:
            self.ended = self.ended or error
            if self._interrupt is not None:
                self._interrupt()

    def check(self) -> None:
        """Raise the Error of a cancelled read."""
        if self.ended is not None:
            raise self.ended

    @contextmanager
    def holding(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Let ``end`` interrupt a connection until the read releases it."""
        with self._lock:
            self.check()
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None


class ThreadLimit(local):
    """The limit of this thread's current read; None if there is none."""

    now: ReadLimit | None = None
