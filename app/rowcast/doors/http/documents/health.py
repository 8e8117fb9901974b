"""Health: whether the server lives, and whether it is ready, for whoever watches over it (O4).

It lives as long as it answers. It is ready when each check says so: the disk took a write a moment
ago and has refused none since, reads are answered, every port is open, nothing is shed and no end
is near. A check is a function that returns what
is wrong, or nothing; what they look at their owners know.
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
from rowcast.kernel.commit import Committer
from rowcast.store.store import Change
from rowcast.subscriptions.reader import Reader

Check = Callable[[], Awaitable[str]]
"""Returns what is wrong; empty when all is well."""

OWNER = "health"
PROBED = "$SYS/health"
"""A topic at which there is nothing; to know that, the disk is asked."""


class Readiness:
    """The checks of one server, in the order in which they are told."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}

    def add(self, name: str, look: Callable[[], str]) -> None:
        """Add a check that need not wait."""

        async def check() -> str:
            return look()

        self.checks[name] = check

    async def look(self) -> Mapping[str, str]:
        """Return what each check found: ``ok``, or what is wrong."""
        return {name: await check() or "ok" for name, check in self.checks.items()}


class StoreProbe:
    """Finds out whether the disk takes a write: by writing a small one, not too often.

    Where a commit was refused, what was found out before is worth nothing, and a small write shows
    too little: it writes more, each time it is asked, until that is taken.
    """

    def __init__(self, committer: Committer, now: WallClock) -> None:
        self._committer = committer
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._asked_at = float("-inf")
        self._answer: asyncio.Future[str] | None = None

    async def __call__(self) -> str:
        """Return why it takes none; many who ask at once share one write."""
        answer, disk = self._answer, self._committer.disk
        old = self._loop.time() - self._asked_at > READY_PROBE_SECONDS
        if answer is None or (answer.done() and (old or answer.result() or disk.refused)):
            answer = self._answer = self._write()
        try:
            async with asyncio.timeout(READY_WAIT_SECONDS):
                return await asyncio.shield(answer) or disk.refused
        except TimeoutError:
            waiting = self._committer.backlog
            return f"no write was done within {READY_WAIT_SECONDS:g} s; {waiting} wait for the disk"

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
    """Finds out whether reads are answered: by one that waits for its turn like a query."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._asked: asyncio.Task[None] | None = None

    async def _read(self) -> None:
        await self._reader.ask(lambda store: store.get(None, PROBED))

    async def __call__(self) -> str:
        """Return why none is answered; many who ask at once share one read."""
        asked = self._asked
        if asked is None or asked.done():
            asked = self._asked = asyncio.ensure_future(self._read())
        try:
            async with asyncio.timeout(READY_WAIT_SECONDS):
                await asyncio.shield(asked)
        except TimeoutError:
            queue = self._reader.queue
            return (
                f"no read was done within {READY_WAIT_SECONDS:g} s; {queue.running} are under way "
                f"and {queue.waiting} wait"
            )
        except Error as error:
            return error.message
        return ""
