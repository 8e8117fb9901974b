"""Calls on the writer thread between two commits: trims, deferred work, and those of features."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import TypeVar

from rowcast.core.errors import stopping
from rowcast.core.events import Record
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource
from rowcast.store.store import Appends, Keep

T = TypeVar("T")
Done = Callable[[], object]
Failed = Callable[[BaseException], object]
"""Called when a call has ended, or with what it has raised."""


class WriterCalls:
    """The part of the committer that others call on its thread."""

    def __init__(self, store: Appends, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._call: Callable[[Callable[[], None], Done, Failed], None] = getattr(
            executor, "call", partial(_call_by, executor)
        )
        """Runs a call without a result on the writer thread, which calls ``done`` or ``failed``.
        In the server it is ``net/single_thread.py:SingleThread.call``."""
        self._loop = asyncio.get_running_loop()

    def on_writer(self, call: Callable[[], T]) -> "Future[T]":
        """Run a call on the writer thread between two commits."""
        try:
            return self._executor.submit(call)
        except RuntimeError:  # the threads have stopped: shutdown
            refused: Future[T] = Future()
            refused.set_exception(stopping())
            return refused

    async def trim(self, source: LogSource, keep: Keep, now_seconds: float, limit: int) -> int:
        """Delete old events; return how many."""
        return await self._result(partial(self._store.trim, source, keep, now_seconds, limit))

    async def tidy(self, limit: int) -> bool:
        """Run a step of deferred work; return whether more is left."""
        return await self._result(partial(self._store.tidy, limit))

    async def records(self, wanted: Sequence[tuple[Table | None, str]]) -> dict[str, Record]:
        """Return the current records of these topics, as a write finds them."""
        return await self._result(partial(self._store.lookup, wanted))

    async def _result(self, call: "Callable[[], T | Future[T]]") -> T:
        """Call on the writer thread; wait for the result, which may come later."""
        found = await self._loop.run_in_executor(self._executor, call)
        return await asyncio.wrap_future(found) if isinstance(found, Future) else found


def _call_by(executor: Executor, call: Callable[[], None], done: Done, failed: Failed) -> None:
    executor.submit(call).add_done_callback(partial(_complete, done, failed))


def _complete(done: Done, failed: Failed, future: "Future[None]") -> None:
    error = future.exception()
    if error is None:
        done()
    else:
        failed(error)
