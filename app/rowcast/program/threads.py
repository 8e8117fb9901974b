"""The threads of a server besides its event loop, and its child processes."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rowcast.core.authentication_limits import PASSWORD_CHECKS_AT_ONCE
from rowcast.core.read_limits import READER_THREADS
from rowcast.net.background_threads import background_threads
from rowcast.net.fork_server import Processes
from rowcast.net.single_thread import SingleThread
from rowcast.net.worker_processes import WorkerProcesses

T = TypeVar("T")


class Threads:
    """All thread pools; threads and child processes start on demand.

    ``password_checks`` is how many passwords are hashed at once; ``processes`` start the children.
    """

    def __init__(
        self, password_checks: int | None = None, processes: Processes | None = None
    ) -> None:
        self.writer = SingleThread("rowcast-writer")
        self.readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="rowcast-reader")
        self.searches = background_threads(READER_THREADS, "rowcast-search")
        checks = password_checks or checks_at_once()
        self.hashes = WorkerProcesses(checks, "rowcast-hashes", processes=processes)

    async def write(self, call: Callable[..., T], *arguments: object) -> T:
        """Run a call on the single writer thread."""
        return await asyncio.get_running_loop().run_in_executor(self.writer, call, *arguments)

    async def check_password(self, check: Callable[[str], bool], password: str) -> bool:
        """Compare a password with its hash in a child process; takes tenths of a second."""
        return await self.hashes.run(check, password)

    def stop(self) -> None:
        """Wait for running work, and stop them; password checks are refused."""
        for threads in (self.writer, self.readers, self.searches):
            threads.shutdown()
        self.hashes.stop()


def checks_at_once() -> int:
    """Return how many passwords to hash at once: one core is left to the event loop."""
    return max(1, min(PASSWORD_CHECKS_AT_ONCE, (os.cpu_count() or 1) - 1))
