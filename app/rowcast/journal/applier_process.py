"""The applier as a child process: started, watched and restarted by the server.

A thread reads its reports. When the process ends, it is started again after a pause, and goes on
after the last batch that is in the tables; the log has everything that it had in hand. A process
that hangs shows no heartbeats (``net/heartbeats.py``), and is ended.
"""

import logging
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, cast

from rowcast.core.tables import Table
from rowcast.journal.applier_child import Child, Spawn, spawn_applier
from rowcast.journal.applying import Applied, OnApplied
from rowcast.journal.pipes import (
    APPLY,
    HURRY,
    NOTICE,
    STOP,
    TIDY,
    read_message,
    write_all,
    write_message,
)
from rowcast.journal.writer_lock import WriterLock
from rowcast.net.heartbeats import (
    HEARTBEAT_SECONDS,
    HEARTBEAT_TIMEOUT_SECONDS,
    Silence,
    readable,
)
from rowcast.store.sql_follow import PartCounts, Report
from rowcast.store.sqlite import SqlStore

log = logging.getLogger("rowcast.applier")

RESTART_SECONDS: Final = 0.5
"""Before a process that has ended is started again, so that one that fails at once costs little."""
STOP_SECONDS: Final = 30.0
"""For the rest of the log when the server stops; what is left is applied at the next start."""


class Trimmed(Protocol):
    """The log whose files the process follows."""

    def trim(self, until: int) -> None:
        """Let go of batches up to a number, which are durable in the tables."""


class ProcessApplying:
    """One applier process after the other."""

    _watcher: threading.Thread | None = None
    """Reads what the process reports, once it is started."""
    _applied = 0
    """The last batch that the process has reported as applied; ``_wanted`` is the last durable."""
    restarts = 0
    """How often the process has ended and was started again."""
    hangs = 0
    """How often it has shown no sign of life for too long, and was ended."""
    skipped = 0
    """Events that could not be applied."""
    _problem = ""
    """Why the tables cannot be written now; empty while they can."""
    _heartbeats = 0
    """How many of the process were seen."""

    def __init__(
        self,
        tables: SqlStore,
        log_directory: Path,
        schema: str,
        appended: Trimmed,
        lock: WriterLock,
        spawn: Spawn = spawn_applier,
        restart_seconds: float = RESTART_SECONDS,
        stop_seconds: float = STOP_SECONDS,
        heartbeat_timeout: int = HEARTBEAT_TIMEOUT_SECONDS,
    ) -> None:
        self._opening = _opening(tables, log_directory, schema)
        self._tables = tables
        self._log = appended
        self._lock_of_tables = lock
        self._spawn = spawn
        self._restart_seconds, self._stop_seconds = restart_seconds, stop_seconds
        self._wanted = 0
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._tidying: deque[Future[bool]] = deque()
        """What waits for deferred work, in order; the sweep of the log is the only one to ask."""
        self._heartbeat_timeout = heartbeat_timeout
        self.silence = Silence(heartbeat_timeout)
        self._child = spawn()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._child.process.pid

    def start(
        self,
        declared: Sequence[Table],  # noqa: ARG002
        after: int,
        on_applied: OnApplied,
    ) -> None:
        """Have the process apply what follows a batch."""
        self._wanted, self._on_applied = after, on_applied
        self._child.wanted.cell[0] = after
        self._tables.follow_writer()
        self._lock_of_tables.release()
        write_message(self._child.write, self._opening)
        self._watcher = threading.Thread(target=self._watch, name="rowcast-applier", daemon=True)
        self._watcher.start()

    def push(self, number: int) -> None:
        """Have batches applied up to one, which is durable.

        A process that has not reported all earlier ones sees the number when it has a look, or is
        told after its report (``_take``). Only one that waits is woken.
        """
        earlier, self._wanted = self._wanted, number
        self._child.wanted.cell[0] = number
        if self._applied >= earlier:
            self._notify(APPLY, number)

    def hurry(self, number: int) -> None:
        """Have batches applied up to one at once, because somebody waits for them."""
        self._notify(HURRY, number)

    def _notify(self, kind: bytes, number: int) -> None:
        with self._lock, suppress(OSError):  # a process that has ended is told when it starts again
            write_all(self._child.write, NOTICE.pack(kind, number))

    def tidy(self, limit: int) -> "Future[bool]":
        """Have a step of deferred work done; the result is whether more is left."""
        done: Future[bool] = Future()
        self._tidying.append(done)
        self._notify(TIDY, limit)
        return done

    def stop(self) -> None:
        """Have the rest of the log applied, and end the process."""
        self._stopped.set()
        process = self._child.process
        if self._watcher is None:  # not started: it has heard nothing, and this process the lock
            process.kill()
            self._lock_of_tables.release()
        else:
            self._notify(STOP, self._wanted)
        try:
            process.wait(self._stop_seconds)
        except subprocess.TimeoutExpired:
            log.warning("the tables are behind the log; the next start applies the rest")
            process.kill()
            process.wait()
        if self._watcher is not None:
            self._watcher.join()
        self._child.close()

    # -- the thread that reads reports -------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            message = read_message(self._child.read, self._wait)
            if message is not None:
                self._take(message)
            elif self._stopped.is_set() or not self._restart():
                return

    def _wait(self) -> None:
        """Wait for what the process says; end it when it shows no sign of life for too long."""
        child, silence = self._child, self.silence
        while not readable(child.read, HEARTBEAT_SECONDS):
            heartbeats = child.wanted.heartbeats
            if heartbeats != self._heartbeats:
                self._heartbeats = heartbeats
                silence.received()
            elif silence.missed():
                self._end_hung(child)
                return  # what is read next is the end of the pipe
        silence.received()

    def _end_hung(self, child: Child) -> None:
        silent = f"has shown no sign of life for {self.silence.seconds} s"
        log.error("the applier (process %d) %s, so it is ended", child.process.pid, silent)
        self.hangs += 1
        child.process.kill()
        problem = f"the process that writes the tables {silent}; it is started again"
        self._on_applied(Applied(self._applied, {}, problem=problem))

    def _take(self, message: dict[str, object]) -> None:
        if "more" in message:
            self._end_tidying(more=bool(message["more"]))
            return
        problem = cast("str", message["problem"])
        if problem and problem != self._problem:
            log.error("the tables cannot be written, and follow later: %s", problem)
        self._problem = problem
        self.skipped = cast("int", message["skipped"])
        number = self._applied = cast("int", message["applied"])
        if number < self._wanted:  # it may have looked before ``push`` set this, and wait
            self._notify(APPLY, self._wanted)
        counts = [PartCounts(*item) for item in cast("list[list[int]]", message["counts"])]
        head, generation = cast("int", message["head"]), cast("int", message["generation"])
        report = Report(number, head, generation, counts)
        results = cast("dict[int, list[int]]", message["results"])
        self._on_applied(Applied(number, results, report, problem))
        if "durable" in message:
            self._log.trim(cast("int", message["durable"]))

    def _end_tidying(self, *, more: bool) -> None:
        done = self._tidying.popleft()
        if done.set_running_or_notify_cancel():
            done.set_result(more)

    def _restart(self) -> bool:
        """Start the process again; return False if the server stops meanwhile."""
        code = self._child.process.wait()
        while self._tidying:  # it is done at the next sweep
            self._end_tidying(more=False)
        log.error("the applier has ended (%d) and is started again", code)
        if self._stopped.wait(self._restart_seconds):
            return False
        self.restarts += 1
        with self._lock:
            self._child.close()
            self._child = self._spawn()
            self._heartbeats, self.silence = 0, Silence(self._heartbeat_timeout)
            self._child.wanted.cell[0] = self._wanted
            with suppress(OSError):
                write_message(self._child.write, self._opening)
                write_all(self._child.write, NOTICE.pack(APPLY, self._wanted))
        return True


def _opening(tables: SqlStore, log_directory: Path, schema: str) -> dict[str, object]:
    """Return the first message to the process: what it is to open."""
    return {"database": str(tables.path), "log": str(log_directory), "schema": schema}
