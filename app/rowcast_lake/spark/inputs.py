"""Inputs of a job: snapshots on disk, a server, or any Parquet files.

A directory of snapshots has cuts (all records as of one position) and pages of the log after them.
Together they give all events, each once, and for the part of the log that is gone the records that
remain of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, reduce
from pathlib import Path
from typing import Final, Protocol, cast

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT
from rowcast.core.suggestions import did_you_mean
from rowcast_lake.spark.divided import partition_of, with_directories
from rowcast_lake.spark.jobs.columns import OP, SEQ, TOLD
from rowcast_lake.spark.jobs.job import Reads
from rowcast_lake.spark.log_positions import EARLIEST, LogPositions
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.parts import (
    CHANGES,
    CUT,
    MERGED,
    PAGE,
    Part,
    chain,
    created,
    parts_in,
    reached,
)
from rowcast_lake.spark.past import base_of
from rowcast_lake.spark.places import NEWEST
from rowcast_lake.spark.source import Snapshot
from rowcast_lake.spark.unions import union
from rowcast_lake.stores.object_paths import ObjectPath

FORMAT: Final = "rowcast"
PAYLOAD: Final = "payload"
VALUE: Final = "value"

Moment = int | datetime | None


class Input(Protocol):
    """A source of frames, with their cut and time."""

    @property
    def cut(self) -> str:
        """The cursor of the frames; empty if unknown."""

    @property
    def until(self) -> datetime:
        """The time of the cut."""

    @property
    def schema(self) -> str:
        """The schema of the tables; empty if unknown."""

    def frame(self, what: Reads, at: Moment = None) -> DataFrame:
        """Return a frame; events after ``at`` may be left out."""

    def stream(self) -> DataFrame:
        """Return incoming events as an endless stream."""


class Snapshots:
    """One table in a directory of snapshots."""

    def __init__(self, spark: SparkSession, directory: Path | ObjectPath, table: str) -> None:
        self._spark, self._directory, self._table = spark, directory, table
        self._cuts = [part for part in parts_in(directory, CUT, of_log=False) if part.facts]
        pages = (parts_in(directory / name, PAGE, of_log=True) for name in (MERGED, CHANGES))
        self._pages = chain([part for found in pages for part in found if part.facts])
        if not self._cuts and not self._pages:
            raise Error(
                Code.NOT_FOUND,
                f"there is no snapshot in {directory}; make one with rowcast export, or name "
                "another place with --snapshots, --parquet or --url",
            )
        parts = [*self._cuts, *self._pages]
        if not any(part.has(table) for part in parts):
            names = sorted({name for part in parts for name in part.facts["tables"]})
            raise Error(
                Code.NOT_FOUND,
                f"{directory} has no table {table}{did_you_mean(table, names)}; it has "
                f"{', '.join(names)}",
            )
        self._newest = max(parts, key=lambda part: part.last)
        cuts = [cut for cut in self._cuts if cut.has(table)]
        self._partition = partition_of(cuts[-1].facts, table) if cuts else None

    @property
    def cut(self) -> str:
        """The cursor of the newest part."""
        return str(self._newest.facts["cut"])

    @property
    def until(self) -> datetime:
        """When the newest part was made."""
        return created(self._newest)

    @property
    def schema(self) -> str:
        """The schema of the tables at that time."""
        return str(self._newest.facts.get("schema") or "")

    def frame(self, what: Reads, at: Moment = None) -> DataFrame:
        """Return a frame of the table."""
        if what is Reads.EVENTS:
            return self._events()
        base = self._base(at)
        state = self._read([base] if base else [])
        pages = [page for page in self._pages if base is None or page.last > base.last]
        if base is not None and pages and pages[0].first > base.last + 1:
            raise Error(
                Code.GONE,
                f"the snapshot ends at {base.last} and the pages of the log begin at "
                f"{pages[0].first}: what is between is gone; make a new snapshot with "
                "rowcast export",
            )
        changes = self._read(pages)
        if changes is not None and base is not None:
            changes = changes.where(F.col(SEQ) > base.last)
        if what is Reads.CHANGES:
            return changes if changes is not None else _nothing(cast("DataFrame", state))
        if state is None:
            return cast("DataFrame", changes).drop(*TOLD).where(F.lit(False))
        return state.drop(*TOLD)

    def stream(self) -> DataFrame:
        """Return the events of the pages in ``changes``, each of which is written once.

        Merged pages are elsewhere. The columns are those of the newest page.
        """
        known = [page for page in self._pages if page.has(self._table)]
        if not known:
            raise Error(
                Code.NOT_FOUND,
                f"{self._directory} has no increment with {self._table} that a stream could begin "
                "with; make one with rowcast export --changes, or name the server, --url",
            )
        if isinstance(self._directory, ObjectPath):  # which Spark itself may be unable to read
            options = {"table": self._table, "increments": "true", "startingCursor": EARLIEST}
            reader = self._spark.readStream.format(FORMAT).options(**options)
            return _opened(reader.load(str(self._directory)))
        schema = _parquet(self._spark, [str(known[-1].place / self._table)]).schema
        places = f"{self._directory}/{CHANGES}/*/{self._table}"
        return _opened(self._spark.readStream.schema(schema).parquet(places))

    def _base(self, at: Moment) -> Part | None:
        """Return the newest snapshot from which the state at a moment can be computed."""
        if not self._cuts:
            return None
        if at is None:
            return self._cuts[-1]
        known = [cut for cut in self._cuts if reached(cut, at)]
        if known:
            return known[-1]
        if self._pages and self._pages[0].first <= 1:
            return None
        raise Error(
            Code.GONE,
            f"--at {at}: the oldest snapshot is of {self._cuts[0].last}, "
            f"{created(self._cuts[0]).isoformat()}; what was before it is not known here",
        )

    def _events(self) -> DataFrame:
        pages = self._read(self._pages)
        if pages is None:
            return _as_events(cast("DataFrame", self._read(self._cuts[-1:])))
        first, last = self._pages[0].first, self._pages[-1].last
        before = self._read([cut for cut in self._cuts if cut.last >= first - 1][:1])
        after = self._read([cut for cut in self._cuts[-1:] if cut.last > last])
        rows = [pages]
        if before is not None and first > 1:
            rows.append(_as_events(before.where(F.col(SEQ) < first)))
        if after is not None:
            rows.append(_as_events(after.where(F.col(SEQ) > last)))
        return reduce(union, rows)

    def _read(self, parts: Iterable[Part]) -> DataFrame | None:
        """Read the table's files of these parts, with the columns of directories.

        None when they have none.
        """
        found = [part for part in parts if part.has(self._table)]
        if not found:
            return None
        if isinstance(self._directory, ObjectPath):  # which Spark itself may be unable to read
            return reduce(union, (self._loaded(part) for part in found))
        alike = all(part.columns(self._table) == found[0].columns(self._table) for part in found)
        split = any(part.facts["tables"][self._table].get("partition") for part in found)
        places = [str(part.place / self._table) for part in found]
        if alike and not split:
            return self._divided(_parquet(self._spark, places))
        # Other columns, or partitions: read each part separately, and union by name.
        frames = (self._divided(_parquet(self._spark, [place])) for place in places)
        return reduce(union, frames)

    def _divided(self, frame: DataFrame) -> DataFrame:
        """Let increments have the columns of the newest snapshot's directories."""
        return with_directories(frame, self._partition)

    def _loaded(self, part: Part) -> DataFrame:
        """Read the table's files of a part by the format ``rowcast``."""
        name = str(part.place).removeprefix(f"{self._directory}/")
        options = {"table": self._table, "snapshot": name}
        frame = self._spark.read.format(FORMAT).options(**options).load(str(self._directory))
        return self._divided(_opened(frame))


class Files:
    """Any Parquet files, without a manifest."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self._path = spark, absolute(path)
        self._frame = _parquet(spark, [self._path])

    schema = ""

    @property
    def cut(self) -> str:
        """The time: files have no position, so each run has another cut."""
        return f"files:{self.until.isoformat(timespec='milliseconds')}"

    @cached_property
    def until(self) -> datetime:
        """Now, because files have no time of their own."""
        return datetime.now(UTC)

    def frame(self, what: Reads, at: Moment = None) -> DataFrame:
        """Return the files' rows; only snapshots have changes."""
        if what is Reads.CHANGES or at is not None:
            raise Error(
                Code.UNPROCESSABLE,
                f"{self._path} is only files: this job needs snapshots and the log after them, "
                "--snapshots DIR --table NAME, or a server, --url",
            )
        return self._frame

    def stream(self) -> DataFrame:
        """Return the files' rows, and those of files added to the directory later."""
        return self._spark.readStream.schema(self._frame.schema).parquet(self._path)


class Server:
    """One table of a server: its newest snapshot, its increments, and the server's log.

    Files are read over HTTP by ranges, or in the directory ``shared`` with the server.
    """

    def __init__(
        self,
        spark: SparkSession,
        server: Mapping[str, str],
        table: str,
        shared: Path | ObjectPath | None = None,
    ) -> None:
        self._spark = spark
        server = {**server, "path": str(shared)} if shared is not None else server
        chosen = Options.of({**server, "table": table})
        snapshot = Snapshot.of(chosen.place, NEWEST, table)
        self._options = {**server, "table": table}
        self._snapshot = snapshot
        self._facts, self._folder = snapshot.manifest, snapshot.folder
        self._now = datetime.now(UTC)
        self._positions = LogPositions(chosen.remote, snapshot.log_path)
        self._bases: dict[int | datetime, Snapshot | None] = {}
        self._until = ""
        """The end of the log that was read; empty while only the snapshot was."""

    @property
    def cut(self) -> str:
        """The cursor of the newest snapshot, or of the log's end where a frame has events."""
        return self._until or str(self._facts["cut"])

    @property
    def until(self) -> datetime:
        """Now: the log is read to its end."""
        return self._now

    @property
    def schema(self) -> str:
        """The schema of the tables at the snapshot's cut."""
        return str(self._facts.get("schema") or "")

    def frame(self, what: Reads, at: Moment = None) -> DataFrame:
        """Return a frame of the table."""
        if what is Reads.EVENTS:
            return self._log(EARLIEST)
        base = self._base(at)
        if what is Reads.CHANGES:
            return self._log(EARLIEST if base is None else str(base.manifest["cut"]))
        if base is None:  # the log has every event
            return self._read().drop(*TOLD).where(F.lit(False))
        return self._read(snapshot=base.folder).drop(*TOLD)

    def _base(self, at: Moment) -> Snapshot | None:
        """Return the snapshot from which the records at a moment follow; None: the log alone."""
        if at is None:
            return self._snapshot
        if at not in self._bases:
            self._bases[at] = base_of(self._snapshot, at, self._positions.trimmed())
        return self._bases[at]

    def stream(self) -> DataFrame:
        """Return the records, then incoming events."""
        return _opened(self._spark.readStream.format(FORMAT).options(**self._options).load())

    def _log(self, begin: str) -> DataFrame:
        """Return the events from one position up to now; executors keep them for further passes."""
        self._until = self._until or str(self._positions.end())
        read = self._read(startingCursor=begin, endingCursor=self._until)
        return read.persist(StorageLevel.DISK_ONLY)

    def _read(self, **more: str) -> DataFrame:
        """Read the snapshot, or the log, which continues it."""
        options = {**self._options, "snapshot": self._folder, **more}
        return _opened(self._spark.read.format(FORMAT).options(**options).load())


def open_input(
    spark: SparkSession,
    table: str,
    snapshots: Path | ObjectPath | None,
    parquet: str = "",
    server: Mapping[str, str] | None = None,
) -> Input:
    """Return the chosen input: files, else a server, else a directory of snapshots.

    With a server and a directory, the server's log continues what is in the directory.
    """
    if parquet:
        return Files(spark, parquet)
    if server is not None:
        return Server(spark, server, table, snapshots)
    if snapshots is None:
        raise AssertionError(table)
    return Snapshots(spark, snapshots, table)


def absolute(path: str) -> str:
    """Return an absolute path, because Java has another working directory; URLs are unchanged."""
    return path if ":/" in path else str(Path(path).absolute())


def _parquet(spark: SparkSession, places: Sequence[str]) -> DataFrame:
    try:
        return _opened(spark.read.parquet(*places))
    except AnalysisException as error:
        words = str(error).splitlines()[0]
        raise Error(
            Code.NOT_FOUND, f"{', '.join(places)} cannot be read as Parquet: {words}"
        ) from error


def _opened(frame: DataFrame) -> DataFrame:
    """Add a column with payloads of undeclared topics that are the text of a number."""
    kinds = dict(frame.dtypes)
    if kinds.get(PAYLOAD) != "binary" or VALUE in kinds:
        return frame
    return frame.withColumn(VALUE, F.col(PAYLOAD).cast("string").try_cast("double"))


def _as_events(state: DataFrame) -> DataFrame:
    """Return records as the events that wrote them."""
    return state.withColumn(OP, F.lit(PUT))


def _nothing(state: DataFrame) -> DataFrame:
    return state.withColumn(OP, F.lit(PUT)).where(F.lit(False))
