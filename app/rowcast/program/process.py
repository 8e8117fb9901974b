"""The process that a server, a node or a worker is: its logs, its SQLite and its loop.

The process that forks others is forked here, while nothing is open and there is one thread.
"""

import asyncio
import contextlib
import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import Final, cast

from rowcast.core.overload_limits import USER_CODE_END_SECONDS
from rowcast.net.fork_server import ForkServer, Processes
from rowcast.program.config import Config
from rowcast.program.logs import configure_logging
from rowcast.store.sqlite_process import stop_counting_memory

log = logging.getLogger("rowcast")

EXIT_CUT: Final = 1
"""The exit code of a server that did not stop in time."""

Serve = Callable[[Config, Processes], Coroutine[object, object, None]]
"""Serves until a signal; the second argument starts the applier and workers."""


def run(config: Config, serve: Serve) -> None:
    """Run a server or a node until it ends. Raises Error when it cannot start."""
    prepare(config)
    for warning in config.warnings:
        log.warning("%s", warning)
    with closing(ForkServer()) as processes:
        run_loop(serve(config, processes))


def run_loop(main: Coroutine[object, object, None]) -> None:
    """Run the loop of this process; its end takes no longer than USER_CODE_END_SECONDS."""
    runner = asyncio.Runner(loop_factory=loop_factory())
    try:
        runner.run(main)
    finally:
        with bounded_end():
            runner.close()


def cut(leave: Callable[[int], object] = os._exit) -> None:
    """Exit the process immediately."""
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    leave(EXIT_CUT)


@contextmanager
def bounded_end(
    seconds: float = USER_CODE_END_SECONDS, late: Callable[[], object] = cut
) -> Iterator[None]:
    """Exit the process at once when the block takes longer: all that matters has stopped already.

    The end of a loop waits for its tasks and for its threads, and user code (hooks, resource
    classes) may suppress the cancellation of a task, or block a thread for ever. ``late`` is called
    then, in a thread of its own.
    """

    def give_up() -> None:
        log.error(
            "stopping at once: tasks or threads of hooks or resources go on, %s s after the server "
            "has stopped",
            seconds,
        )
        late()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def prepare(config: Config) -> None:
    """Set what holds for the whole process, while nothing is open: its logs, and SQLite."""
    configure_logging(config.logging.level, config.logging.format)
    stop_counting_memory()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return uvloop's loop where it is installed (the extra ``speed``), else asyncio's own."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop
    return cast("Callable[[], asyncio.AbstractEventLoop]", uvloop.new_event_loop)
