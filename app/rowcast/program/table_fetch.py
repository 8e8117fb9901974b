"""Gets a copy of the sequencer's tables for a node that is about to start.

A node that hangs goes on to hold its connections, so who waits for a copy of it would wait for
ever. The lease says when another node has become the sequencer; then the copy comes from that one.
"""

import asyncio
import logging
from collections.abc import Awaitable
from pathlib import Path
from typing import Final, Protocol

from rowcast.cluster.lease_keeper import Holder
from rowcast.core.errors import Code, Error
from rowcast.journal.node_opening import replace_tables
from rowcast.log.engine import Engine

log = logging.getLogger("rowcast.cluster")

LOOK_SECONDS: Final = 2.0
"""How often it is seen whose copy is to come: less than a lease lasts, and one small request."""
PAUSE_SECONDS: Final = 0.5
"""Before a copy that did not come is asked for again."""
FETCHED: Final = ".fetched"
"""Behind the name of the database: a copy of another node's, until it is whole."""


class Fetch(Protocol):
    """Gets the tables of the node at an address into a file, as ``cluster.ports.fetch_copy``."""

    def __call__(self, host: str, port: int, *, file: Path) -> Awaitable[None]:
        """Begin. Raises an Error where it does not come."""


class TableFetch:
    """The way of the node ``own`` to a copy; ``stopping`` is set when it is to stop."""

    def __init__(
        self,
        engine: Engine,
        own: str,
        stopping: asyncio.Event,
        *,
        look_seconds: float = LOOK_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._engine, self._own, self._stopping = engine, own, stopping
        self._look_seconds, self._pause_seconds = look_seconds, pause_seconds

    async def replace(self, database: Path, fetch: Fetch) -> bool:
        """Put a copy in place of a database; return False if the node is to stop meanwhile."""
        file = database.with_name(f"{database.name}{FETCHED}")
        while not self._stopping.is_set():
            try:
                holder = await self._other()
                if holder is not None and await self._got(
                    fetch(holder.host, holder.port, file=file), holder
                ):
                    await asyncio.to_thread(replace_tables, database, file)
                    return True
            except Error as error:
                log.warning("it did not get a copy, and tries again: %s", error.message)
            await self._until_stopping(self._pause_seconds, None)
        return False

    async def _other(self) -> Holder | None:
        """Return the sequencer, if it is another node. Raises BUSY."""
        holder = Holder.unpack((await asyncio.to_thread(self._engine.lease)).holder)
        return None if holder is None or holder.node in {"", self._own} else holder

    async def _got(self, fetching: Awaitable[None], holder: Holder) -> bool:
        """Wait for a copy; return False if the node is to stop. Raises Error if it will not come.

        BUSY when another node has become the sequencer.
        """
        task = asyncio.ensure_future(fetching)
        try:
            while not task.done():
                await self._until_stopping(self._look_seconds, task)
                if self._stopping.is_set():
                    return False
                if not task.done() and await self._is_replaced(holder):
                    raise Error(
                        Code.BUSY,
                        f"node {holder.node} has not sent it, and is the sequencer no longer",
                    )
            task.result()
            return True
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def _is_replaced(self, holder: Holder) -> bool:
        try:
            now = await self._other()
        except Error:  # no answer of the log's engine: the copy may come all the same
            return False
        return now is not None and now.life != holder.life

    async def _until_stopping(self, seconds: float, task: "asyncio.Future[None] | None") -> None:
        """Wait for a while, for a task, or for the stop."""
        stopping: asyncio.Future[bool] = asyncio.ensure_future(self._stopping.wait())
        waited: list[asyncio.Future[bool] | asyncio.Future[None]] = [stopping]
        if task is not None:
            waited.append(task)
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
