"""Watching a stream: starts it again after a failure, and tells how far it is behind.

A failure that a later attempt can pass, such as a batch of which a restart of the server took the
uploaded rows, ends with the next attempt: it begins at the checkpoint. One that is there again each
time ends the stream, with its message.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from rowcast.core.pipeline_limits import (
    STREAM_LAG_SECONDS,
    STREAM_PAUSE_SECONDS,
    STREAM_RESTARTS,
)

ERROR: Final = "rowcast.core.errors.Error: "
"""The prefix of our own error message in the output of a Spark worker."""
WORDS_MAX: Final = 500
DROPPED: Final = "numRowsDroppedByWatermark"
Report = Callable[[str], None]


class Watch:
    """Counts the readings that came too late, and says how many events a stream is behind.

    ``every_seconds`` pass between two words about the same.
    """

    def __init__(
        self,
        name: str,
        report: Report,
        every_seconds: float = STREAM_LAG_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dropped = 0
        """Readings behind the watermark, once for each window length."""
        self.batches = 0
        self._name, self._report = name, report
        self._every_seconds, self._now = every_seconds, now
        self._behind = False
        self._reported_at = -every_seconds
        self._run, self._batch = "", -1

    def look(self, run: str, batches: Sequence[Mapping[str, Any]]) -> None:
        """Take the batches that are finished in this run of a query, known ones too."""
        if run != self._run:
            self._run, self._batch = run, -1
        for progress in batches:
            if progress["batchId"] > self._batch:
                self._batch = progress["batchId"]
                self.batches += 1
                self.dropped += sum(state[DROPPED] for state in progress["stateOperators"])
                self._say(lag_of(progress))

    def _say(self, behind: int) -> None:
        if behind:
            due = self._now() - self._reported_at >= self._every_seconds
            words = f"{behind:,} events behind the end of the log"
        else:
            due, words = self._behind, "at the end of the log"
        if due:
            self._report(f"{self._name}: {words}")
            self._reported_at = self._now()
            self._behind = bool(behind)


def lag_of(progress: Mapping[str, Any]) -> int:
    """Return how many positions of the log the end of a batch was behind the log's end."""
    lag = 0
    for source in progress["sources"]:
        end, latest = _position(source["endOffset"]), _position(source["latestOffset"])
        if end is not None and latest is not None:
            lag = max(lag, latest - end)
    return lag


def _position(offset: str) -> int | None:
    """Return the position that an offset has; None for one of another kind of source."""
    try:
        found = json.loads(offset)
    except ValueError:
        return None
    return found.get("seq") if isinstance(found, dict) else None


def keep_running(
    start: Callable[[], StreamingQuery],
    watch: Watch,
    report: Report,
    restarts: int = STREAM_RESTARTS,
    pause_seconds: float = STREAM_PAUSE_SECONDS,
) -> None:
    """Run a query until it ends or is interrupted; after a failure from its checkpoint again.

    ``restarts`` failures without a finished batch in between are one too many.
    """
    with interruptions() as interrupted:
        _keep_running(start, watch, report, restarts, pause_seconds, interrupted)


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C, and report whether it has come; a second one is raised.

    Raised in the middle of a call of Spark, as it usually is, it breaks the connection to Java,
    which is then logged with a traceback.
    """
    interrupted = Event()

    def note(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            signal.default_int_handler(number, frame)
        interrupted.set()

    if current_thread() is not main_thread():  # it comes to that one only
        yield interrupted.is_set
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _keep_running(
    start: Callable[[], StreamingQuery],
    watch: Watch,
    report: Report,
    restarts: int,
    pause_seconds: float,
    interrupted: Callable[[], bool],
) -> None:
    failed, batches = 0, 0
    while not interrupted():
        query = start()
        try:
            while not (interrupted() or query.awaitTermination(STREAM_PAUSE_SECONDS)):
                watch.look(str(query.runId), query.recentProgress)
            if interrupted():
                query.stop()
        except StreamingQueryException as error:
            watch.look(str(query.runId), query.recentProgress)
            failed = 1 if watch.batches > batches else failed + 1
            batches = watch.batches
            if failed > restarts:
                raise
            report(f"the stream stopped and starts again from its checkpoint: {words_of(error)}")
            time.sleep(pause_seconds)
            continue
        watch.look(str(query.runId), query.recentProgress)
        return


def words_of(error: Exception) -> str:
    """Return what went wrong in one line: of a worker's failure the Error, else Spark's words."""
    lines = str(error).splitlines()
    if isinstance(error, Py4JError):  # its first line says which method was called
        lines = [line.removeprefix(": ") for line in lines[1:]] or lines
    found = lines[:1] + [line for line in lines if line.startswith(ERROR)]
    return next((line for line in reversed(found) if line), "no reason given")[:WORDS_MAX]
