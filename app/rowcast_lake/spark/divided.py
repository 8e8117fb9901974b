"""Divided tables: by what a snapshot's files are in directories, and the columns that these add.

Increments are in no such directories. A job reads both as one table, so their rows get the columns
by their own values, as ``rowcast_lake/columns/directories.py`` says; here Spark computes them.
"""

from typing import Final, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from rowcast.core.partitions import PREFIX, Partition, Unit, parsed_partition
from rowcast.core.snapshot_limits import SNAPSHOT_PARTITION_NAME_BYTES
from rowcast.core.tables import Table
from rowcast_lake.columns.directories import ESCAPED
from rowcast_lake.spark.places import Facts

_KINDS: Final = {Unit.DAY: T.DateType(), Unit.HOUR: T.IntegerType(), Unit.MONTH: T.StringType()}


def declared(manifest: Facts, table: str) -> Table | None:
    """Return a table's declaration; None for one of undeclared topics, or of an export for a role.

    An export for a role has no schema.
    """
    from rowcast.schema import parse_schema  # noqa: PLC0415 - with graphql, which is large

    text = str(manifest.get("schema") or "")
    if not text:
        return None
    schema = parse_schema(text, "schema of the snapshot")
    return next((item for item in schema.tables if item.name == table), None)


def partition_of(manifest: Facts, table: str) -> Partition | None:
    """Return by what a table's files are divided; None if they are not, or it is not known."""
    facts = cast("Facts", cast("Facts", manifest["tables"])[table])
    columns = str(facts.get("partition") or "")
    said = cast("Facts", manifest.get("partitions") or {}).get(table)
    if not columns:
        return None
    if said is not None:
        known = parsed_partition(str(said))
    elif columns.startswith(PREFIX):
        known = Partition(Unit.VALUE, columns.removeprefix(PREFIX))
    else:
        found = declared(manifest, table)  # of an earlier release, which did not say it
        known = found.partition if found is not None else None
    return known if known is not None and "/".join(known.columns) == columns else None


def with_directories(frame: DataFrame, partition: Partition | None) -> DataFrame:
    """Return a frame with the columns of a partition's directories, where it lacks them."""
    if partition is None or partition.column not in frame.columns:
        return frame
    if {*partition.columns} <= {*frame.columns}:
        return frame
    return frame.withColumns(_columns(frame, partition))


def _columns(frame: DataFrame, partition: Partition) -> dict[str, Column]:
    value, kind = F.col(f"`{partition.column}`"), frame.schema[partition.column].dataType
    if partition.unit is Unit.VALUE:
        (name,) = partition.columns
        return {name: F.when(_is_name(name, value), value) if _is_text(kind) else value}
    if not isinstance(kind, T.TimestampType):  # from before the attribute was a Date
        return {name: F.lit(None).cast(_KINDS[Unit(name)]) for name in partition.columns}
    moment = F.to_utc_timestamp(value, F.current_timezone())
    made = {
        Unit.DAY: F.to_date(moment),
        Unit.HOUR: F.hour(moment),
        Unit.MONTH: F.date_format(moment, "yyyy-MM"),
    }
    return {name: made[Unit(name)] for name in partition.columns}


def _is_text(kind: T.DataType) -> bool:
    return isinstance(kind, T.StringType)


def _is_name(column: str, value: Column) -> Column:
    """Whether a text is the name of a directory: not empty, and not too long with its escapes."""
    most = SNAPSHOT_PARTITION_NAME_BYTES - len(column) - 1
    plain = F.regexp_replace(value, ESCAPED, "")
    size = F.octet_length(value) + 2 * (F.length(value) - F.length(plain))
    return (size > 0) & (size <= most)
