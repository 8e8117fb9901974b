"""The queue of reads: fair order, time limits, and interruption (P1).

Reads share a few threads. None may keep one waiting that is quicker, so there are four lanes:

- *keyed* reads use a key or a position;
- *indexed* ones may find it by an index;
- *searches* may have to look at every row, or find enough in the first few;
- *scans* are those of which it has shown that they look at many rows.

Nobody knows beforehand how much an indexed read or a search has to look at, so each has a slice of
time, and most are done within it. Then it is a scan: it goes on if a thread of the scans is free,
else it is interrupted and begins again when it is its turn. Earlier lanes go first, later ones
never have all threads, and each lane has one if it wants one, so that none waits for ever. Searches
and scans may have threads of their own, whose priority is lower; an indexed read that becomes a
scan begins again on one of these.

Within a lane the callers take turns, however many reads each of them has asked for. A read that a
caller waits for is ended when its time is over, and any read when nobody waits for it any more.

It knows the store only as what carries out a read under a limit.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Final, Protocol, TypeVar, cast

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error, stopping
from rowcast.core.histograms import Histogram
from rowcast.core.read_limits import (
    QUERY_SECONDS,
    READ_LOOK_SECONDS,
    READ_SLICE_SECONDS,
    READ_SLICE_WAIT_SECONDS,
    READ_WAITING_MAX,
    READER_SCANS_MAX,
    READER_THREADS,
)
from rowcast.store.read_limit import ReadLimit

log = logging.getLogger("rowcast.reads")

T = TypeVar("T")

Meter = Callable[[], Callable[[], float]]
"""Called on a thread that begins a read; returns a function for the seconds used since."""


class Limited(Protocol):
    """Carries out a read under a limit."""

    def limited(self, limit: ReadLimit, call: Callable[[], T]) -> T:
        """Do it on this thread; raises the limit's Error."""


class ReadLane(IntEnum):
    """The class of a read; the first go first."""

    KEYED = 0
    INDEXED = 1
    SEARCH = 2
    SCAN = 3


_SLICED: Final = frozenset({ReadLane.INDEXED, ReadLane.SEARCH})


class ReadCaller:
    """The caller of reads, and its deadline; ``seconds`` 0 is none."""

    __slots__ = ("name", "seconds", "until")

    def __init__(self, name: str = "", seconds: float = 0) -> None:
        self.name = name
        self.seconds = seconds
        self.until = 0.0
        """When its time is over, on the loop's clock; 0 before its first read."""

    def renew(self) -> None:
        """Begin another part of an answer, such as the next page, with all the time again."""
        self.until = 0.0


_NOBODY = ReadCaller()
"""The server itself: its reads take turns with those of callers, and nothing limits them."""
_read_caller: ContextVar[ReadCaller] = ContextVar("read_caller", default=_NOBODY)


@contextmanager
def reads_of(read_caller: ReadCaller) -> Iterator[ReadCaller]:
    """Attribute all reads within to one caller; this grants nothing."""
    token = _read_caller.set(read_caller)
    try:
        yield read_caller
    finally:
        _read_caller.reset(token)


def current_read_caller() -> ReadCaller:
    """Return the caller to whom reads are attributed here."""
    return _read_caller.get()


def turn_of(caller: Caller) -> str:
    """Return with whom a caller shares its turns: a user everywhere, strangers by address."""
    return f"@{caller.peer}" if caller.user == "anonymous" else caller.user


class _Job:
    """One read that was asked for."""

    __slots__ = (
        "answer",
        "begun",
        "call",
        "lane",
        "limit",
        "read_caller",
        "shelved",
        "until",
        "worked",
    )

    def __init__(
        self,
        call: Callable[[], object],
        lane: ReadLane,
        read_caller: ReadCaller,
        answer: "asyncio.Future[object]",
    ) -> None:
        self.call = call
        self.lane = lane
        self.read_caller = read_caller
        self.answer = answer
        self.until = read_caller.until
        self.limit = ReadLimit()
        self.begun = 0.0
        self.worked: Callable[[], float] | None = None
        self.shelved = False
        """Whether it was interrupted to begin again among the scans."""


class _Turns:
    """Reads of one lane that wait; callers take turns, and each caller's are in order."""

    def __init__(self) -> None:
        self._of: dict[str, dict[_Job, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def __bool__(self) -> bool:
        return bool(self._of)

    def __iter__(self) -> Iterator[_Job]:
        return (job for jobs in self._of.values() for job in jobs)

    def of(self, name: str) -> int:
        """Return how many of a caller's wait."""
        return len(self._of.get(name, ()))

    def add(self, job: _Job) -> None:
        self._of.setdefault(job.read_caller.name, {})[job] = None

    def take(self) -> _Job:
        """Take the first read of the caller that is next."""
        name = next(iter(self._of))
        jobs = self._of.pop(name)
        job = next(iter(jobs))
        del jobs[job]
        if jobs:
            self._of[name] = jobs  # behind all others
        return job

    def discard(self, job: _Job) -> None:
        jobs = self._of.get(job.read_caller.name, {})
        jobs.pop(job, None)
        if not jobs:
            self._of.pop(job.read_caller.name, None)


def thread_meter() -> Callable[[], float]:
    """Return a function for the CPU seconds that this thread has used since; elsewhere, the time.

    On a busy machine a quick read takes long, and is still no scan.
    """
    if not hasattr(time, "pthread_getcpuclockid"):  # pragma: no cover - macOS
        begun = time.monotonic()
        return lambda: time.monotonic() - begun
    clock = time.pthread_getcpuclockid(threading.get_ident())
    used = time.clock_gettime(clock)
    return lambda: time.clock_gettime(clock) - used


class ReadQueue:
    """The reads of one store, on the threads of one executor."""

    def __init__(
        self,
        store: Limited,
        executor: Executor,
        threads: int = READER_THREADS,
        scans_max: int = READER_SCANS_MAX,
        meter: Meter = thread_meter,
    ) -> None:
        self._store = store
        self._executor = executor
        self._threads = threads
        self._scans_max = scans_max
        self._meter = meter
        self.background: Executor | None = None
        """The threads of searches and scans, where others are to have more of the machine."""
        self.query_seconds = QUERY_SECONDS
        """How long a caller's query may take; 0 is any time (``store.query_timeout``)."""
        self.timed_out = self.abandoned = 0
        """Reads that were ended: after that time, and because nobody waited any more."""
        self._waiting = tuple(_Turns() for _ in ReadLane)
        self.seconds = tuple(Histogram() for _ in ReadLane)
        """How long reads took, with the time that they waited, by the lane in which they ended."""
        self._running: dict[_Job, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    @property
    def waiting(self) -> int:
        """How many reads wait for a thread."""
        return sum(map(len, self._waiting))

    @property
    def running(self) -> int:
        """How many reads have a thread."""
        return len(self._running)

    @contextmanager
    def attributed_to(self, caller: Caller) -> Iterator[ReadCaller]:
        """Attribute the reads of a block to a caller: they take its turns, within its time.

        What begins here and outlives the block, such as a resource's own task, has no limit then.
        """
        read_caller = self.read_caller(caller)
        try:
            with reads_of(read_caller):
                yield read_caller
        finally:
            read_caller.seconds = read_caller.until = 0.0

    def read_caller(self, caller: Caller) -> ReadCaller:
        """Return to whom the reads of a caller's query are attributed."""
        return ReadCaller(turn_of(caller), self.query_seconds)

    async def read(self, call: Callable[[], T], lane: ReadLane) -> T:
        """Carry out a read on a thread; raises BUSY when its time is over.

        Who is cancelled while waiting for it ends it. It may be carried out more than once.
        """
        loop, read_caller = asyncio.get_running_loop(), _read_caller.get()
        if read_caller.seconds and not read_caller.until:
            read_caller.until = loop.time() + read_caller.seconds
        job = _Job(call, lane, read_caller, loop.create_future())
        self._check(job, loop.time())
        self._waiting[lane].add(job)
        self._fill(loop)
        asked = loop.time()
        try:
            answer = cast("T", await job.answer)
        except asyncio.CancelledError:
            self._abandon(job)
            raise
        finally:
            self.seconds[job.lane].observe(loop.time() - asked)
        return answer

    def _check(self, job: _Job, now: float) -> None:
        """Raise BUSY if a caller has no time left, or has asked for too much at once."""
        if job.until and now >= job.until:
            self.timed_out += 1
            raise _too_late(job.read_caller, waited=False)
        if (
            job.read_caller.name
            and self._waiting[job.lane].of(job.read_caller.name) >= READ_WAITING_MAX
        ):
            raise Error(
                Code.BUSY,
                f"{READ_WAITING_MAX} of your reads wait for their turn; ask again when some of "
                "them are answered",
                retry_after_seconds=1,
            )

    def _abandon(self, job: _Job) -> None:
        """End a read for which nobody waits."""
        self.abandoned += 1
        self._waiting[job.lane].discard(job)
        if job in self._running:
            job.limit.end(Error(Code.BUSY, "nobody waits for it"))
            self._watch(asyncio.get_running_loop())

    def stop(self) -> None:
        """End the reads that have a thread, so that the server need not wait for them."""
        self._stopped = True
        for job in self._running:
            job.limit.end(stopping())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- threads -----------------------------------------------------------------------------------

    def _fill(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give every thread that is free the read whose turn it is."""
        while len(self._running) < self._threads:
            lane = self._next()
            if lane is None:
                break
            self._start(self._waiting[lane].take(), loop)
        self._watch(loop)

    def _next(self) -> ReadLane | None:
        """Return the lane from which a read begins now."""
        wanted = [lane for lane in ReadLane if self._waiting[lane] and self._has_room(lane)]
        absent = [lane for lane in wanted if not self._count(lane)]
        return next(iter([*absent, *wanted]), None)

    def _has_room(self, lane: ReadLane) -> bool:
        """Whether one more read of a lane leaves a thread to each lane before it."""
        if lane is ReadLane.SCAN and self._count(lane) >= self._scans_max:
            return False
        later = sum(job.lane >= lane for job in self._running)
        return later < max(1, self._threads - min(lane, ReadLane.SEARCH))

    def _count(self, lane: ReadLane) -> int:
        """Return how many reads of a lane have a thread."""
        return sum(job.lane is lane for job in self._running)

    def _start(self, job: _Job, loop: asyncio.AbstractEventLoop) -> None:
        job.begun = loop.time()
        executor = self._executor
        if self.background is not None and job.lane >= ReadLane.SEARCH:
            executor = self.background
        try:
            future = executor.submit(self._work, job)
        except RuntimeError as error:  # its threads have ended: the server stops
            if not job.answer.done():
                job.answer.set_exception(error)
            return
        self._running[job] = None

        def ended(done: "Future[object]") -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._finish, job, done, loop)

        future.add_done_callback(ended)

    def _work(self, job: _Job) -> object:
        """Carry out a read, on its thread."""
        job.worked = self._meter()
        return self._store.limited(job.limit, job.call)

    def _finish(self, job: _Job, done: "Future[object]", loop: asyncio.AbstractEventLoop) -> None:
        """Answer, or have it begin again as a scan; then the next."""
        del self._running[job]
        error = done.exception()
        if job.answer.done():  # nobody waits for it
            pass
        elif error is None:
            job.answer.set_result(done.result())
        elif job.shelved and error is job.limit.ended:
            job.shelved, job.limit, job.lane = False, ReadLimit(), ReadLane.SCAN
            self._waiting[ReadLane.SCAN].add(job)
        else:
            job.answer.set_exception(error)
        self._fill(loop)

    # -- time --------------------------------------------------------------------------------------

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look again in a moment, as long as a read could take too long."""
        if any(self._waiting) or any(map(_is_watched, self._running)):
            if self._timer is None and not self._stopped:
                self._timer = loop.call_later(READ_LOOK_SECONDS, self._tick, loop)
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self.look(loop.time())
        self._fill(loop)

    def look(self, now: float) -> None:
        """Look at all reads: end those whose time is over, and see which have become scans."""
        for job in list(self._running):
            if job.limit.ended is not None:
                job.limit.end(job.limit.ended)  # it may have been between two statements
            elif job.until and now >= job.until:
                self._time_out(job, waited=False)
            elif job.lane in _SLICED and self._is_long(job, now):
                self._make_scan(job)
        for turns in self._waiting:
            for job in [item for item in turns if item.until and now >= item.until]:
                turns.discard(job)
                self._time_out(job, waited=True)

    def _is_long(self, job: _Job, now: float) -> bool:
        worked = job.worked() if job.worked is not None else 0.0
        return worked >= READ_SLICE_SECONDS or now - job.begun >= READ_SLICE_WAIT_SECONDS

    def _make_scan(self, job: _Job) -> None:
        """Let a search go on as a scan if there is room for one, else interrupt it."""
        room = self._count(ReadLane.SCAN) < self._scans_max and not self._waiting[ReadLane.SCAN]
        if room and (self.background is None or job.lane is ReadLane.SEARCH):
            job.lane = ReadLane.SCAN
        else:
            job.shelved = True
            job.limit.end(Error(Code.BUSY, "it goes on as a scan"))

    def _time_out(self, job: _Job, *, waited: bool) -> None:
        """Answer a read whose time is over; where it runs, its thread hears of it, too."""
        self.timed_out += 1
        error = _too_late(job.read_caller, waited=waited)
        log.warning("a read of %s was ended: %s", job.read_caller.name, error.message)
        if not job.answer.done():
            job.answer.set_exception(error)
        if not waited:
            job.limit.end(error)


def _is_watched(job: _Job) -> bool:
    """Whether a read that has a thread may have to be ended, or made a scan."""
    return bool(job.until) or job.limit.ended is not None or job.lane in _SLICED


def _too_late(read_caller: ReadCaller, *, waited: bool) -> Error:
    """Return the answer to a query whose time is over."""
    seconds = read_caller.seconds
    what = (
        f"waited {seconds:g} s for others that look at many rows"
        if waited
        else (f"took {seconds:g} s, and was ended")
    )
    return Error(
        Code.BUSY,
        f"the query {what}; declare @indexed for the attributes that it looks at, narrow it (the "
        "beginning of an id, a shorter time, fewer rows), or raise store.query_timeout",
        retry_after_seconds=max(1, round(seconds)),
        timeout_seconds=seconds,
    )
