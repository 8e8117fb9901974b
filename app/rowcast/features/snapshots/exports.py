"""Exports: the server's side of snapshots; what there is, what is being made, what is due.

One export runs at a time, in a process of its own (``jobs``). What is there is looked at
by a thread, now and then and after each job, because other programs put things there too; those who
watch ``$SYS/snapshots`` are told what came and went. Nothing here knows what is in the files.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

from rowcast.core.errors import Code, Error
from rowcast.core.export_limits import (
    EXPORT_JOBS_KEPT,
    EXPORT_JOBS_WAITING_MAX,
    EXPORT_RETRY_SECONDS,
    SNAPSHOT_LOOK_SECONDS,
    SNAPSHOT_PINNED_SECONDS,
)
from rowcast.core.snapshot_paths import DELTA
from rowcast.features.snapshots.catalogue import MANIFEST, Catalogue, Item
from rowcast.features.snapshots.jobs import FAILED, RUNNING, Job, Order, carry_out
from rowcast.features.snapshots.rows import PATH, snapshot_rows
from rowcast.features.snapshots.snapshot_directory import NEWEST, SnapshotDirectory, keep_private
from rowcast.features.snapshots.snapshot_store import Held, SnapshotStore
from rowcast.rows.download import Download

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast_lake.snapshots")

_MEDIA_TYPES: Final = {".json": "application/json", ".parquet": "application/vnd.apache.parquet"}


class _Pin:
    """A snapshot that is held, and until when."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.until = 0.0


class Exports:
    """The snapshots of one server.

    ``command`` gives the process that carries out an order, and may write files. ``every`` says
    after how many seconds which order is due again. ``audiences`` has the snapshot
    store of each role that has one.
    """

    def __init__(
        self,
        kernel: "Kernel",
        snapshots: SnapshotStore,
        command: Callable[[Order], Sequence[str]],
        every: Mapping[Order, float],
        now: Callable[[], float] = time.time,
        audiences: Mapping[str, SnapshotStore] | None = None,
    ) -> None:
        self._snapshot_store = snapshots
        self.catalogue = Catalogue(snapshots.directory, snapshots)
        self.audiences = _catalogues(audiences or {})
        self.jobs: dict[str, Job] = {}
        self.items: dict[str, Item] = {}
        self._for: dict[str, list[Item]] = {}  # what there is for each role
        self.newest = ""
        self.tables: Collection[str] = kernel.registry.shapes
        """The tables that are declared or shown now."""
        self._changed = kernel.rows(PATH, snapshot_rows(self))
        self._command = command
        self._every = every
        self._now = now
        self._task: asyncio.Task[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._ended = asyncio.Event()
        self._not_before = 0.0
        self._count = 0
        self._pins: dict[str, _Pin] = {}

    async def start(self) -> None:
        """Begin to look and to do what is due."""
        if isinstance(self._snapshot_store, SnapshotDirectory):
            await asyncio.to_thread(keep_private, self._snapshot_store.directory)
        await self.look()
        self._watch = asyncio.create_task(self._watching())

    async def stop(self) -> None:
        """End what is running."""
        for task in (self._watch, self._work):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))
        self._unpin(list(self._pins))

    # -- what there is

    async def look(self) -> None:
        """Look at what is there, and tell what changed."""
        now = self._now()
        self._unpin([name for name, pin in self._pins.items() if pin.until <= now])
        async with self._looking:
            items, newest = await asyncio.to_thread(self._survey)
            before, former = self.items, self.newest
            self.items, self.newest = items, newest
        for name in (before.keys() ^ items.keys()) | ({former, newest} - {""}):
            if name not in before or name not in items or former != newest:
                self._changed(name)

    def _survey(self) -> tuple[dict[str, Item], str]:
        newest = self.catalogue.newest()
        self._for = {role: known.items() for role, known in self.audiences.items()}
        return {item.name: item for item in self.catalogue.items()}, newest

    def pinned(self, name: str) -> bool:
        """Whether a reader came for a file of a snapshot not long ago."""
        return name in self._pins

    async def _pin(self, item: Item) -> None:
        """Keep a snapshot from being removed by itself, for a while from now on."""
        pin = self._pins.get(item.name)
        if pin is None:
            held = await asyncio.to_thread(self.catalogue.pin, item)
            pin = self._pins.setdefault(item.name, _Pin(held))
            if pin.held is not held:
                held.close()
        pin.until = self._now() + SNAPSHOT_PINNED_SECONDS

    def _unpin(self, names: list[str]) -> None:
        for name in names:
            self._pins.pop(name).held.close()

    def find(self, path: str) -> tuple[Item, str] | None:
        """Return what a path begins with, and the rest of it, which names a file."""
        first, _, rest = path.partition("/")
        if first == DELTA:  # a file as its manifest names it, relative to the snapshot
            table, _, rest = rest.partition("/")
            first, _, rest = rest.partition("/")
            rest = f"{table}/{rest}"
        if first == NEWEST:
            first = self.newest
        item = self.items.get(first)
        if item is None:
            name, _slash, rest = rest.partition("/")
            item = self.items.get(f"{first}/{name}") if name else None
        return None if item is None else (item, rest)

    async def download(self, item: Item, path: str) -> Download:
        """Open a file of a snapshot; raises NOT_FOUND. For a while the snapshot is not removed."""
        await self._pin(item)
        file = await asyncio.to_thread(self.catalogue.open, item, path)
        try:
            facts = item.files.get(path)
            size = await asyncio.to_thread(self.catalogue.size_bytes, item, path)
        except OSError:
            file.close()
            raise
        tag = facts["sha256"] if facts else f"{item.manifest['epoch']}-{item.name}"
        media_type = _MEDIA_TYPES[".json" if path == MANIFEST else ".parquet"]
        return Download(file, size, media_type, str(tag))

    # -- what is being made

    @property
    def open_jobs(self) -> list[Job]:
        """The jobs that wait, and the one that is being carried out."""
        return [job for job in self.jobs.values() if job.ended_at is None]

    def begin(self, order: Order) -> Job:
        """Have an export made, behind those before it; raises BUSY when too many wait."""
        waiting = len(self.open_jobs)
        if waiting > EXPORT_JOBS_WAITING_MAX:
            raise Error(
                Code.BUSY, f"{waiting} exports wait already; wait for one, or delete its row"
            )
        self._count += 1
        job = Job(f"job-{int(self._now() * 1000)}-{self._count}", order, self._now())
        while len(self.jobs) > EXPORT_JOBS_KEPT:
            gone = next(iter(self.jobs))
            del self.jobs[gone]
            self._changed(gone)
        self.jobs[job.name] = job
        self._changed(job.name)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._carry_out_all())
        return job

    async def _carry_out_all(self) -> None:
        """Carry out jobs until none waits."""
        while found := self.open_jobs:
            await self._carry_out(found[0])

    async def _carry_out(self, job: Job) -> None:
        def changed() -> None:
            self._changed(job.name)

        self._task = asyncio.create_task(carry_out(job, self._command, self._now, changed))
        try:
            await asyncio.wait((self._task,))
        finally:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if job.state == FAILED:
            self._not_before = self._now() + EXPORT_RETRY_SECONDS
            log.warning("%s failed: %s", job.name, job.error)
            self._mend(job)
        try:
            await self.look()
        except Exception:  # the jobs that wait go on all the same
            log.exception("the snapshots could not be looked at; the next look may")
        self._ended.set()

    def _mend(self, job: Job) -> None:
        """Make the snapshot that changes could go on from, where they are written regularly."""
        lacking = job.facts.get("code") in {Code.GONE, Code.NOT_FOUND}
        if lacking and job.order in self._every and len(self.open_jobs) <= EXPORT_JOBS_WAITING_MAX:
            self.begin(Order(audience=job.order.audience))

    async def end(self, job: Job) -> None:
        """End a job, or forget one that has ended."""
        if job.state == RUNNING and self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        job.ended_at = job.ended_at or self._now()
        self.jobs.pop(job.name, None)
        self._changed(job.name)

    # -- what is due

    async def _watching(self) -> None:
        while True:
            try:
                await self.look()
                self._begin_due()
            except Exception:
                log.exception("the snapshots could not be looked at; the next look may")
            self._ended.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(SNAPSHOT_LOOK_SECONDS):
                    await self._ended.wait()

    def _begin_due(self) -> None:
        now = self._now()
        if self.open_jobs or now < self._not_before:
            return
        for order, seconds in self._every.items():
            if now - self._last(order) >= seconds:
                self.begin(order)
                return

    def _last(self, order: Order) -> float:
        """Return when an order was last carried out, as far as the catalogue and the jobs show."""
        times = [job.began_at for job in self.jobs.values() if job.order == order]
        there = self._for[order.audience] if order.audience else self.items.values()
        made = [item for item in there if item.is_page == order.changes]
        if made:
            times.append(_seconds(str(made[-1].manifest.get("created", ""))))
        return max(times, default=0.0)


def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _catalogues(audiences: Mapping[str, SnapshotStore]) -> dict[str, Catalogue]:
    return {
        role: Catalogue(snapshots.directory, snapshots) for role, snapshots in audiences.items()
    }
