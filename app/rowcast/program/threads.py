"""The threads of a server besides its event loop: the writer, readers and password hashing."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rowcast.core.entry_limits import PASSWORD_CHECKS_AT_ONCE
from rowcast.core.read_limits import READER_THREADS
from rowcast.net.background_threads import background_threads

T = TypeVar("T")


class Threads:
    """All thread pools; threads start on demand."""

    def __init__(self) -> None:
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="rowcast-writer")
        self.readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="rowcast-reader")
        self.searches = background_threads(READER_THREADS, "rowcast-search")
        self._hashes = background_threads(PASSWORD_CHECKS_AT_ONCE, "rowcast-password")

    async def write(self, call: Callable[..., T], *arguments: object) -> T:
        """Run a call on the single writer thread."""
        return await asyncio.get_running_loop().run_in_executor(self.writer, call, *arguments)

    async def check_password(self, check: Callable[[str], bool], password: str) -> bool:
        """Compare a password with its hash on a thread; takes tenths of a second."""
        return await asyncio.get_running_loop().run_in_executor(self._hashes, check, password)

    def stop(self) -> None:
        """Wait for running work, and stop them."""
        for threads in (self.writer, self.readers, self.searches, self._hashes):
            threads.shutdown()
