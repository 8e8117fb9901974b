"""Columns of directories: what a partition's directory says of its rows, for rows that are in none.

A reader of a partitioned snapshot has them from the names of its directories. Events of the log and
of increments are in no such directory: here they get the same values, so that both are rows of one
table, of which a condition about such a column selects the same.
"""

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rowcast.core.partitions import NONE, Partition, Unit
from rowcast.core.snapshot_limits import SNAPSHOT_PARTITION_NAME_BYTES
from rowcast_lake.columns.joining import MOMENT

ESCAPED: Final = "[\\x00-\\x20\\x7f\"#%&'*+/:;<=>?\\\\\\[\\]^`{|}]"
"""The characters that Spark escapes, and those that a URL or a shell would take for its own.

A pattern that Python and Java read alike.
"""
_ESCAPES: Final = re.compile(ESCAPED)


def name_of(column: str, value: object) -> str:
    """Return a value as part of the path of its rows."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    name = _ESCAPES.sub(lambda found: f"%{ord(found[0]):02X}", text)
    fits = name and len(name.encode()) <= SNAPSHOT_PARTITION_NAME_BYTES - len(column) - 1
    return name if fits else NONE


def columns_of(partition: Partition, values: pa.Array) -> Mapping[str, pa.Array]:
    """Return the columns of a partition's directories, by the values of the attribute it is by.

    Null where a row has no value, or one that is no name; or no time, from before the attribute was
    a Date.
    """
    if partition.unit is Unit.VALUE:
        (name,) = partition.columns
        known = [None if _is_nameless(name, item) else item for item in values.to_pylist()]
        return {name: pa.array(known, values.type)}
    if not pa.types.is_timestamp(values.type):
        values = pa.nulls(len(values), MOMENT)
    plain = values.cast(pa.timestamp("us"))  # in UTC, for which no zone is looked up
    days = pc.floor_temporal(plain, unit=Unit.DAY).cast(pa.date32())
    if partition.unit is Unit.MONTH:
        months = [None if day is None else day.isoformat()[:7] for day in days.to_pylist()]
        return {Unit.MONTH: pa.array(months, pa.string())}
    if partition.unit is Unit.HOUR:
        return {Unit.DAY: days, Unit.HOUR: pc.hour(plain).cast(pa.int32())}
    return {Unit.DAY: days}


def _is_nameless(column: str, value: object) -> bool:
    return value is None or name_of(column, value) == NONE
