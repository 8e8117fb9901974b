"""A DataFrame as records: ``df.write.format("rowcast").option("table", "Hourly").mode("append")``.

Each Spark task uploads its rows to the server in parts; after the last one, the server commits them
as one transaction. A server that is away for a while finds again what it has been brought: parts
and commit are repeated until then. A job that dies leaves nothing. ``append`` puts each row at its
key; ``overwrite`` also deletes rows of the job's earlier run that it no longer writes. Unchanged
rows append no event, and repeating a (job, cut) has no effect (M5, S14).
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, cast
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from rowcast.codecs import json_text
from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import (
    REMOTE_COMMIT_SECONDS,
    RESULT_PATIENCE_SECONDS,
    SINK_PART_BYTES,
    SINK_PART_ROWS,
    SINK_TOUCH_SECONDS,
    STREAM_PATIENCE_SECONDS,
)
from rowcast_lake.columns.records import Row, plain
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.remote import path_of

RESULTS: Final = "$SYS/results"
QUERY_ID: Final = "sql.streaming.queryId"
"""The property of Spark's jobs with the identity of the stream that they are part of."""


@dataclass(frozen=True, slots=True)
class Brought(WriterCommitMessage):
    """The upload of one task."""

    upload: str
    parts: tuple[str, ...]
    rows: int
    query: str = ""
    """The identity of the stream's query, which is in its checkpoint; empty without a stream."""


class Bringer:
    """Uploads rows to a server, and has them committed; is pickled to Spark's workers.

    One request has at most ``part_rows`` rows. Parts and the commit are repeated for
    ``patience_seconds``, or for the option's; what comes before and after these not so long.
    ``touch_seconds``: how often a task says that its upload is in use.
    """

    def __init__(
        self,
        options: Options,
        *,
        replace: bool,
        part_rows: int = SINK_PART_ROWS,
        patience_seconds: int = RESULT_PATIENCE_SECONDS,
        touch_seconds: float = SINK_TOUCH_SECONDS,
    ) -> None:
        self._options = options
        self._remote = options.remote
        self._patience_seconds = options.number("patience", patience_seconds)
        self._table = options.table
        self._job = options.text("job") or f"write {self._table}"
        self._replace = replace
        self._part_rows = part_rows
        self._touch_seconds = touch_seconds
        self._upload = uuid4().hex

    def bring(self, batches: Iterator[Any]) -> Brought:
        """Upload the rows of one task, however long they take to be computed."""
        with self._kept():
            return self._bring(batches)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep the upload until the end: tasks that are done have brought parts of it, too."""
        done = Event()

        def touch() -> None:
            while not done.wait(self._touch_seconds):
                with suppress(Error):  # it is tried again, and parts tell what is wrong
                    self._begin({"table": self._table, "rows": 0}, patience_seconds=0)

        thread = Thread(target=touch, name="rowcast-upload", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _begin(self, facts: dict[str, object], patience_seconds: float | None = None) -> None:
        place = path_of(RESULTS, self._upload)
        self._remote.send("PUT", place, facts, patience_seconds=patience_seconds)

    def _bring(self, batches: Iterator[Any]) -> Brought:
        context = TaskContext.get()
        task = context.taskAttemptId() if context is not None else 0
        query = (context.getLocalProperty(QUERY_ID) if context is not None else None) or ""
        parts: list[str] = []
        rows = 0
        for some in _parts(batches, self._part_rows):
            before = {"after": parts[-1]} if parts else {}  # if that is gone, it fails now
            parts.append(f"{task}-{len(parts)}")
            path = path_of(RESULTS, self._upload, parts[-1])
            part = {"table": self._table, "rows": some, **before}
            self._remote.send("PUT", path, part, patience_seconds=self._patience_seconds)
            rows += len(some)
        return Brought(self._upload, tuple(parts), rows, query)

    def check(self) -> None:
        """Check that the server would accept rows; raises the server's error if not."""
        place = path_of(RESULTS, self._upload, "0-0")
        try:
            self._remote.send("PUT", place, {"table": self._table, "rows": []})
            self._remote.send("DELETE", path_of(RESULTS, self._upload), None)
        except Error as error:
            words = error.message.removeprefix(f"PUT {place}: ")
            raise Error(error.code, f"--to {self._table}: {words}") from error

    def declare(self) -> None:
        """Say how many rows will come, where that is known; raises TOO_LARGE for too many.

        So a server that is not there, or lacks the table, is told of before there are any.
        """
        rows = self._options.number("rows", 1) if self._options.text("rows") else 0
        declared: dict[str, object] = {"table": self._table, "rows": rows}
        declared |= {"job": self._job, "replace": True} if self._replace else {}
        self._begin(declared)

    def commit(self, messages: Sequence[WriterCommitMessage | None], cut: str) -> None:
        """Commit all uploaded rows.

        A large result takes longer than a server may be silent: asked again it says that it is
        busy, and then what became of the first request.
        """
        brought = [cast("Brought", message) for message in messages if message is not None]
        order = {
            "upload": brought[0].upload if brought else self._upload,
            "table": self._table,
            "job": self._job,
            "cut": cut,
            "parts": [part for message in brought for part in message.parts],
            "rows": sum(message.rows for message in brought),
            "replace": self._replace,
            "again": self._options.flag("again"),
        }
        place = f"/{RESULTS}/"
        receipt = self._remote.send(
            "POST",
            place,
            order,
            patience_seconds=self._patience_seconds,
            busy_seconds=REMOTE_COMMIT_SECONDS,
        )
        place = self._options.text("receipt")
        if place:
            Path(place).write_text(json.dumps(receipt), encoding="utf-8")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Discard the upload; if the server does not respond, it discards it after a timeout."""
        known = {cast("Brought", item).upload for item in messages if item is not None}
        for upload in known | {self._upload}:
            try:
                self._remote.send("DELETE", path_of(RESULTS, upload), None)
            except Error:
                continue


class ResultWriter(DataSourceArrowWriter):
    """Writes a DataFrame, all of it or nothing."""

    def __init__(self, options: Options, *, overwrite: bool) -> None:
        self._bringer = Bringer(options, replace=overwrite)
        self._cut = options.text("cut")
        self._bringer.declare()

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Upload the rows of one task."""
        return self._bringer.bring(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit all uploaded rows."""
        self._bringer.commit(messages, self._cut)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Discard the upload."""
        self._bringer.abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch, all of it or nothing, and once: it is numbered within its query."""

    def __init__(self, options: Options, *, overwrite: bool) -> None:
        patience = STREAM_PATIENCE_SECONDS
        self._bringer = Bringer(options, replace=overwrite, patience_seconds=patience)
        self._name = options.text("query")

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Upload the rows of one task."""
        return self._bringer.bring(iterator)

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """Commit all uploaded rows."""
        self._bringer.commit(messages, f"{stream_of(self._name, messages)}#{batchId}")

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803, ARG002
    ) -> None:
        """Discard the upload."""
        self._bringer.abort(messages)


def stream_of(name: str, messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return a stream's permanent name, the prefix of its batches' numbers; raises INVALID.

    It has the identity that Spark keeps in the checkpoint, wherever that is: a stream that begins
    anew with a new checkpoint numbers its batches from 0 again, and none of them is a repeat.
    """
    found = {cast("Brought", item).query for item in messages if item is not None}
    words = [word for word in (name, *found) if word]
    if not words:
        raise Error(
            Code.INVALID,
            "Spark does not say of which stream this batch is; name it with .option('query', ...)",
        )
    return "/".join(words)


def _parts(batches: Iterator[Any], rows_max: int) -> Iterator[list[Row]]:
    """Yield rows in parts that fit one request."""
    part: list[Row] = []
    size = 0
    for batch in batches:
        for row in map(plain, batch.to_pylist(maps_as_pydicts="strict")):
            length = len(json_text.encode(row))
            if part and (size + length > SINK_PART_BYTES or len(part) == rows_max):
                yield part
                part, size = [], 0
            part.append(row)
            size += length
    if part:
        yield part
