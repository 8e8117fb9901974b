"""Health: whether the server lives, and whether it is ready, for whoever watches over it (O4).

It lives as long as it answers. It is ready when each check says so: the disk took a write a moment
ago, every port is open, nothing is shed and no end is near. A check is a function that returns what
is wrong, or nothing; what they look at their owners know.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from app.core.clock import WallClock
from app.core.errors import Error
from app.core.overload_limits import READY_PROBE_SECONDS, READY_WAIT_SECONDS
from app.engine.commit import Committer
from app.store.store import Change

Check = Callable[[], Awaitable[str]]
"""Returns what is wrong; empty when all is well."""

OWNER = "health"


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
    """Finds out whether the disk takes a write: by writing a small one, not too often."""

    def __init__(self, committer: Committer, now: WallClock) -> None:
        self._committer = committer
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._asked_at = float("-inf")
        self._answer: asyncio.Future[str] | None = None

    async def __call__(self) -> str:
        """Return why it takes none; many who ask at once share one write."""
        answer = self._answer
        old = self._loop.time() - self._asked_at > READY_PROBE_SECONDS
        if answer is None or (answer.done() and (old or answer.result())):
            answer = self._answer = self._write()
        try:
            async with asyncio.timeout(READY_WAIT_SECONDS):
                return await asyncio.shield(answer)
        except TimeoutError:
            waiting = self._committer.backlog
            return f"no write was done within {READY_WAIT_SECONDS:g} s; {waiting} wait for the disk"

    def _write(self) -> "asyncio.Future[str]":
        self._asked_at = self._loop.time()
        answer: asyncio.Future[str] = self._loop.create_future()

        def done(error: Error | None) -> None:
            if not answer.done():
                answer.set_result("" if error is None else error.message)

        change = Change(OWNER, "probe", str(int(self._now())).encode())
        self._committer.keep((change,), done)
        return answer
