"""Running a job: reads its frames, calls its function, writes the result, and reports.

A result is printed, published as Parquet, or written to a server's table, where subscribers see it
live. A stream does the same with incoming events, batch by batch, until it is stopped or, with
``once``, has processed all present events; a restart continues from its checkpoint.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import STREAM_PATIENCE_SECONDS, STREAM_PAUSE_SECONDS
from rowcast.core.tables import Table
from rowcast_lake.spark.inputs import FORMAT, Input, absolute
from rowcast_lake.spark.jobs.job import Given, Job, Reads
from rowcast_lake.spark.publication import publish
from rowcast_lake.spark.session import start_session
from rowcast_lake.spark.sink import QUERY_ID
from rowcast_lake.spark.watching import Report, Watch, keep_running, words_of
from rowcast_lake.stores.object_paths import ObjectPath

log = logging.getLogger("rowcast_lake.spark")


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a result: a directory, a table of a server, or the screen."""

    out: Path | ObjectPath | None = None
    to: str = ""
    """A table."""
    server: Mapping[str, str] | None = None
    """The data source's options for the server: ``url`` and credentials."""
    replace: bool = False
    """Whether to delete rows of an earlier run of the job that this run does not write."""
    show: int = 0
    checkpoint: str = ""
    once: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """One run: the job, its options and the target."""

    job: Job
    options: Mapping[str, str]
    target: Target
    table: Callable[[str], Table | None]
    """Returns the declared table for the schema of the data's cut."""
    about: str = ""
    """A short name of the input; the same job on another input counts as another job."""

    @property
    def name(self) -> str:
        """The job's name on the server: the same for every cut."""
        facts = json.dumps([self.about, self.target.to, sorted(self.options.items())])
        return f"{self.job.name}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"


@contextmanager
def session(
    name: str, master: str, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Provide a session, and stop it afterwards; an existing one is left running."""
    there = SparkSession.getActiveSession() is not None
    found = None
    try:
        found = start_session(name, master, settings)
        yield found
    except (PySparkException, Py4JError) as error:
        raise Error(Code.INVALID, f"Spark: {words_of(error)}") from error
    finally:
        if not there and found is not None:
            found.stop()


def run(order: Order, source: Input) -> list[str]:
    """Run a job to its end; return a report as lines."""
    started = time.monotonic()
    job, target = order.job, order.target
    given = _given(order, source)
    result = job.compute(given)
    done = [f"{job.name}: read {source.cut}, of {given.until.isoformat()}"]
    rows = 0
    if target.out is not None:
        facts = {"cut": source.cut, "options": dict(order.options)}
        made = publish(result, target.out, job.name, facts)
        rows = made.rows
        done.append(f"published {made.place}: {made.rows} rows, {made.files} files, {made.bytes} B")
    if target.to:
        done.append(_sent(result, order, source.cut, rows))
    if target.show:
        done += _shown(result, job.order, target.show)
    done.append(f"{time.monotonic() - started:.1f} s")
    return done


def _given(order: Order, source: Input) -> Given:
    options = order.job.read_options(order.options)
    at = options.get("at") if Reads.CHANGES in order.job.reads else None
    frames = {what: source.frame(what, at) for what in order.job.reads}
    return Given(frames, options, source.until, order.table(source.schema))


def _sent(result: DataFrame, order: Order, cut: str, rows: int = 0) -> str:
    """Send the rows to the server, all or none and once for each cut; return its receipt.

    ``rows``: how many they are, if that is known; too many are refused before they are sent.
    """
    target = order.target
    mode = "overwrite" if target.replace else "append"
    with TemporaryDirectory(prefix="rowcast-") as place:
        receipt = Path(place, "receipt")
        facts = {"table": target.to, "job": order.name, "cut": cut, "receipt": str(receipt)}
        facts |= {"rows": str(rows)} if rows else {}
        writer = result.write.format(FORMAT).options(**(target.server or {}), **facts)
        writer.mode(mode).save()
        sent = json.loads(receipt.read_bytes()) if receipt.exists() else {}
    return said_of(sent, f"{target.to} of {(target.server or {}).get('url')}", cut)


def said_of(facts: Mapping[str, object], place: str, cut: str) -> str:
    """Return a server's receipt as a sentence."""
    if facts.get("repeat"):
        return f"{place}: the result of {cut} is there already, {facts.get('rows')} rows; no change"
    words = ", ".join(f"{facts.get(word)} {word}" for word in ("written", "unchanged", "removed"))
    return f"{place}: {facts.get('rows')} rows, {words}"


def _shown(result: DataFrame, order: Sequence[str], count: int) -> list[str]:
    """Format the first rows as lines of text."""
    names = result.columns
    known = [name for name in order if name in names]
    first = (result.orderBy(*known) if known else result).limit(count)
    rows = [[_text(row[name]) for name in names] for row in first.collect()]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (names, *rows)
    ]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# -- streams ---------------------------------------------------------------------------------------


def follow(order: Order, source: Input, say: Report = log.warning) -> list[str]:
    """Run a job on incoming events; with ``once``, on those present and not yet processed.

    ``say`` gets what happens meanwhile: how far it is behind, and that it starts again.
    """
    job, target = order.job, order.target
    if not job.streams:
        raise Error(Code.UNPROCESSABLE, f"{job.name} is of whole data: run it without --stream")
    if not target.checkpoint:
        raise Error(
            Code.UNPROCESSABLE,
            "--stream needs --checkpoint DIR, which remembers how far it came; one for each run",
        )
    if isinstance(target.out, ObjectPath):
        raise Error(
            Code.UNSUPPORTED,
            f"--out {target.out}: a stream adds files to a directory; name one, or --to a table",
        )
    options = job.read_options(order.options)
    frames = {Reads.EVENTS: source.stream()}
    known = source.frame(Reads.EVENTS)
    given = Given(frames, options, source.until, order.table(source.schema), known)
    result = job.compute(given)
    watch = Watch(job.name, say)
    keep_running(lambda: _started(result, order), watch, say)
    return [f"{job.name}: the stream is done; left out as too late: {watch.dropped}"]


def _sender(order: Order) -> Callable[[DataFrame, int], None]:
    """Return the writer of batches; a batch has a number, so that a repeated one has no effect."""
    target = order.target
    facts = {**(target.server or {}), "table": target.to, "job": order.name}
    facts |= {"patience": str(STREAM_PATIENCE_SECONDS)}

    def send(batch: DataFrame, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        writer = batch.write.format(FORMAT).options(**facts, cut=f"{query}#{number}")
        writer.mode("append").save()

    return send


def _started(result: DataFrame, order: Order) -> StreamingQuery:
    target, name = order.target, order.job.name
    writer = result.writeStream.queryName(name).option(
        "checkpointLocation", absolute(target.checkpoint)
    )
    if target.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{STREAM_PAUSE_SECONDS} seconds")
    if target.to:
        # Subscribers see a window grow: each batch has the rows that changed.
        return writer.outputMode("update").foreachBatch(_sender(order)).start()
    if target.out is None:
        return writer.outputMode("update").format("console").start()
    # Files are immutable, so only complete windows are written.
    return writer.outputMode("append").format("parquet").start(absolute(str(target.out / name)))
