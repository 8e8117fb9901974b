"""The applier process: follows the files of the log, and writes the tables.

Started by ``applier_process.py``, with two handles of pipes. It ends when told to, and when the
server has gone: its pipe is closed then.
"""

import gc
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from rowcast.core.errors import Error
from rowcast.journal.applier import Applier
from rowcast.journal.applying import MOVED_ROWS, READ_BYTES
from rowcast.journal.pipes import (
    HURRY,
    NOTICE,
    NOTICES_BYTES,
    STOP,
    TIDY,
    SharedNumber,
    read_message,
    write_message,
)
from rowcast.journal.writer_lock import WriterLock
from rowcast.log.batch import Batch
from rowcast.log.follower import LogFollower
from rowcast.net.heartbeats import HEARTBEAT_SECONDS
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore

log = logging.getLogger("rowcast.applier")

RETRY_SECONDS: Final = 0.2
"""After the disk has refused. Writers and readers wait for the next attempt, which may succeed."""
REST_SECONDS: Final = 0.025
"""From the begin of a transaction to that of the next, unless somebody waits for it: each costs
as much as some hundred events. It is a quarter of the usual bound of lag."""
COLLECTOR_OBJECTS: Final = 100_000
"""New objects between two collections of garbage: those of some transactions, which need none."""
SYNC_BYTES: Final = 32 * 1024 * 1024
"""Of the log that is applied between two syncs of the tables, after which it can be trimmed."""


class _Process:
    """One life of the applier."""

    def __init__(
        self, read: int, write: int, wanted: SharedNumber, opened: dict[str, object]
    ) -> None:
        self._read = read
        self._write = write
        self._shared = wanted
        schema = parse_schema(cast("str", opened["schema"]))
        database = Path(cast("str", opened["database"]))
        self._lock = WriterLock(database)
        self._lock.acquire()
        self._tables = SqlStore(database, synced=False, lock=False)
        self._tables.open(schema.tables)
        self._applier = Applier(self._tables, schema.tables)
        self._log = LogFollower(Path(cast("str", opened["log"])), self._tables.applied())
        self._wanted = self._hurried = self._tables.applied()
        self._rests_until = 0.0
        self._refused: Sequence[Batch] = ()
        """Batches of the log that the disk has refused, for the next attempt."""
        self._unsynced = 0
        self._stopping = False

    def run(self) -> None:
        """Apply until told to stop, or until the server has gone."""
        self._report({}, "")
        while not (self._stopping and self._tables.applied() >= self._wanted):
            moves = self._tables.staging.works
            if not self._take_notices(0 if moves else self._rest_seconds()):
                return
            if moves and self._rest_seconds() != 0:
                self._move()
                continue
            if self._rest_seconds() == 0 and not self._apply():
                if self._stopping:
                    break  # the next start applies the rest
                time.sleep(RETRY_SECONDS)
        self._tables.close()

    def _rest_seconds(self) -> float | None:
        """Return how long nothing is to be applied; None until the server says more."""
        applied = self._tables.applied()
        self._wanted = max(self._wanted, self._shared.cell[0])
        if applied >= self._wanted:
            return None
        if self._stopping or applied < self._hurried:
            return 0
        return max(0, self._rests_until - time.monotonic())

    def _take_notices(self, seconds: float | None) -> bool:
        """Wait so long for what the server says, and read it; return whether it is still there."""
        while select.select([self._read], [], [], seconds)[0]:
            data = os.read(self._read, NOTICES_BYTES)  # whole ones (pipe(7), PIPE_BUF)
            if not data:
                return False
            for kind, number in NOTICE.iter_unpack(data):
                self._notice(kind, number)
            seconds = 0
        return True

    def _notice(self, kind: bytes, number: int) -> None:
        if kind == TIDY:
            self._tidy(number)
        elif kind == HURRY:
            self._hurried = max(self._hurried, number)
        else:
            self._wanted = max(self._wanted, number)
            self._stopping = self._stopping or kind == STOP

    def _apply(self) -> bool:
        """Apply the next batches of the log; return False if the disk has refused them."""
        self._rests_until = time.monotonic() + REST_SECONDS
        batches = self._refused or self._log.read(self._wanted, READ_BYTES)
        try:
            results = self._applier.apply(batches)
        except Error as error:
            self._refused = batches
            self._report({}, error.message)
            return False
        self._refused = ()
        self._unsynced += sum(len(batch.data) for batch in batches)
        self._report(results, "")
        return True

    def _move(self) -> None:
        """Move some staged rows into their table."""
        try:
            self._tables.move_staged(MOVED_ROWS)
        except Error as error:
            log.warning("staged rows could not be moved: %s", error.full)
            time.sleep(RETRY_SECONDS)
        else:
            self._report({}, "")

    def _report(self, results: dict[int, list[int]], problem: str) -> None:
        report = self._tables.report()
        message: dict[str, object] = {
            "applied": report.applied,
            "head": report.head,
            "generation": report.generation,
            "counts": report.counts,
            "results": results,
            "problem": problem,
            "skipped": self._applier.skipped,
        }
        if self._unsynced >= SYNC_BYTES and not problem:
            message["durable"] = self._tables.sync()
            self._unsynced = 0
        write_message(self._write, message)

    def _tidy(self, limit: int) -> None:
        try:
            more = self._tables.tidy(limit)
        except Error as error:
            log.warning("deferred work failed: %s", error.full)
            more = False
        write_message(self._write, {"more": more})


def _beat(shared: SharedNumber) -> None:
    """Show the server that this process is alive, however long a transaction takes."""
    while True:
        shared.beat()
        time.sleep(HEARTBEAT_SECONDS)


def main(read: int, write: int, wanted: int) -> None:
    """Run the process, with handles to read from, to write to, and of the number of batches."""
    # of the terminal, or a service manager that sends them to all processes: the server says when
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    shared = SharedNumber(wanted)
    threading.Thread(target=_beat, args=(shared,), name="rowcast-beats", daemon=True).start()
    opened = read_message(read)
    if opened is None:
        return
    gc.freeze()
    gc.set_threshold(COLLECTOR_OBJECTS)
    gc.enable()  # it is off while modules are imported
    try:
        _Process(read, write, shared, opened).run()
    except (BrokenPipeError, KeyboardInterrupt):  # the server has gone
        os._exit(0)
