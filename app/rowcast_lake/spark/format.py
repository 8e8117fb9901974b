"""The format ``rowcast`` of Spark: ``spark.read``, ``readStream``, ``write`` and ``writeStream``.

It is found by name wherever Rowcast is installed (``pyspark_rowcast``), without being registered.
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

from rowcast_lake.spark.options import Options
from rowcast_lake.spark.sink import ResultWriter, StreamWriter
from rowcast_lake.spark.source import FilteredReader, Snapshot, SnapshotReader, spark_schema
from rowcast_lake.spark.tail import TailReader


class RowcastSource(DataSource):
    """Tables of a Rowcast server."""

    @classmethod
    def name(cls) -> str:
        """Return what the format is called."""
        return "rowcast"

    @cached_property
    def _chosen(self) -> Options:
        return Options.of(self.options)

    @cached_property
    def _snapshot(self) -> Snapshot:
        chosen = self._chosen
        return Snapshot.of(chosen.place, chosen.snapshot, chosen.table)

    def schema(self) -> StructType:
        """Return the columns of the table, as its snapshot has them."""
        return spark_schema(self._snapshot.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a snapshot."""
        kind = FilteredReader if self._chosen.flag("pushdown") else SnapshotReader
        return kind(self._snapshot, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what reads a snapshot and then the log."""
        return TailReader(self._chosen, self._snapshot, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        """Return what writes a DataFrame."""
        return ResultWriter(self._chosen, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,  # noqa: ARG002
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        """Return what writes the batches of a stream."""
        return StreamWriter(self._chosen, overwrite=overwrite)
