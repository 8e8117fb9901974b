"""Large values: their writes wait here while a child process checks them, in order of each caller.

A value of two megabytes takes a tenth of a second to decode and check, and all that time under the
interpreter's lock. What follows such a write of the same caller waits behind it, so that the order
of its writes stays; what waits counts as pending, so that reading from its connection pauses.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, PATCH, Record
from rowcast.core.fairness_limits import LARGE_VALUE_STOP_SECONDS
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.core.write_marks import ORIGIN
from rowcast.net.worker_processes import WorkerProcesses
from rowcast.rows import large_values
from rowcast.rows.transcoder import IS_VALUE
from rowcast.seams.write_detour import WriteDetour
from rowcast.writes.write import Examination, Write

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.features.large_values")


class Lane:
    """The waiting writes of one caller, and calls that are to follow them."""

    __slots__ = ("jobs", "task")

    def __init__(self) -> None:
        self.jobs: deque[Write | Callable[[], None]] = deque()
        self.task: asyncio.Task[None] | None = None


class LargeValues(WriteDetour):
    """Checks and encodes values of at least ``bytes_min`` in the processes of ``workers``."""

    def __init__(
        self,
        kernel: "Kernel",
        workers: WorkerProcesses,
        bytes_min: int,
        stop_seconds: float = LARGE_VALUE_STOP_SECONDS,
    ) -> None:
        self._kernel = kernel
        self._pending = kernel.committer.pending
        self._workers = workers
        self._stop_seconds = stop_seconds
        self._lanes: dict[object, Lane] = {}
        """By connection: a caller is another one after a change of its rights."""
        self.waiting = self._lanes
        self.bytes_min = bytes_min

    # -- writes ------------------------------------------------------------------------------------

    def take(self, write: Write) -> bool:
        """Let a write wait, if its value is large or others of its caller wait; raises BUSY."""
        caller = write.caller
        lane = self._lanes.get(caller.connection)
        if lane is None and not self._is_large(write):
            return False
        self._pending.hold(caller, len(write.event.payload) + WRITE_BYTES)
        self._append(caller, write)
        return True

    def after(self, caller: Caller, call: Callable[[], None]) -> None:
        """Call once the waiting writes of a caller have gone on; at once if there are none."""
        if caller.connection in self._lanes:
            self._append(caller, call)
        else:
            call()

    def _append(self, caller: Caller, job: Write | Callable[[], None]) -> None:
        lane = self._lanes.get(caller.connection)
        if lane is None:
            lane = self._lanes[caller.connection] = Lane()
        lane.jobs.append(job)
        if lane.task is None:
            lane.task = asyncio.get_running_loop().create_task(self._walk(caller, lane))

    def _is_large(self, write: Write) -> bool:
        event = write.event
        return (
            len(event.payload) >= self.bytes_min
            and event.kind != DELETE
            and (event.table is not None or event.kind == PATCH)
        )

    async def _walk(self, caller: Caller, lane: Lane) -> None:
        """Let a caller's writes go on, one after the other."""
        while lane.jobs:
            job = lane.jobs[0]  # it stays, so that later ones wait behind it
            found = await self._examine(job) if isinstance(job, Write) else None
            lane.jobs.popleft()
            if not lane.jobs:
                del self._lanes[caller.connection]
            try:
                if isinstance(job, Write):
                    self._go_on(job, found or Examination())
                else:
                    job()
            except Exception:
                log.exception("a large value of %s failed on its way", caller.user)

    async def _examine(self, write: Write) -> Examination | None:
        event = write.event
        if not self._is_large(write):
            return None
        origin = (event.properties or {}).get(ORIGIN)
        work = (event.table, event.topic, event.kind, event.payload, event.content_type, origin)
        try:
            content_type, payload = await self._workers.run(large_values.check, *work)
        except Error as error:
            return Examination(error=error)
        return Examination(True, content_type, payload)

    def _go_on(self, write: Write, examination: Examination) -> None:
        """Run the steps of a write again, which now has been examined."""
        self._pending.release(write.caller, len(write.event.payload) + WRITE_BYTES)
        fresh = Write(
            write.event,
            write.caller,
            write.done,
            write.condition,
            changes=write.changes,
            passed=True,
            direct=write.direct,
            wants_existed=write.wants_existed,
        )
        fresh.examination = examination
        self._kernel.writes.carry_out(fresh)
        self._pending.let_go(crowded=self._kernel.committer.crowded)

    # -- reads -------------------------------------------------------------------------------------

    async def encode(self, record: Record, wanted: str | None) -> None:
        """Note on a large record whether it is a value, and its payload in a media type."""
        known = record.encodings = record.encodings if record.encodings is not None else {}
        if len(record.payload) < self.bytes_min or (IS_VALUE in known and wanted in {None, *known}):
            return
        work = (record.table, record.topic, record.payload, record.content_type, wanted)
        if record.table is not None and record.table.computes:  # no other process has formulas
            known[IS_VALUE], encoded = await asyncio.to_thread(large_values.encode, *work)
        else:
            known[IS_VALUE], encoded = await self._workers.run(large_values.encode, *work)
        if encoded is not None and wanted is not None:
            known[wanted] = encoded

    # -- the end ----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Let waiting writes go on, for some time; end the processes, which refuses the rest."""
        await self._settled(self._stop_seconds)
        self._workers.stop()
        await self._settled(None)

    async def _settled(self, seconds: float | None) -> None:
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
