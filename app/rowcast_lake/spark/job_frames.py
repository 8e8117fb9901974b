"""The job of a derived table in Spark: data frames of a snapshot in, rows out (W4)."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from rowcast.core.pipeline_limits import ROW_BYTES_MIN
from rowcast_lake.columns.records import Row, plain
from rowcast_lake.spark.session import LOCAL_MASTER, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Derive = Callable[["SparkSession", Mapping[str, "DataFrame"]], "DataFrame"]


def rows_of_frames(
    derive: Derive, name: str, paths: Mapping[str, str], master: str, bytes_max: int
) -> Iterator[Row]:
    """Yield the rows of the frame that ``derive`` returns for the tables at ``paths``.

    No more rows are fetched than a result of so many bytes can have, and one.
    """
    spark = start_session(f"rowcast {name}", master or LOCAL_MASTER)
    try:
        frames = {
            table: spark.read.option("recursiveFileLookup", "true").parquet(path)
            for table, path in paths.items()
        }
        found = derive(spark, frames).limit(bytes_max // ROW_BYTES_MIN + 1).toArrow()
    finally:
        spark.stop()
    for batch in found.to_batches():
        yield from map(plain, batch.to_pylist(maps_as_pydicts="strict"))
