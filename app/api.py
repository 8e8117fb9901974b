"""The public face for code in ``resources/``: all that it may import.

``resources/echo.py`` is a whole example: a class that extends Resource, whose ``connect``
yields what a client is sent.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable

from app.core.callers import Caller
from app.core.errors import Code, Error
from app.core.events import Event, Record
from app.core.queries import Query
from app.core.tables import Table
from app.engine.resource import Incoming, Resource, Stream

__all__ = [
    "Caller",
    "Code",
    "Error",
    "Event",
    "Incoming",
    "Query",
    "Record",
    "Resource",
    "Stream",
    "Table",
    "Timer",
    "every",
]

log = logging.getLogger("rowcast.resources")


class Timer:
    """Something that happens again and again until cancelled."""

    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        self._task = asyncio.get_running_loop().create_task(_repeat(seconds, call))

    @property
    def running(self) -> bool:
        """Whether it still happens."""
        return not self._task.done()

    def cancel(self) -> None:
        """End it."""
        self._task.cancel()


def every(seconds: float, call: Callable[[], object]) -> Timer:
    """Call ``call`` every ``seconds`` from now on; a coroutine function is awaited."""
    return Timer(seconds, call)


async def _repeat(seconds: float, call: Callable[[], object]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            result = call()
            if inspect.isawaitable(result):
                await result
        except Exception:
            log.exception("a timer of a resource failed; it goes on")
