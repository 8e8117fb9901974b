"""Copies of the tables for nodes that have none: asked for, sent and received over a connection.

The sequencer copies its database file as a backup does, and sends it in parts as fast as
the connection takes them, then the digest. The file has the number of the last batch in it, so
whoever has it follows the log from there. One copy is made at a time.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, Protocol, cast

from rowcast.cluster.messages import COPY, COPY_END, COPY_PART, REFUSED, pack, unpack
from rowcast.core.errors import Code, Error
from rowcast.store.backup import copy_database
from rowcast.store.private import open_new

log = logging.getLogger("rowcast.cluster")

PART_BYTES: Final = 1024 * 1024
"""Of a file in one message: its transport holds a few of them."""
SUFFIX: Final = ".copy"


class CopyTarget(Protocol):
    """The connection of a node that gets a copy."""

    full: bool
    """Whether its transport has no room now."""
    on_room: Callable[[], None]
    """Called when it has room again, and when it is closed."""

    @property
    def is_open(self) -> bool:
        """Whether it is there."""

    def send(self, message: bytes) -> None:
        """Send a message."""


class TableCopies:
    """Sends copies of a database file, one after the other."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._one = asyncio.Lock()
        self._sending: set[asyncio.Task[None]] = set()

    def begin(self, target: CopyTarget) -> None:
        """Have a copy made and sent."""
        task = asyncio.get_running_loop().create_task(self._send(target), name="table-copy")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, target: CopyTarget) -> None:
        file = self._database.with_name(self._database.name + SUFFIX)
        async with self._one:
            try:
                await asyncio.to_thread(_copy, self._database, file)
                log.info("a node without tables gets a copy of %d bytes", file.stat().st_size)
                await self._send_file(target, file)
            except (Error, OSError) as error:
                log.warning("a node did not get a copy of the tables: %s", error)
                target.send(pack(REFUSED, f"the tables cannot be copied: {error}"))
            finally:
                file.unlink(missing_ok=True)

    async def _send_file(self, target: CopyTarget, file: Path) -> None:
        digest = hashlib.sha256()
        with await asyncio.to_thread(file.open, "rb") as opened:
            while part := await asyncio.to_thread(opened.read, PART_BYTES):
                await _room(target)
                if not target.is_open:
                    return
                digest.update(part)
                target.send(pack(COPY_PART, part))
        target.send(pack(COPY_END, digest.digest()))

    async def stop(self) -> None:
        """End what is being sent."""
        for task in tuple(self._sending):
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)


def _copy(database: Path, file: Path) -> None:
    file.unlink(missing_ok=True)  # of a life that was killed
    copy_database(database, file)


async def _room(target: CopyTarget) -> None:
    while target.full and target.is_open:
        free = asyncio.Event()
        target.on_room = free.set
        await free.wait()


class CopyReceiver:
    """Takes a copy into a new file; the node that waits for it does nothing else.

    So it writes on the loop. ``done`` gets what became of it, once.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._opened: IO[bytes] | None = None
        self._digest = hashlib.sha256()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ask(self, send: Callable[[bytes], None]) -> None:
        """Ask for it, on a new connection."""
        self._file.unlink(missing_ok=True)
        self._opened = open_new(self._file)
        send(pack(COPY, None))

    def received(self, data: bytes) -> None:
        """Take a message. Raises an Error after which the connection is of no use."""
        kind, content = unpack(data)
        opened = self._opened
        if kind == COPY_PART and opened is not None:
            self._write(opened, cast("bytes", content))
        elif kind == COPY_END and opened is not None:
            whole = content == self._digest.digest()
            self._end(None if whole else Error(Code.INVALID, "the copy has come damaged"))
        elif kind == REFUSED:
            self._end(Error(Code.BUSY, str(content)))
        else:
            raise Error(Code.INVALID, f"a message of kind {kind} instead of a copy")

    def _write(self, opened: IO[bytes], part: bytes) -> None:
        try:
            opened.write(part)
        except OSError as error:
            self._end(Error(Code.BUSY, f"{self._file} cannot be written: {error.strerror}"))
            raise Error(Code.BUSY, "the disk refuses") from error
        self._digest.update(part)

    def lost(self) -> None:
        """Note that the connection has ended."""
        self._end(Error(Code.BUSY, "the connection was lost"))

    def _end(self, error: Error | None) -> None:
        if self.done.done():
            return
        if self._opened is not None:
            self._opened.close()
        if error is None:
            self.done.set_result(None)
        else:
            self._file.unlink(missing_ok=True)
            self.done.set_exception(error)
