"""The log of several machines, as the node has it that appends.

Each batch is an entry of an engine (``engine.py``), durable on a majority before ``append``
returns. A copy of what was appended is in files beside the tables (``Spool``), because the applier
follows files; it is begun anew with each start, and needs no sync.

An append whose answer is lost is made again with the same bytes: the engine takes them as the same
entry or not at all, so that "not the next one" has two meanings, which the entry itself tells
apart: ours, or another node's. Who cannot find out in time appends nothing more: it does not know
where the log ends.
"""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from rowcast.core.errors import Code, Error
from rowcast.log.batch import Batch
from rowcast.log.engine import Engine
from rowcast.log.local_log import SEGMENT_BYTES, LocalLog
from rowcast.log.log import Head

T = TypeVar("T")

APPEND_SECONDS: Final = 10.0
"""How long an append is tried. An engine chooses a new leader within some seconds; who gets no
answer for longer is on the wrong side of a cut, and another node goes on."""
BYTES_PER_SECOND: Final = 4 * 1024 * 1024
"""How much longer a large batch may take: twice over a network of 100 Mbit/s."""
PAUSE_SECONDS: Final = 0.05
"""Between two attempts, where the engine answers at once that it cannot."""


class Spool:
    """Batches in files, for the applier of this node."""

    def __init__(
        self, directory: Path, epoch: str, after: int, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        self.directory = directory
        self._files = LocalLog(directory, epoch, segment_bytes, after + 1, synced=False)

    @property
    def trimmed(self) -> int:
        """The number of the last batch that is not here."""
        return self._files.trimmed

    def take(self, batch: Batch) -> None:
        """Write the next batch. Raises CONFLICT for another one, BUSY when the disk refuses."""
        self._files.term = batch.term
        self._files.append(batch)

    def read(self, after: int, size: int) -> list[Batch]:
        """Return the batches after a number, as ``Log.read``."""
        return self._files.read(after, size)

    def trim(self, until: int) -> None:
        """Remove files whose batches the tables have."""
        self._files.trim(until)

    def close(self) -> None:
        """Release files."""
        self._files.close()


class ReplicatedLog:
    """A log whose batches are entries of an engine; one writer.

    ``last`` is the number of the last event of the tables, for an engine that has none yet. Raises
    BUSY when the engine is silent, INVALID when its last entry is no batch.
    """

    def __init__(
        self,
        engine: Engine,
        spool: Path,
        last: int = 0,
        *,
        append_seconds: float = APPEND_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._engine = engine
        self._append_seconds, self._pause_seconds = append_seconds, pause_seconds
        self.epoch = engine.epoch
        self.problem = ""
        """Why nothing more can be appended; empty while it can. It does not end."""
        first, end = self._patiently(engine.bounds)
        self.head, self.term = Head(end, last), 1
        self.trimmed = first - 1
        if end >= first:
            newest = self._at(end)
            self.head, self.term = Head(end, newest.last), newest.term + 1
        self.on_problem: Callable[[], None] | None = None
        """Called once, on the thread that appended, when a problem is found."""
        self._grown = threading.Condition()
        self.spool = Spool(spool, self.epoch, end, segment_bytes)

    def _at(self, number: int) -> Batch:
        def read() -> bytes:
            found = self._engine.read(number - 1, 1)
            if not found:
                raise Error(Code.BUSY, f"entry {number} of the log cannot be read")
            return found[0]

        return Batch.read(self._patiently(read))

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer: an engine that has lost a server chooses a new leader."""
        deadline = time.monotonic() + self._append_seconds
        while True:
            try:
                return ask()
            except Error as error:
                if error.code is not Code.BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(self._pause_seconds)

    # -- appending ---------------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """Append a batch; on return it is durable on a majority.

        Raises CONFLICT when another node has appended, or when it is not the next of this writer's
        term; TOO_LARGE; BUSY when it is not known whether it is in the log.
        """
        if self.problem or (batch.term, batch.number) != (self.term, self.head.number + 1):
            raise Error(
                Code.CONFLICT,
                self.problem
                or f"batch {batch.number} of term {batch.term} cannot follow batch"
                f" {self.head.number} in term {self.term}",
            )
        self._store(batch)
        self._spool(batch)
        with self._grown:
            self.head = Head(batch.number, batch.last)
            self._grown.notify_all()

    def _store(self, batch: Batch) -> None:
        deadline = time.monotonic() + self._append_seconds + len(batch.data) / BYTES_PER_SECOND
        sent = False
        """Whether an attempt may have stored it without an answer."""
        while True:
            try:
                self._engine.append(batch.number, batch.data)
            except Error as error:
                if error.code is Code.CONFLICT:
                    own = self._is_own(batch) if sent else False
                    if own:
                        return
                    if own is False:
                        self._end("another node has appended to the log")
                        raise
                elif error.code is not Code.BUSY:
                    raise
                sent = True
                if self.problem or time.monotonic() > deadline:
                    self._end("the engine of the log has not answered in time")
                    raise _unknown(error) from error
                time.sleep(self._pause_seconds)
            else:
                return

    def _spool(self, batch: Batch) -> None:
        try:
            self.spool.take(batch)
        except Error as error:  # the log has it, and the tables of this node cannot follow
            self._end(error.message)
            raise _unknown(error) from error

    def _is_own(self, batch: Batch) -> bool | None:
        """Whether the entry with a batch's number is that batch; None if it is not known."""
        try:
            found = self._engine.read(batch.number - 1, 1)
        except Error:
            return None
        return found[0] == batch.data if found else None

    def _end(self, problem: str) -> None:
        if not self.problem:
            self.problem = problem
            if self.on_problem is not None:
                self.on_problem()

    def abandon(self, problem: str) -> None:
        """Append nothing more, and wait no longer for an answer; from any thread."""
        self._end(problem)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, after: int, size: int) -> list[Batch]:
        """Return the batches after a number, in order, up to about ``size`` bytes."""
        head = self.head.number  # behind it may be what another node has appended
        if after >= head:
            return []
        if after >= self.spool.trimmed:
            return self.spool.read(after, size)
        found = [Batch.read(data) for data in self._engine.read(after, size)]
        if not found:
            raise Error(Code.BUSY, f"entry {after + 1} of the log cannot be read now")
        return [batch for batch in found if batch.number <= head]

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until the log has a batch after a number, at most so long; tell whether it has."""
        with self._grown:
            return self._grown.wait_for(lambda: self.head.number > after, seconds)

    def trim(self, until: int) -> None:
        """Let go of files of batches that the tables have; the engine's are for other nodes."""
        self.spool.trim(until)
        self._engine.trim(until)
        self.trimmed = self._engine.bounds()[0] - 1

    def close(self) -> None:
        """Release files; the engine is closed by who opened it."""
        self.spool.close()


def _unknown(error: Error) -> Error:
    return Error(
        Code.BUSY,
        f"it is not known whether this was written: {error.message}; read before you repeat it",
        retry_after_seconds=1,
        elsewhere=True,
    )
