"""The format ``rowcast`` of Spark: ``spark.read``, ``readStream``, ``write`` and ``writeStream``.

Spark finds it by name if Rowcast is installed (``pyspark_rowcast``), without registration.
"""

from functools import cached_property

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from rowcast.core.errors import Code, Error
from rowcast_lake.spark.increments import Increments
from rowcast_lake.spark.log_positions import SNAPSHOT
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.past import log_schema
from rowcast_lake.spark.sink import ResultWriter, StreamWriter
from rowcast_lake.spark.source import FilteredReader, Snapshot, SnapshotReader, spark_schema
from rowcast_lake.spark.tail import LogReader, TailReader


class RowcastSource(DataSource):
    """Tables of a Rowcast server."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "rowcast"

    @cached_property
    def _chosen(self) -> Options:
        return Options.of(self.options)

    @cached_property
    def _snapshot(self) -> Snapshot:
        chosen = self._chosen
        return Snapshot.of(chosen.place, chosen.snapshot, chosen.table)

    @property
    def _of_log(self) -> bool:
        """Whether a start in the log is given, so that a read is of events."""
        return self._chosen.text("startingcursor", SNAPSHOT) != SNAPSHOT

    @property
    def _of_increments(self) -> bool:
        """Whether a stream is of increments, and of no server's log."""
        return self._chosen.flag("increments")

    def schema(self) -> StructType:
        """Return the columns of the table's snapshot, or those of the option ``columns``."""
        columns = None
        if self._of_increments:
            columns = Increments(self._snapshot).columns()
        elif self._of_log:
            columns = log_schema(self._chosen, self._snapshot)
        return spark_schema(self._snapshot.chosen(self._chosen.columns, columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a snapshot, or of the log where a start in it is given."""
        if self._of_increments:
            raise Error(
                Code.INVALID,
                "increments=true is for readStream; read has the option startingCursor",
            )
        if self._of_log:
            return LogReader(self._chosen, self._snapshot, schema)
        kind = FilteredReader if self._chosen.flag("pushdown") else SnapshotReader
        return kind(self._snapshot, schema, self._chosen.parts_min)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a snapshot and then of the log, or of increments."""
        log = Increments(self._snapshot) if self._of_increments else None
        return TailReader(self._chosen, self._snapshot, schema, log)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        """Return the writer of a DataFrame."""
        return ResultWriter(self._chosen, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,  # noqa: ARG002
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        """Return the writer of a stream's batches."""
        return StreamWriter(self._chosen, overwrite=overwrite)
