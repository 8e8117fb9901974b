"""One thread that runs calls in order: an executor without what several threads need.

Between the event loop and the writer thread goes every write twice. ``ThreadPoolExecutor`` takes
three locks, a semaphore and a future with a condition for each call, which cost as much as a small
write itself.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

log = logging.getLogger("rowcast.threads")

T = TypeVar("T")
Call = Callable[[], object]
Done = Callable[[], object]
Failed = Callable[[BaseException], object]


class SingleThread(Executor):
    """One thread, called ``name``, which starts with the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[tuple[Call, Done, Failed] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        """Nothing is put behind the end of the queue."""
        self._stopped = False

    def call(self, call: Call, done: Done, failed: Failed) -> None:
        """Run a call without a result, then ``done``, or ``failed`` with what it has raised.

        All on the thread. Raises RuntimeError after a stop.
        """
        with self._starting:
            if self._stopped:
                raise RuntimeError(f"{self._name} has stopped")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._calls.put((call, done, failed))

    def submit(self, call: Callable[..., T], /, *args: object, **named: object) -> "Future[T]":
        """Run a call; see ``Executor``. Raises RuntimeError after a stop."""
        future: Future[T] = Future()
        self.call(partial(_settle, future, partial(call, *args, **named)), _nobody, _nobody)
        return future

    def _run(self) -> None:
        calls = self._calls.get
        while (item := calls()) is not None:
            call, done, failed = item
            try:
                call()
            except BaseException as raised:  # noqa: BLE001 - whoever has asked for it is told
                done = partial(failed, raised)
            try:
                done()
            except Exception:
                log.exception("nobody could be told of the end of %r", call)
            del item, call, done, failed  # what they hold is free while the next is waited for

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end after those that wait; ``wait`` for that."""
        del cancel_futures  # whoever has submitted one waits for it
        with self._starting:
            if not self._stopped:
                self._stopped = True
                self._calls.put(None)
        if wait and self._thread is not None:
            self._thread.join()


def _nobody(*_error: BaseException) -> None:
    """Be told: the future has the result."""


def _settle(future: "Future[T]", call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - whoever waits for it decides
        future.set_exception(error)
    else:
        future.set_result(result)
