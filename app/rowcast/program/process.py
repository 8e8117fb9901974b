"""The process that a server, a node or a worker is: its logs, its SQLite and its loop.

The process that forks others is forked here, while nothing is open and there is one thread.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import cast

from rowcast.net.fork_server import ForkServer, Processes
from rowcast.program.config import Config
from rowcast.program.logs import configure_logging
from rowcast.store.sqlite_process import stop_counting_memory

log = logging.getLogger("rowcast")

Serve = Callable[[Config, Processes], Coroutine[object, object, None]]
"""Serves until a signal; the second argument starts the applier and workers."""


def run(config: Config, serve: Serve) -> None:
    """Run a server or a node until it ends. Raises Error when it cannot start."""
    prepare(config)
    for warning in config.warnings:
        log.warning("%s", warning)
    with (
        closing(ForkServer()) as processes,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        runner.run(serve(config, processes))


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
