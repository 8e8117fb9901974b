"""Partitions of time: the stretch that a directory stands for, and whether a filter reaches it.

    Dog/day=2026-11-21/hour=7     ``at`` from 07:00 until 08:00 of that day, in UTC

So a condition about the Date by which a table is divided excludes files, as one about ``day`` does.
An absent time is in a directory of its own, where no comparison holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import datasource as spark

from rowcast.core.partitions import NONE, Partition, Unit

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Times from one on until before another."""

    begin: datetime
    end: datetime

    def has(self, time: datetime) -> bool:
        """Whether it contains a time."""
        return self.begin <= time < self.end


def stretch_of(partition: Partition, values: Mapping[str, str]) -> Stretch | None:
    """Return the stretch that the values in a directory's name stand for; None for no time.

    The partition is one of hours, days or months.
    """
    if NONE in values.values():
        return None
    if partition.unit is Unit.MONTH:
        begin = datetime.strptime(values[Unit.MONTH], "%Y-%m").replace(tzinfo=UTC)
        return Stretch(begin, (begin + 31 * _DAY).replace(day=1))
    begin = datetime.fromisoformat(values[Unit.DAY]).replace(tzinfo=UTC)
    if partition.unit is Unit.DAY:
        return Stretch(begin, begin + _DAY)
    begin += int(values[Unit.HOUR]) * _HOUR
    return Stretch(begin, begin + _HOUR)


def reaches(
    filters: Sequence[spark.Filter], partition: Partition, values: Mapping[str, str]
) -> bool:
    """Whether all filters may hold of a row of a directory, by the time of its partition.

    A partition by value is none of time, and excludes nothing here.
    """
    if partition.unit is Unit.VALUE:
        return True
    stretch = stretch_of(partition, values)
    about = [item for item in filters if getattr(item, "attribute", ()) == (partition.column,)]
    return all(_may_hold(item, stretch) for item in about)


def _may_hold(item: spark.Filter, stretch: Stretch | None) -> bool:
    match item:
        case spark.IsNull():
            return stretch is None
        case spark.IsNotNull():
            return stretch is not None
        case spark.In(value=times):
            return any(_compared(spark.EqualTo, time, stretch) for time in times)
        case spark.EqualTo(value=time) | spark.GreaterThan(value=time):
            return _compared(type(item), time, stretch)
        case spark.GreaterThanOrEqual(value=time) | spark.LessThan(value=time):
            return _compared(type(item), time, stretch)
        case spark.LessThanOrEqual(value=time):
            return _compared(type(item), time, stretch)
    return True  # Spark applies each filter itself


def _compared(kind: type[spark.Filter], time: object, stretch: Stretch | None) -> bool:
    """Whether a comparison with a time may hold; what is no time in a zone excludes nothing."""
    if stretch is None or time is None:
        return False
    if not isinstance(time, datetime) or time.tzinfo is None:
        return True
    if kind is spark.EqualTo:
        return stretch.has(time)
    if kind in {spark.GreaterThan, spark.GreaterThanOrEqual}:
        return time < stretch.end
    return stretch.begin < time or (kind is spark.LessThanOrEqual and stretch.begin == time)
