"""Publication in an object store: each task writes its rows, the manifest comes last.

    <out>/<when>/<job>/part-00000.parquet
    <out>/<when>/manifest.json             a result without one is none
    <out>/newest                           an object with the name of the newest result

Tasks write by pyarrow, as a data source of Spark, so Spark needs no file system of its own for the
store, and no pandas. A task that is repeated writes the same object again. ``publication`` does the
same in a directory.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import RESULT_SECONDS_MAX, RESULTS_KEPT
from rowcast_lake.spark.parts import MANIFEST
from rowcast_lake.spark.places import NEWEST
from rowcast_lake.stores.object_paths import ObjectPath

NAME: Final = "%Y%m%dT%H%M%S%fZ"
FORMAT: Final = "rowcast_result"
_COMPRESSION: Final = "zstd"


def publish_objects(
    frame: DataFrame, out: ObjectPath, name: str, facts: Mapping[str, object]
) -> tuple[str, int, int, int]:
    """Write a frame and make it visible; return its place, rows, files and bytes."""
    try:
        _check(out)
        created = datetime.now(UTC)
        place = out / created.strftime(NAME)
        row = {"job": name, **facts, "created": created.isoformat().replace("+00:00", "Z")}
        row["columns"] = [
            {"name": field.name, "type": field.dataType.simpleString()} for field in frame.schema
        ]
        frame.sparkSession.dataSource.register(ResultSource)
        options = {"place": str(place), "name": name, "facts": json.dumps(row)}
        frame.write.format(FORMAT).options(**options).mode("append").save()
        made = json.loads((place / MANIFEST).read_bytes())
        (out / NEWEST).write_bytes(place.name.encode())
        _tidy(out, created)
        size = sum((place / path).stat().st_size for path in made["files"])
    except (OSError, pa.ArrowException) as error:
        raise Error(Code.BUSY, f"--out {out} cannot be reached or written: {error}") from error
    return f"{place}/{name}", int(made["rows"]), len(made["files"]), size


class ResultSource(DataSource):
    """What a job writes to an object store; it cannot be read."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        """Return the writer of a DataFrame."""
        options = {name: str(self.options[name]) for name in ("place", "name", "facts")}
        return ObjectWriter(**options, schema=schema)


@dataclass(frozen=True, slots=True)
class Part(WriterCommitMessage):
    """What one task wrote."""

    path: str
    rows: int


class ObjectWriter(DataSourceArrowWriter):
    """Writes the rows of each task as an object, then the manifest."""

    def __init__(self, place: str, name: str, facts: str, schema: StructType) -> None:
        self._place, self._name, self._facts = place, name, facts
        self._schema = schema

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of one task."""
        first = next((batch for batch in iterator if batch.num_rows), None)
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        if first is None:
            return Part("", 0)
        path = f"{self._name}/part-{number:05d}.parquet"
        return Part(path, self._write(path, first, iterator))

    def _write(self, path: str, first: Any, rest: Iterator[Any]) -> int:
        rows = 0
        with (
            (ObjectPath.of(self._place) / path).create() as stream,
            pq.ParquetWriter(stream, first.schema, compression=_COMPRESSION) as writer,
        ):
            for batch in (first, *rest):
                writer.write_batch(batch)
                rows += batch.num_rows
        return rows

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Write the manifest; of a result without rows a file, which declares its columns."""
        parts = [cast("Part", item) for item in messages if item is not None]
        parts = [part for part in parts if part.path]
        if not parts:
            empty = to_arrow_schema(self._schema, timezone="UTC").empty_table()
            path = f"{self._name}/part-00000.parquet"
            with (ObjectPath.of(self._place) / path).create() as stream:
                pq.write_table(empty, stream, compression=_COMPRESSION)
            parts = [Part(path, 0)]
        facts = json.loads(self._facts)
        facts["rows"] = sum(part.rows for part in parts)
        facts["files"] = sorted(part.path for part in parts)
        text = json.dumps(facts, indent=1) + "\n"
        (ObjectPath.of(self._place) / MANIFEST).write_bytes(text.encode())

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: without a manifest it is no result, and is removed when it is old."""


def _when(name: str) -> datetime | None:
    try:
        return datetime.strptime(name, NAME).replace(tzinfo=UTC)
    except ValueError:
        return None


def _check(out: ObjectPath) -> None:
    others = [
        path.name for path in out.iterdir() if path.name != NEWEST and _when(path.name) is None
    ]
    if others:
        raise Error(
            Code.CONFLICT,
            f"--out {out} holds other things ({others[0]}); name a prefix for results only",
        )


def _tidy(out: ObjectPath, now: datetime) -> None:
    """Remove old results, except the last ones, and what killed jobs left."""
    known = sorted((path for path in out.iterdir() if _when(path.name)), key=lambda path: path.name)
    whole = [path for path in known if (path / MANIFEST).is_file()]
    for path in whole[:-RESULTS_KEPT]:
        (path / MANIFEST).remove()
        path.remove()
    before = now - timedelta(seconds=RESULT_SECONDS_MAX)
    for path in known:
        began = _when(path.name)
        if path not in whole and began is not None and began < before:
            path.remove()
