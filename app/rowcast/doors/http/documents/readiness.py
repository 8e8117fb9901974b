"""Readiness: the checks behind ``GET /health/ready`` (O4).

The server is ready if all checks pass: the disk accepted a recent write and has refused none since,
reads are answered, every port is open, nothing is shed and no shutdown is in progress. A check is a
function that returns a problem, or an empty text; owners of components register them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from rowcast.core.clock import WallClock
from rowcast.core.errors import Error
from rowcast.core.overload_limits import (
    READY_PROBE_BYTES,
    READY_PROBE_SECONDS,
    READY_WAIT_SECONDS,
)
from rowcast.store.store import Change
from rowcast.subscriptions.reader import Reader
from rowcast.writes.commit import Committer

Check = Callable[[], Awaitable[str]]
"""Returns the problem; empty if there is none."""

OWNER = "health"
PROBED = "$SYS/health"
"""A topic without a record; a read of it queries the disk."""


class Readiness:
    """The checks of one server, in the order of the report."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}
        self.warnings: dict[str, Callable[[], str]] = {}
        """What is wrong, and no reason to send requests elsewhere; shown by ``GET /health``."""

    def add(self, name: str, look: Callable[[], str]) -> None:
        """Add a check that need not wait."""

        async def check() -> str:
            return look()

        self.checks[name] = check

    async def look(self) -> Mapping[str, str]:
        """Return the result of each check: ``ok``, or the problem."""
        return {name: await check() or "ok" for name, check in self.checks.items()}


class StoreProbe:
    """Checks whether the disk accepts a write, with a rate-limited small write.

    After a refused commit, the cached result is invalid, and a small write proves too little: each
    check writes more, until that succeeds.
    """

    def __init__(
        self, committer: Committer, now: WallClock, wait_seconds: float = READY_WAIT_SECONDS
    ) -> None:
        self._wait_seconds = wait_seconds
        self._committer = committer
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._asked_at = float("-inf")
        self._answer: asyncio.Future[str] | None = None

    async def __call__(self) -> str:
        """Return the problem of the disk; concurrent checks share one write."""
        answer, disk = self._answer, self._committer.disk
        old = self._loop.time() - self._asked_at > READY_PROBE_SECONDS
        if answer is None or (answer.done() and (old or answer.result() or disk.refused)):
            answer = self._answer = self._write()
        try:
            async with asyncio.timeout(self._wait_seconds):
                return await asyncio.shield(answer) or disk.refused
        except TimeoutError:
            waiting = self._committer.backlog
            seconds = f"{self._wait_seconds:g} s"
            return f"no write was done within {seconds}; {waiting} wait for the disk"

    def _write(self) -> "asyncio.Future[str]":
        self._asked_at = self._loop.time()
        answer: asyncio.Future[str] = self._loop.create_future()

        def done(error: Error | None) -> None:
            if not answer.done():
                answer.set_result("" if error is None else error.message)

        value, disk = str(int(self._now())).encode(), self._committer.disk
        if disk.refused:
            value = value.ljust(max(READY_PROBE_BYTES, disk.refused_bytes))
        self._committer.keep((Change(OWNER, "probe", value),), done)
        return answer


class ReadProbe:
    """Checks whether reads are answered, with a read that is queued like a query."""

    def __init__(self, reader: Reader, wait_seconds: float = READY_WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._reader = reader
        self._asked: asyncio.Task[None] | None = None

    async def _read(self) -> None:
        await self._reader.ask(lambda store: store.get(None, PROBED))

    async def __call__(self) -> str:
        """Return the problem of reads; concurrent checks share one read."""
        asked = self._asked
        if asked is None or asked.done():
            asked = self._asked = asyncio.ensure_future(self._read())
        try:
            async with asyncio.timeout(self._wait_seconds):
                await asyncio.shield(asked)
        except TimeoutError:
            queue = self._reader.queue
            return (
                f"no read was done within {self._wait_seconds:g} s; {queue.running} are under way "
                f"and {queue.waiting} wait"
            )
        except Error as error:
            return error.message
        return ""
