"""The limit of one read: what ends it from another thread, and with which Error.

SQLite ends a statement when its connection is interrupted. That is for whatever runs on the
connection at that moment, so a limit holds the connection only while its own read does, and lets
go of it under a lock: an interrupt never meets the next reader of a pooled connection. An interrupt
that comes between two statements of a read is lost; who ends a read calls ``end`` again until it
has ended.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local

from rowcast.core.errors import Error


class ReadLimit:
    """Ends one read: ``end`` is called on any thread, all else by the thread that reads."""

    __slots__ = ("_interrupt", "_lock", "ended")

    def __init__(self) -> None:
        self.ended: Error | None = None
        """What the read raises; None as long as it may go on."""
        self._interrupt: Callable[[], None] | None = None
        self._lock = Lock()

    def end(self, error: Error) -> None:
        """End the read; the first Error stands. Once is not enough: see above."""
        with self._lock:
            self.ended = self.ended or error
            if self._interrupt is not None:
                self._interrupt()

    def check(self) -> None:
        """Raise the Error of a read that was ended."""
        if self.ended is not None:
            raise self.ended

    @contextmanager
    def holding(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Let ``end`` interrupt a connection, until the read lets go of it."""
        with self._lock:
            self.check()
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None


class ThreadLimit(local):
    """The limit of the read that this thread does now; None where there is none."""

    now: ReadLimit | None = None
